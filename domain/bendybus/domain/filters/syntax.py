"""The syntax tree of SQL filters and actions. `parser` makes it, `compiler` reads it.

Chains (a AND b AND c, 1 + 2 - 3) are one node however long they are, so that only true nesting
makes a tree deep; how deep is bounded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from bendybus.domain import limits
from bendybus.domain.filters.values import Kind, Value

_TEXT_MAX: Final = limits.PROPERTY_BYTES_MAX
# Newer names of the SDKs for the same properties.
_ALIASES: Final = {
    "Subject": "Label",
    "ScheduledEnqueueTime": "ScheduledEnqueueTimeUtc",
    "EnqueuedTime": "EnqueuedTimeUtc",
    "ExpiresAt": "ExpiresAtUtc",
}
# Of `sys.`, what a receiver gets as application properties.
_IN_USER: Final = ("DeadLetterReason", "DeadLetterErrorDescription")
# These decide the partition of a message.
KEYS: Final = ("SessionId", "PartitionKey")


class Scope(Enum):
    """Where a property is looked up."""

    SYSTEM = "sys"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; None is NULL."""

    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    """A property, by its name as it is written."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """@name: a value that is given beside the text."""

    name: str


@dataclass(frozen=True, slots=True)
class NewId:
    """newid()."""


@dataclass(frozen=True, slots=True)
class PropertyNamed:
    """property(name) or p(name): the name is computed."""

    name: "Expression"


@dataclass(frozen=True, slots=True)
class Signed:
    """-operand or +operand."""

    sign: str
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """first, then each (operator, operand), from left to right; all of one precedence."""

    first: "Expression"
    rest: tuple[tuple[str, "Expression"], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """left OPERATOR right."""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class IsNull:
    """operand IS NULL."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class In:
    """operand IN (items)."""

    operand: "Expression"
    items: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Like:
    """operand LIKE pattern, with ESCAPE or without."""

    operand: "Expression"
    pattern: "Expression"
    escape: "Expression | None" = None


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS(property)."""

    property: Property


@dataclass(frozen=True, slots=True)
class Not:
    """NOT operand; also of IS NOT NULL, NOT IN and NOT LIKE."""

    operand: "Predicate"


@dataclass(frozen=True, slots=True)
class And:
    """All operands."""

    operands: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any operand."""

    operands: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class Set:
    """SET target = value."""

    target: Property
    value: "Expression"


@dataclass(frozen=True, slots=True)
class Remove:
    """REMOVE target."""

    target: Property


Expression = Constant | Property | Parameter | NewId | PropertyNamed | Signed | Arithmetic
Predicate = Comparison | IsNull | In | Like | Exists | Not | And | Or
Statement = Set | Remove
Node = Expression | Predicate | Statement


def children(node: Node) -> tuple[Node, ...]:
    """Return what is directly inside a node, in the order of the text."""
    match node:
        case Signed() | IsNull() | Not():
            return (node.operand,)
        case PropertyNamed():
            return (node.name,)
        case Arithmetic():
            return (node.first, *(operand for _, operand in node.rest))
        case Comparison():
            return (node.left, node.right)
        case In():
            return (node.operand, *node.items)
        case Like():
            escape = () if node.escape is None else (node.escape,)
            return (node.operand, node.pattern, *escape)
        case Exists():
            return (node.property,)
        case And() | Or():
            return node.operands
        case Set():
            return (node.target, node.value)
        case Remove():
            return (node.target,)
    return ()


def walk(*roots: Node) -> Iterator[tuple[Node, int]]:
    """Yield (node, depth) of all nodes. Never recursive: a tree may be deeper than the stack."""
    waiting = [(root, 1) for root in roots]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in children(node))


class Setting(Enum):
    """Whether an action may set a property."""

    NO = "no"
    YES = "yes"
    # A copy is made when the message activates: its time has come.
    IGNORED = "ignored"


class SystemProperty(NamedTuple):
    """One property. `name` is what a view is asked for."""

    name: str
    kind: Kind
    setting: Setting = Setting.NO
    # Of a text that an action sets.
    length_max: int = 0


_ALL: Final = (
    SystemProperty("MessageId", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("SessionId", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("PartitionKey", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("CorrelationId", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("Label", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("To", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("ReplyTo", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("ReplyToSessionId", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("ContentType", Kind.TEXT, Setting.YES, _TEXT_MAX),
    # A number of milliseconds.
    SystemProperty("TimeToLive", Kind.NUMBER, Setting.YES),
    SystemProperty("ScheduledEnqueueTimeUtc", Kind.TIMESTAMP, Setting.IGNORED),
    SystemProperty("EnqueuedTimeUtc", Kind.TIMESTAMP),
    SystemProperty("ExpiresAtUtc", Kind.TIMESTAMP),
    SystemProperty("SequenceNumber", Kind.NUMBER),
    SystemProperty("EnqueuedSequenceNumber", Kind.NUMBER),
    SystemProperty("DeliveryCount", Kind.NUMBER),
    SystemProperty("Size", Kind.NUMBER),
    SystemProperty("DeadLetterSource", Kind.TEXT),
)
ALL: Final[Mapping[str, SystemProperty]] = {each.name: each for each in _ALL}
_BY_FOLDED_NAME: Final[Mapping[str, SystemProperty]] = {
    **{name.lower(): found for name, found in ALL.items()},
    **{alias.lower(): ALL[name] for alias, name in _ALIASES.items()},
}


def property_of(scope: Scope, name: str) -> Property:
    """Return a property of a scope, where a message has it."""
    if scope is Scope.SYSTEM:
        for own in _IN_USER:
            if own.lower() == name.lower():
                return Property(Scope.USER, own)
    return Property(scope, name)


def find(name: str) -> SystemProperty | None:
    """Return the property of a name, in whatever case; None: there is none."""
    return _BY_FOLDED_NAME.get(name.lower())


def names(*, settable: bool = False) -> str:
    """Return the names, for a sentence."""
    return ", ".join(each.name for each in _ALL if not settable or each.setting is Setting.YES)
