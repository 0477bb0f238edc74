"""What SET and + make of a value of another kind: implicit conversion where nothing is lost.

Sources: "SET performs implicit conversion if possible when the expression type and the existing
property type are different" (SQL action syntax); "arithmetic operators … follow the same semantics
as the C# operator binding in data type promotions and implicit conversions" (SQL filter syntax): in
C#, + with a string on either side joins texts. Texts are those of .NET's invariant culture, except
that of a timestamp, which is in ISO 8601.

The tables of docs/reference/filters.md are tested against this module.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

from bendybus.domain import durations, limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters.values import (
    INTEGER_MIN,
    UNSIGNED_MAX,
    Duration,
    Kind,
    Timestamp,
    Value,
    kind_of,
)

# Longer texts are no number, UUID, time or duration: they are not looked at.
_TEXT_CHARS_MAX: Final = 60
_INTEGER: Final = re.compile(r"[+-]?\d{1,20}\Z", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?\Z", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_ISO_DURATION: Final = re.compile(durations.ISO_PATTERN)
# A TimeSpan of .NET: [days.]hours:minutes[:seconds[.fraction]].
_TIME_SPAN: Final = re.compile(
    r"(?:(\d{1,8})\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d{1,7})?)?\Z", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_TICKS_A_MS: Final = 10_000
# .NET writes a double with an exponent from here on; below 0.0001 it does as Python does.
_PLAIN_MAX: Final = 1e15
_WHOLE_MAX: Final = 2.0**63


def as_text(value: Value) -> str | None:
    """Return the text of a value that is not None; None: it has none."""
    convert = _TEXTS.get(kind_of(value))
    return None if convert is None else convert(value)


def like(existing: Value, value: Value) -> Value:
    """Return what takes the place of a property: of the kind of what was there, if it can be."""
    if existing is None or value is None:
        return value
    convert = _TO.get(kind_of(existing))
    converted = None if convert is None else convert(existing, value)
    return value if converted is None else converted


def as_milliseconds(value: Value) -> int | None:
    """Return a time to live: a whole number, a duration, or a text of one; None: it is none.

    A duration is written as ISO 8601 has it, or as .NET writes a TimeSpan.
    """
    if type(value) is Duration:
        return min(value.ticks // _TICKS_A_MS, limits.TIME_TO_LIVE_MS_MAX)
    if type(value) is str:
        return _duration(value) if len(value) <= _TEXT_CHARS_MAX else None
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _WHOLE_MAX else None
    return value if type(value) is int else None


def _duration(text: str) -> int | None:
    if _INTEGER.match(text):
        return int(text)
    if found := _TIME_SPAN.match(text):
        days, hours, minutes, seconds, fraction = found.groups(default="0")
        if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
            return None
        whole_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
        return min(whole_s * 1_000 + round(float(fraction) * 1_000), limits.TIME_TO_LIVE_MS_MAX)
    if not _ISO_DURATION.match(text):
        return None
    try:
        parsed = durations.parse("", text)
    except InvalidArgument:
        return None
    return limits.TIME_TO_LIVE_MS_MAX if parsed is None else parsed


def _text_of_number(value: Value) -> str:
    if type(value) is not float:
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    mantissa, _, exponent = repr(value).partition("e")
    mantissa = mantissa.removesuffix(".0")
    if not exponent and abs(value) < _PLAIN_MAX:
        return mantissa
    if not exponent:
        # Python has an exponent only from 1e16 on.
        sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
        exponent, rest = f"+{len(digits.partition('.')[0]) - 1}", digits[1:].replace(".", "")
        mantissa = f"{sign}{digits[0]}.{rest}".rstrip("0").removesuffix(".")
    return f"{mantissa}E{exponent[0]}{exponent[1:]:0>2}"


def _text_of_moment(value: Value) -> str | None:
    assert isinstance(value, Timestamp)
    try:
        moment = _EPOCH + value.ms * _MS
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"


def _to_boolean(_: Value, value: Value) -> Value:
    if type(value) is str:
        return {"true": True, "false": False}.get(value.lower()) if len(value) < 6 else None
    return {0: False, 1: True}.get(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _to_number(existing: Value, value: Value) -> Value:
    if type(value) is bool:
        value = int(value)
    elif type(value) is str:
        value = _number(value)
    if type(existing) is float and type(value) is int:
        return float(value)
    if type(existing) is int and type(value) is float:
        whole = value.is_integer() and abs(value) < _WHOLE_MAX
        return int(value) if whole else None
    return value if type(value) in (int, float) else None


def _number(text: str) -> int | float | None:
    if len(text) > _TEXT_CHARS_MAX:
        return None
    if _INTEGER.match(text):
        number = int(text)
        return number if INTEGER_MIN <= number <= UNSIGNED_MAX else None
    return float(text) if _NUMBER.match(text) else None


def _to_uuid(_: Value, value: Value) -> Value:
    return UUID(value) if type(value) is str and _UUID.match(value) else None


def _to_moment(_: Value, value: Value) -> Value:
    if type(value) is not str or not 10 <= len(value) <= _TEXT_CHARS_MAX:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    # Without a zone it is in UTC, as all times of the bus.
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Timestamp((moment - _EPOCH) // _MS)


_TEXTS: Final[Mapping[Kind, Callable[[Value], str | None]]] = MappingProxyType(
    {
        Kind.TEXT: str,
        Kind.NUMBER: _text_of_number,
        # As C# writes them.
        Kind.BOOLEAN: lambda value: "True" if value else "False",
        Kind.UUID: str,
        Kind.TIMESTAMP: _text_of_moment,
    }
)
# (existing, value) → the value as what was there, None: it cannot be.
_TO: Final[Mapping[Kind, Callable[[Value, Value], Value]]] = MappingProxyType(
    {
        Kind.TEXT: lambda _, value: as_text(value),
        Kind.NUMBER: _to_number,
        Kind.BOOLEAN: _to_boolean,
        Kind.UUID: _to_uuid,
        Kind.TIMESTAMP: _to_moment,
    }
)
