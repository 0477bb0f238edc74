"""SQL actions: text → what they change. Imported when the first SQL action is compiled."""

from collections.abc import Callable, Mapping
from uuid import UUID

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import cost, parser, syntax, system_properties, values
from bendybus.domain.filters.changes import Changes, CompiledAction, UserChange
from bendybus.domain.filters.compiler import Compiler
from bendybus.domain.filters.system_properties import Setting, SystemProperty
from bendybus.domain.filters.values import FilterError, Kind, Value
from bendybus.domain.filters.view import MessageView

_Step = Callable[["_Copy"], None]


def compiled(text: str, parameters: Mapping[str, Value], field: str) -> CompiledAction:
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

    keys = frozenset(names & set(system_properties.KEYS))
    return CompiledAction(changes, keys, cost.of(compiler, *statements))


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
        value = expression(copy)
        _check_size(name, value)
        copy.user[folded] = value
        copy.user_changes[folded] = UserChange(name, value)

    return set_


def _settable(statement: syntax.Statement, field: str) -> SystemProperty:
    name = statement.target.name
    found = system_properties.find(name)
    if isinstance(statement, syntax.Remove):
        raise InvalidArgument(
            field, f"sys.{name}: a system property cannot be removed. Set it to NULL."
        )
    if found is None or found.setting is Setting.NO:
        raise InvalidArgument(
            field,
            f"sys.{name}: an action cannot set this system property. "
            f"It can set {system_properties.names(settable=True)}.",
        )
    return found


def _system_step(statement: syntax.Statement, target: SystemProperty, compiler: Compiler) -> _Step:
    assert isinstance(statement, syntax.Set)
    expression = compiler.expression(statement.value)

    def set_(copy: _Copy) -> None:
        value = expression(copy)
        if value is not None:
            _check_system(target, value)
        copy.system_changes[target.name] = value

    return set_


def _check_system(target: SystemProperty, value: Value) -> None:
    if values.kind_of(value) is not target.kind:
        raise FilterError(
            f"sys.{target.name} must be set to {target.kind.value} "
            f"(got {values.kind_of(value).value})."
        )
    if target.kind is Kind.TEXT:
        assert isinstance(value, str)
        if len(value) > target.length_max or "\0" in value:
            raise FilterError(
                f"sys.{target.name} must be at most {target.length_max} characters without NUL "
                f"(got {len(value)})."
            )
        _check_size(f"sys.{target.name}", value)
    elif type(value) is not int or not 0 < value <= limits.TIME_TO_LIVE_MS_MAX:
        raise FilterError(
            f"sys.{target.name} must be an integer of milliseconds, 1 to "
            f"{limits.TIME_TO_LIVE_MS_MAX} (got {value!r})."
        )


def _check_size(name: str, value: Value) -> None:
    if type(value) is values.Composite:
        raise FilterError(f"{name} cannot be set to {Kind.COMPOSITE.value}.")
    if type(value) is str and len(value.encode()) > limits.PROPERTY_BYTES_MAX:
        raise FilterError(f"{name} must be set to at most {limits.PROPERTY_BYTES_MAX} bytes.")
