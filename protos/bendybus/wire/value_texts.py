"""A text for every value of AMQP's simple types that has none of its own, also for unusual ones.

A bus takes what AMQP can write: moments beyond the year 9999, characters that are no code point,
UUIDs of other lengths (of the contract). No reader may fail on one: it would fail again and again.
"""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_BYTES: Final = 16


def of_moment(ms: int) -> str:
    """Return a moment as ISO-8601, or its milliseconds since 1970 beyond the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(ms)


def of_character(code: int) -> str:
    """Return a character, or `U+` and the number of what is none in UTF-8."""
    try:
        found = chr(code)
        found.encode()
    except (ValueError, OverflowError):
        return f"U+{code:04X}"
    return found


def of_uuid(data: bytes) -> str:
    """Return a UUID, or in hexadecimal digits what has not its length."""
    return str(uuid.UUID(bytes=data)) if len(data) == _UUID_BYTES else data.hex()
