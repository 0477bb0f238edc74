"""Values of properties as filters see them, and when two of them are equal.

Widths of integers and floats make no difference here: 1, 1 as an unsigned byte and 1.0 are equal.
Kinds do: the text "1" is never the number 1, and true is never 1.
"""

import dataclasses
import re
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeGuard, final
from uuid import UUID

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
UNSIGNED_MAX: Final = 2**64 - 1


class FilterError(Exception):
    """Raised when a filter or an action cannot be evaluated for a message.

    Not an error of the sender: the message is dead-lettered in the subscription if that is set so,
    with `REASON` and this sentence.
    """

    REASON: Final = "FilterException"


@final
class Int(int):
    """A whole number of a rule whose maker gave it 32 bits; an int has 64.

    It makes no difference to what the rule takes. Tools that compare the rules that they set with
    those that they find see one: an int and a long are not equal in .NET.
    """

    __slots__ = ()


@final
@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in milliseconds since 1970-01-01T00:00:00Z.

    `written`: as it stands in a rule, if that says more than `ms`, such as parts of a millisecond,
    or that there is no time zone. It is shown, and compared with nothing.
    """

    ms: int
    written: str = dataclasses.field(default="", compare=False)


@final
@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A TimeSpan of .NET, in ticks of 100 ns, which AMQP has as a described long."""

    ticks: int


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Composite:
    """A list or map, which the contract does not allow as a property: equal to nothing."""


class Kind(Enum):
    """What values are compared as; the value names it in sentences."""

    BOOLEAN = "a boolean"
    NUMBER = "a number"
    TEXT = "a string"
    BINARY = "binary data"
    UUID = "a UUID"
    TIMESTAMP = "a timestamp"
    DURATION = "a duration"
    COMPOSITE = "a list or map"


# None: null, not set, or UNKNOWN.
Value = bool | int | float | str | bytes | UUID | Timestamp | Duration | Composite | None

# By the exact type: bool is an int in Python, and must not be one here.
KINDS: Final[Mapping[type, Kind]] = MappingProxyType(
    {
        bool: Kind.BOOLEAN,
        int: Kind.NUMBER,
        Int: Kind.NUMBER,
        float: Kind.NUMBER,
        str: Kind.TEXT,
        bytes: Kind.BINARY,
        UUID: Kind.UUID,
        Timestamp: Kind.TIMESTAMP,
        Duration: Kind.DURATION,
        Composite: Kind.COMPOSITE,
    }
)
# A written moment with ten digits of a second and a time zone has 36.
MOMENT_CHARS_MAX: Final = 40
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)
_ORDERED: Final = frozenset({Kind.NUMBER, Kind.TEXT, Kind.TIMESTAMP, Kind.DURATION})
_BOUNDED: Final = frozenset({Kind.TEXT, Kind.BINARY})


def kind_of(value: object) -> Kind:
    """Return the kind of a value that is not None."""
    return KINDS[type(value)]


def equal(left: Value, right: Value) -> bool | None:
    """Return left = right; None (UNKNOWN) if either is null."""
    if left is None or right is None:
        return None
    kind = KINDS[type(left)]
    return kind is KINDS[type(right)] and kind is not Kind.COMPOSITE and left == right


def key(value: Value) -> Hashable:
    """Return what two values share exactly if they are equal; None: equal to nothing."""
    # NaN is unequal to itself.
    if value is None or value != value or type(value) is Composite:
        return None
    return KINDS[type(value)], value


def is_ordered(left: object, right: object) -> bool:
    """Whether <, <=, > and >= are defined between two values that are not None."""
    kind = KINDS[type(left)]
    return kind is KINDS[type(right)] and kind in _ORDERED


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, which true and false are not."""
    return type(value) is int or type(value) is float


def fold(name: str) -> str:
    """Return a property's name as it is compared: names are not case-sensitive."""
    return name.lower()


def folded(properties: Mapping[str, Value]) -> dict[str, Value]:
    """Return properties by folded name; of names that differ only in case, the one sorted first."""
    made = {name.lower(): value for name, value in properties.items()}
    if len(made) < len(properties):
        made = {name.lower(): properties[name] for name in sorted(properties, reverse=True)}
    return made


def check_constant(field: str, value: object) -> None:
    """Raise InvalidArgument unless `value` can be part of a filter or action."""
    if value is None:
        return
    kind = KINDS.get(type(value))
    if kind is None or kind is Kind.COMPOSITE:
        raise InvalidArgument(field, f"must be a simple value (got {type(value).__name__}).")
    if kind in _BOUNDED and len(value) > limits.RULE_VALUE_LENGTH_MAX:  # type: ignore[arg-type]
        raise InvalidArgument(
            field,
            f"must be at most {limits.RULE_VALUE_LENGTH_MAX} characters or bytes long "
            f"(got {len(value)}).",  # type: ignore[arg-type]
        )
    if isinstance(value, int) and not INTEGER_MIN <= value <= UNSIGNED_MAX:
        raise InvalidArgument(field, f"must fit into 64 bits (got {value}).")


def check_constants(
    field: str, values: Mapping[str, Value], count_max: int = limits.RULE_VALUES_MAX
) -> None:
    """Raise InvalidArgument unless `values` are the named values of a filter or action."""
    if len(values) > count_max:
        raise InvalidArgument(field, f"must be at most {count_max} values (got {len(values)}).")
    for name, value in values.items():
        if not 0 < len(name) <= limits.RULE_PROPERTY_NAME_CHARS_MAX:
            raise InvalidArgument(
                field,
                f"a name must be 1 to {limits.RULE_PROPERTY_NAME_CHARS_MAX} characters "
                f"(got {len(name)}).",
            )
        check_constant(f"{field}[{name!r}]", value)


def moment_ms(written: str) -> int:
    """Return the milliseconds since 1970 of a dateTime of XML, UTC where it names no zone.

    Rounded down: the last moment of .NET's calendar is in the last millisecond of ours. Raises
    ValueError.
    """
    if not _MOMENT.fullmatch(written):
        raise ValueError
    found = datetime.fromisoformat(written)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def is_written(written: str, ms: int) -> bool:
    """Whether a text is that of a moment, and of this one."""
    try:
        return len(written) <= MOMENT_CHARS_MAX and moment_ms(written) == ms
    except ValueError:
        return False
