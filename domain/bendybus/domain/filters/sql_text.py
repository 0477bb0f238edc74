"""SQL filters and actions: text → what runs, and what it may cost. Imported when one is compiled.

Costs are in steps of about 1 µs, for one message. The worst that is possible: properties have
32 KB, and everything is evaluated. Limits and turns count these steps instead of time, so that a
rule is refused, or not, on every machine alike. Each figure is measured by a test.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import conditions, conversion, parser, syntax, values
from bendybus.domain.filters.compiler import Compiler, Predicate
from bendybus.domain.filters.conditions import CompiledFilter, Condition
from bendybus.domain.filters.syntax import Setting, SystemProperty
from bendybus.domain.filters.values import FilterError, Kind, Value
from bendybus.domain.filters.view import Changes, CompiledAction, MessageView, UserChange

_Step = Callable[["_Copy"], None]
# Of anything that is not below: a comparison of two texts, an addition, AND, OR, NOT.
_OTHER: Final = 1
# The name is folded when it is known.
_NAMED_PROPERTY: Final = 50
# A text may be read as a duration.
_SET_SYSTEM: Final = 20
# The text is searched once for all parts of the pattern.
_LIKE: Final = 100
# … and with each character as so many bits.
_LIKE_WITH_ONE: Final = 700
# The pattern is compiled for each message.
_LIKE_COMPUTED: Final = 2_000


def compiled_filter(text: str, parameters: Mapping[str, Value], field: str) -> CompiledFilter:
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
            steps += cost_of(compiler, operand)
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
        known = syntax.find(side.name)
        return None if known is None else Condition(True, known.name, key)
    return None


def _all_true(rest: list[Predicate]) -> Predicate | None:
    if len(rest) < 2:
        return rest[0] if rest else None
    return lambda view: all(each(view) is True for each in rest)


def compiled_action(text: str, parameters: Mapping[str, Value], field: str) -> CompiledAction:
    """Return the action of a SQL text. Raises InvalidArgument if it is wrong.

    Statements are applied in order; each sees what those before it have changed.
    """
    compiler = Compiler(field, parameters)
    steps, names = list[_Step](), set[str]()
    statements = parser.parse_action(text, field)
    for statement in statements:
        if statement.target.scope is syntax.Scope.USER:
            steps.append(_user_step(statement, compiler))
            continue
        target = _settable(statement, field)
        # Compiled even if it is ignored: errors in it are found.
        step = _system_step(statement, target, compiler)
        if target.setting is Setting.YES:
            names.add(target.name)
            steps.append(step)

    def changes(view: MessageView) -> Changes:
        copy = _Copy(view)
        for step in steps:
            step(copy)
        return Changes(copy.user_changes, copy.system_changes)

    keys = frozenset(names & set(syntax.KEYS))
    return CompiledAction(changes, keys, cost_of(compiler, *statements))


class _Copy:
    """The view of a message with the changes so far."""

    __slots__ = ("_view", "system_changes", "user", "user_changes")

    def __init__(self, view: MessageView) -> None:
        self._view = view
        self.user = dict(view.user)
        self.user_changes: dict[str, UserChange] = {}
        self.system_changes: dict[str, Value] = {}

    def system(self, name: str) -> Value:
        if name in self.system_changes:
            return self.system_changes[name]
        return self._view.system(name)

    def new_id(self) -> UUID:
        return self._view.new_id()


def _user_step(statement: syntax.Statement, compiler: Compiler) -> _Step:
    name = statement.target.name
    folded = values.fold(name)
    if isinstance(statement, syntax.Remove):

        def remove(copy: _Copy) -> None:
            copy.user.pop(folded, None)
            copy.user_changes[folded] = UserChange(name, None, removed=True)

        return remove
    expression = compiler.expression(statement.value)

    def set_(copy: _Copy) -> None:
        value = conversion.like(copy.user.get(folded), expression(copy))
        _check_size(name, value)
        copy.user[folded] = value
        copy.user_changes[folded] = UserChange(name, value)

    return set_


def _settable(statement: syntax.Statement, field: str) -> SystemProperty:
    name = statement.target.name
    found = syntax.find(name)
    if isinstance(statement, syntax.Remove):
        raise InvalidArgument(
            field, f"sys.{name}: a system property cannot be removed. Set it to NULL."
        )
    if found is None or found.setting is Setting.NO:
        raise InvalidArgument(
            field,
            f"sys.{name}: an action cannot set this system property. "
            f"It can set {syntax.names(settable=True)}.",
        )
    return found


def _system_step(statement: syntax.Statement, target: SystemProperty, compiler: Compiler) -> _Step:
    assert isinstance(statement, syntax.Set)
    expression = compiler.expression(statement.value)

    def set_(copy: _Copy) -> None:
        value = expression(copy)
        copy.system_changes[target.name] = None if value is None else _as_system(target, value)

    return set_


def _as_system(target: SystemProperty, value: Value) -> Value:
    """Return a value that is not None as a system property has it. Raises FilterError."""
    if target.setting is Setting.IGNORED:
        return value
    if target.kind is not Kind.TEXT:
        return _lifetime(target, value)
    text = conversion.as_text(value)
    if text is None:
        raise FilterError(
            f"sys.{target.name} must be set to {target.kind.value}, or to a value that has a text "
            f"(got {values.kind_of(value).value})."
        )
    if len(text) > target.length_max or "\0" in text:
        raise FilterError(
            f"sys.{target.name} must be at most {target.length_max} characters without NUL "
            f"(got {len(text)})."
        )
    _check_size(f"sys.{target.name}", text)
    return text


def _lifetime(target: SystemProperty, value: Value) -> int:
    milliseconds = conversion.as_milliseconds(value)
    if milliseconds is None or not 0 < milliseconds <= limits.TIME_TO_LIVE_MS_MAX:
        shown = repr(value) if len(repr(value)) < 100 else values.kind_of(value).value
        raise FilterError(
            f"sys.{target.name} must be an integer of milliseconds, 1 to "
            f"{limits.TIME_TO_LIVE_MS_MAX}, or a duration such as 'PT5M' or '00:05:00' "
            f"(got {shown})."
        )
    return milliseconds


def _check_size(name: str, value: Value) -> None:
    if type(value) is values.Composite:
        raise FilterError(f"{name} cannot be set to {Kind.COMPOSITE.value}.")
    if type(value) is str and len(value.encode()) > limits.PROPERTY_BYTES_MAX:
        raise FilterError(f"{name} must be set to at most {limits.PROPERTY_BYTES_MAX} bytes.")


def cost_of(compiler: Compiler, *roots: syntax.Node) -> int:
    """Return the steps that trees may take together."""
    return sum(_cost_of_node(compiler, node) for node, _ in syntax.walk(*roots))


def _cost_of_node(compiler: Compiler, node: syntax.Node) -> int:
    match node:
        case syntax.PropertyNamed():
            return _NAMED_PROPERTY
        case syntax.Set() if node.target.scope is syntax.Scope.SYSTEM:
            return _SET_SYSTEM
        case syntax.Like():
            pattern = compiler.constant(node.pattern)
            escape = None if node.escape is None else compiler.constant(node.escape)
            if pattern is None or (node.escape is not None and escape is None):
                return _LIKE_COMPUTED
            text = pattern.value
            return _LIKE_WITH_ONE if isinstance(text, str) and "_" in text else _LIKE
    return _OTHER
