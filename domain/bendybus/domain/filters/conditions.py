"""What is compiled of a filter: conditions that an index can look up, and a rest to evaluate."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from bendybus.domain.filters import parser, syntax, system_properties, values
from bendybus.domain.filters.compiler import Compiler, Predicate
from bendybus.domain.filters.values import Value
from bendybus.domain.filters.view import MessageView


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A property equals a constant."""

    # Of the system; else of the user, by its folded name.
    system: bool
    name: str
    # `values.key` of the constant.
    key: Hashable

    def holds(self, view: MessageView) -> bool:
        """Whether it is true, neither false nor unknown."""
        value = view.system(self.name) if self.system else view.user.get(self.name)
        return value is not None and values.key(value) == self.key


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledFilter:
    """A filter that is ready to be evaluated: all conditions hold, and the rest is true.

    Conditions come first and cannot fail. So a message that they do not fit is never an error,
    and it makes no difference whether an index has looked them up already.
    """

    conditions: tuple[Condition, ...] = ()
    # None: there is no rest.
    rest: Predicate | None = None

    def matches(self, view: MessageView) -> bool:
        """Whether the filter takes a message. Raises FilterError."""
        return all(each.holds(view) for each in self.conditions) and self.rest_matches(view)

    def rest_matches(self, view: MessageView) -> bool:
        """Return `matches` for a message that fits all conditions. Raises FilterError."""
        return self.rest is None or self.rest(view) is True


EVERYTHING: Final = CompiledFilter()
NOTHING: Final = CompiledFilter(rest=lambda view: False)


def of_values(system: Mapping[str, Value], user: Mapping[str, Value]) -> CompiledFilter:
    """Return the filter for messages that have all these properties; names are exact, folded."""
    found = [Condition(True, name, values.key(value)) for name, value in system.items()]
    found += [Condition(False, name, values.key(value)) for name, value in user.items()]
    return CompiledFilter(_sorted(found))


def of_sql(text: str, parameters: Mapping[str, Value], field: str) -> CompiledFilter:
    """Return the filter of a SQL text. Raises InvalidArgument if it is wrong.

    Of the operands of an AND that is the whole filter, each PROPERTY = CONSTANT is tested first,
    then the others in the order of the text, up to the first that is not true.
    """
    tree = parser.parse_filter(text, field)
    compiler = Compiler(field, parameters)
    conditions, rest = [], []
    for operand in _operands(tree):
        found = _condition(operand, compiler)
        if found is None:
            rest.append(compiler.predicate(operand))
        else:
            conditions.append(found)
    return CompiledFilter(_sorted(conditions), _all_true(rest))


def _operands(tree: syntax.Predicate) -> Iterable[syntax.Predicate]:
    """Yield the operands of an AND, and of the ANDs in parentheses among them, in order."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.And):
            waiting.extend(reversed(node.operands))
        else:
            yield node


def _condition(node: syntax.Predicate, compiler: Compiler) -> Condition | None:
    if not isinstance(node, syntax.Comparison) or node.operator != "=":
        return None
    for side, other in ((node.left, node.right), (node.right, node.left)):
        constant = compiler.constant(other)
        key = None if constant is None else values.key(constant.value)
        if key is None or not isinstance(side, syntax.Property):
            continue
        if side.scope is syntax.Scope.USER:
            return Condition(False, values.fold(side.name), key)
        known = system_properties.find(side.name)
        return None if known is None else Condition(True, known.name, key)
    return None


def _sorted(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    # One order for all filters, so that those with the same properties share their way to them.
    return tuple(sorted(conditions, key=lambda each: (each.system, each.name)))


def _all_true(rest: list[Callable[[MessageView], bool | None]]) -> Predicate | None:
    if len(rest) < 2:
        return rest[0] if rest else None
    return lambda view: all(each(view) is True for each in rest)
