"""SQL filters: text → conditions and a rest. Imported when the first SQL filter is compiled."""

from collections.abc import Iterable, Mapping

from bendybus.domain.filters import conditions, cost, parser, syntax, system_properties, values
from bendybus.domain.filters.compiler import Compiler, Predicate
from bendybus.domain.filters.conditions import CompiledFilter, Condition
from bendybus.domain.filters.values import Value


def compiled(text: str, parameters: Mapping[str, Value], field: str) -> CompiledFilter:
    """Return the filter of a SQL text. Raises InvalidArgument if it is wrong.

    Of the operands of an AND that is the whole filter, each PROPERTY = CONSTANT is tested first,
    then the others in the order of the text, up to the first that is not true.
    """
    tree = parser.parse_filter(text, field)
    compiler = Compiler(field, parameters)
    found, rest, steps = [], [], 0
    for operand in _operands(tree):
        condition = _condition(operand, compiler)
        if condition is None:
            rest.append(compiler.predicate(operand))
            steps += cost.of(compiler, operand)
        else:
            found.append(condition)
    return CompiledFilter(conditions.in_order(found), _all_true(rest), steps)


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


def _all_true(rest: list[Predicate]) -> Predicate | None:
    if len(rest) < 2:
        return rest[0] if rest else None
    return lambda view: all(each(view) is True for each in rest)
