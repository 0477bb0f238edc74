"""The syntax tree of SQL filters and actions. `parser` makes it, `compiler` reads it.

Chains (a AND b AND c, 1 + 2 - 3) are one node however long they are, so that only true nesting
makes a tree deep; how deep is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bendybus.domain.filters.values import Value


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
