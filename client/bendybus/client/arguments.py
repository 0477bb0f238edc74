"""Checks of arguments: in the call, by name, before anything is queued.

Arguments become part of a request on the I/O thread; a value that protobuf rejects there would fail
other callers, too. So every text, number and time is checked here first. A wrong type raises
TypeError, a bad value InvalidArgumentError (a ValueError) whose `metadata["field"]` is the name.
"""

import math
import operator
import warnings
from datetime import datetime, timedelta
from typing import Any, Final, SupportsIndex, cast

from bendybus.client.exceptions import InvalidArgumentError
from bendybus.domain import limits

COUNT_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
TIMEOUT_S_DEFAULT: Final = limits.SEND_TIMEOUT_MS_DEFAULT / 1_000
# Longer than any program runs: longer durations mean forever.
SECONDS_MAX: Final = 1e9
_SHOWN_CHARS_MAX: Final = 100


def text(name: str, value: object, chars_max: int | None = None) -> str:
    """Return a valid text: str, no lone surrogates, at most `chars_max` characters."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: must be str (got {type(value).__name__})")
    if chars_max is not None and len(value) > chars_max:
        raise invalid(name, f"must be at most {chars_max} characters (got {len(value)})")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise not_unicode(name, value, exc.start) from None
    return value


def optional_text(name: str, value: object, chars_max: int | None = None) -> str | None:
    """Return a text as `text` does, or None."""
    return None if value is None else text(name, value, chars_max)


def count(name: str, value: object, *, least: int = 1, most: int = COUNT_MAX) -> int:
    """Return a whole number between `least` and `most`."""
    number = whole(name, value)
    if not least <= number <= most:
        raise invalid(name, f"must be between {least} and {most} (got {_shown(value)})")
    return number


def whole(name: str, value: object) -> int:
    """Return a whole number; any type that is a whole number is accepted."""
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise TypeError(f"{name}: must be int (got {type(value).__name__})") from None


def seconds(name: str, value: object) -> float:
    """Return a duration greater than 0; one longer than `SECONDS_MAX` means forever."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: must be a number of seconds (got {type(value).__name__})")
    if math.isnan(value) or value <= 0:
        raise invalid(name, f"must be greater than 0 (got {_shown(value)})")
    return min(value, SECONDS_MAX)


def delay_ms(value: object, tx: object = None) -> int:
    """Return the `delay` of an abandoned message in milliseconds; None: 0."""
    if value is None:
        return 0
    if tx is not None:
        raise invalid(
            "delay", "not allowed in a transaction; abandon without one, or outside of it"
        )
    number = seconds("delay", value.total_seconds() if isinstance(value, timedelta) else value)
    most_s = limits.ABANDON_DELAY_MS_MAX / 1_000
    if number > most_s:
        raise invalid("delay", f"must be at most 7 days (got {_shown(value)})")
    return max(1, round(number * 1_000))


def timeout(value: object) -> float:
    """Return the timeout of an operation in seconds: the argument `timeout`, or the default."""
    return TIMEOUT_S_DEFAULT if value is None else seconds("timeout", value)


def warn_of_unknown(options: dict[str, Any]) -> None:
    """Warn of keyword arguments that the method does not know.

    Raises ValueError for `tx`: the operation would be done outside of the transaction.
    """
    if options:
        if options.get("tx") is not None:
            raise invalid("tx", "this operation cannot be part of a transaction")
        warnings.warn(f"Unsupported keyword args: {options}", stacklevel=3)


def numbers(name: str, value: object) -> list[int]:
    """Return sequence numbers: one, or those in an iterable."""
    if isinstance(value, int):
        return [count(name, value, least=0, most=INT64_MAX)]
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: must be int or a list of int (got {type(value).__name__})")
    return [count(name, entry, least=0, most=INT64_MAX) for entry in value]


def data(name: str, value: object) -> bytes:
    """Return bytes."""
    if not isinstance(value, bytes):
        raise TypeError(f"{name}: must be bytes (got {type(value).__name__})")
    return value


def moment(name: str, value: object) -> datetime:
    """Return a point in time."""
    if not isinstance(value, datetime):
        raise TypeError(f"{name}: must be datetime (got {type(value).__name__})")
    return value


def invalid(name: str, sentence: str) -> InvalidArgumentError:
    """Return the error for a bad value of `name`."""
    return InvalidArgumentError(f"{name}: {sentence}", field=name)


def not_unicode(name: str, value: str, position: int) -> InvalidArgumentError:
    """Return the error for a text with a code point that UTF-8 cannot express."""
    return invalid(
        name,
        f"must be valid Unicode (got the lone surrogate {value[position]!a} at position "
        f"{position}); decode bytes with errors='replace', or send them as a body",
    )


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARS_MAX else f"{shown[:_SHOWN_CHARS_MAX]}…"
