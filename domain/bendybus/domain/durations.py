"""ISO-8601 durations ↔ milliseconds; `None` is without end (TimeSpan.MaxValue of Service Bus)."""

import contextlib
from datetime import timedelta
from typing import Final

import isodate

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument

FOREVER_ISO: Final = "P10675199DT2H48M5.4775807S"
_SECONDS: Final = r"\d+(\.\d{1,7})?S"
# More than twice FOREVER_ISO.
_TEXT_CHARS_MAX: Final = 60
# Without look-ahead, which Kubernetes (RE2) does not know.
ISO_PATTERN: Final = rf"^P(\d+D|(\d+D)?T(\d+H(\d+M)?({_SECONDS})?|\d+M({_SECONDS})?|{_SECONDS}))$"


def parse(field: str, text: str) -> int | None:
    """Return the milliseconds of an ISO-8601 duration of days, hours, minutes and seconds.

    Raises InvalidArgument that names `field`: years and months have no fixed length here.
    """
    value: object = None
    with contextlib.suppress(isodate.ISO8601Error, TypeError, ValueError, OverflowError):
        # Its length first: the parser takes milliseconds for each 10 KB.
        value = isodate.parse_duration(text) if len(text) <= _TEXT_CHARS_MAX else None
    # The parser takes "PT" and "P1DT", where something is missing, for zero and a day.
    if not isinstance(value, timedelta) or value < timedelta(0) or text.endswith(("P", "T")):
        raise InvalidArgument(
            field, f"must be an ISO 8601 duration such as PT30S, PT5M or P7D (got {text!r:.100})."
        )
    return bounded(round(value / timedelta(milliseconds=1)))


def bounded(milliseconds: int | None) -> int | None:
    """Return `milliseconds`, or None if they are none, negative or as good as without end."""
    if milliseconds is None or not 0 <= milliseconds < limits.TIME_TO_LIVE_MS_MAX:
        return None
    return milliseconds


def render(milliseconds: int | None) -> str:
    """Return the shortest ISO-8601 text of a duration."""
    if milliseconds is None:
        return FOREVER_ISO
    text: str = isodate.duration_isoformat(timedelta(milliseconds=milliseconds))
    return text if text != "P0D" else "PT0S"
