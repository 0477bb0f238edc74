"""Syntax tree → closures: compiled once when a rule is made, called for each message.

A predicate returns True, False or None (UNKNOWN); an expression returns a value or None (null,
not set, UNKNOWN). Both raise FilterError where the message has a value of the wrong kind.
"""

import dataclasses
from collections.abc import Callable, Mapping

from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import operators, syntax, values
from bendybus.domain.filters.values import FilterError, Int, Value
from bendybus.domain.filters.view import MessageView

Predicate = Callable[[MessageView], bool | None]
Expression = Callable[[MessageView], Value]


@dataclasses.dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles the trees of one text. `field` names the text in errors."""

    field: str
    # By folded name, without @.
    parameters: Mapping[str, Value]

    def predicate(self, node: syntax.Predicate) -> Predicate:
        """Return the closure of a predicate."""
        match node:
            case syntax.And():
                return _all([self.predicate(each) for each in node.operands])
            case syntax.Or():
                return _any([self.predicate(each) for each in node.operands])
            case syntax.Not():
                return _not(self.predicate(node.operand))
            case syntax.Comparison():
                return self._comparison(node)
            case syntax.In():
                return self._in(node)
            case syntax.Like():
                return self._like(node)
            case syntax.Exists():
                return _exists(node.property)
            case syntax.IsNull():
                operand = self.expression(node.operand)
                return lambda view: operand(view) is None

    def expression(self, node: syntax.Expression) -> Expression:
        """Return the closure of an expression."""
        constant = self.constant(node)
        if constant is not None:
            value = constant.value
            return lambda view: value
        match node:
            case syntax.Property():
                return property_value(node)
            case syntax.PropertyNamed():
                return self._property_named(node)
            case syntax.Signed():
                sign, operand = node.sign, self.expression(node.operand)
                return lambda view: operators.signed(sign, operand(view))
            case syntax.Arithmetic():
                return self._arithmetic(node)
        # The only one that is left.
        return lambda view: view.new_id()

    def constant(self, node: syntax.Expression) -> syntax.Constant | None:
        """Return a constant, or the value of a parameter as one; None for anything else."""
        if isinstance(node, syntax.Constant):
            return node
        if not isinstance(node, syntax.Parameter):
            return None
        name = values.fold(node.name)
        if name not in self.parameters:
            raise InvalidArgument(
                self.field, f"the parameter @{node.name} has no value. Give one with the rule."
            )
        value = self.parameters[name]
        return syntax.Constant(int(value) if type(value) is Int else value)

    def _arithmetic(self, node: syntax.Arithmetic) -> Expression:
        first = self.expression(node.first)
        rest = [(operators.COMPUTE[sign], self.expression(each)) for sign, each in node.rest]

        def compute(view: MessageView) -> Value:
            value = first(view)
            for apply, operand in rest:
                value = apply(value, operand(view))
            return value

        return compute

    def _comparison(self, node: syntax.Comparison) -> Predicate:
        left, right = self.expression(node.left), self.expression(node.right)
        compare = operators.COMPARE[node.operator]
        return lambda view: compare(left(view), right(view))

    def _in(self, node: syntax.In) -> Predicate:
        operand = self.expression(node.operand)
        constants = [each for item in node.items if (each := self.constant(item)) is not None]
        if len(constants) == len(node.items):
            return _in_constants(operand, [each.value for each in constants])
        items = [self.expression(each) for each in node.items]

        def test(view: MessageView) -> bool | None:
            value = operand(view)
            if value is None:
                return None
            found: bool | None = False
            for item in items:
                same = values.equal(value, item(view))
                if same:
                    return True
                if same is None:
                    found = None
            return found

        return test

    def _like(self, node: syntax.Like) -> Predicate:
        operand, pattern = self.expression(node.operand), self.constant(node.pattern)
        escape = None if node.escape is None else self.constant(node.escape)
        if pattern is None or (node.escape is not None and escape is None):
            return self._computed_like(node)
        if pattern.value is None or (escape is not None and escape.value is None):
            return _unknown_like(operand)
        try:
            matches = operators.like(
                _text("a pattern of LIKE", pattern.value),
                None if escape is None else _text("ESCAPE", escape.value),
            )
        except FilterError as error:
            raise InvalidArgument(self.field, str(error)) from None

        def test(view: MessageView) -> bool | None:
            value = operand(view)
            return None if value is None else matches(_text("the operand of LIKE", value))

        return test

    def _computed_like(self, node: syntax.Like) -> Predicate:
        operand, pattern = self.expression(node.operand), self.expression(node.pattern)
        escape = None if node.escape is None else self.expression(node.escape)

        def test(view: MessageView) -> bool | None:
            value, wanted = operand(view), pattern(view)
            character = None if escape is None else escape(view)
            if value is None or wanted is None or (escape is not None and character is None):
                return None
            matches = operators.like(
                _text("a pattern of LIKE", wanted),
                None if character is None else _text("ESCAPE", character),
            )
            return matches(_text("the operand of LIKE", value))

        return test

    def _property_named(self, node: syntax.PropertyNamed) -> Expression:
        name = self.expression(node.name)

        def read(view: MessageView) -> Value:
            value = name(view)
            if value is None:
                return None
            return property_value(_named(_text("the name in property()", value)))(view)

        return read


def property_value(node: syntax.Property) -> Expression:
    """Return the closure that reads a property."""
    if node.scope is syntax.Scope.USER:
        name = values.fold(node.name)
        return lambda view: view.user.get(name)
    found = syntax.find(node.name)
    if found is None:
        return _no_such_property(node.name)
    canonical = found.name
    return lambda view: view.system(canonical)


def _no_such_property(name: str) -> Expression:
    def fail(view: MessageView) -> Value:
        raise FilterError(
            f"sys.{name}: there is no such system property. "
            f"The system properties are {syntax.names()}."
        )

    return fail


def _named(name: str) -> syntax.Property:
    scope, dot, rest = name.partition(".")
    if dot and scope.lower() in ("sys", "user"):
        return syntax.property_of(syntax.Scope(scope.lower()), rest)
    return syntax.Property(syntax.Scope.USER, name)


def _exists(node: syntax.Property) -> Predicate:
    if node.scope is syntax.Scope.USER:
        name = values.fold(node.name)
        return lambda view: name in view.user
    read = property_value(node)
    return lambda view: read(view) is not None


def _text(what: str, value: Value) -> str:
    if type(value) is not str:
        raise FilterError(f"{what} must be a string (got {values.kind_of(value).value}).")
    return value


def _unknown_like(operand: Expression) -> Predicate:
    def test(view: MessageView) -> bool | None:
        # It may fail, as it would with any other pattern.
        operand(view)
        return None

    return test


def _in_constants(operand: Expression, constants: list[Value]) -> Predicate:
    keys = frozenset(values.key(each) for each in constants if values.key(each) is not None)
    otherwise = None if None in constants else False

    def test(view: MessageView) -> bool | None:
        value = operand(view)
        if value is None:
            return None
        return True if values.key(value) in keys else otherwise

    return test


def _all(operands: list[Predicate]) -> Predicate:
    def test(view: MessageView) -> bool | None:
        result: bool | None = True
        for operand in operands:
            found = operand(view)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return test


def _any(operands: list[Predicate]) -> Predicate:
    def test(view: MessageView) -> bool | None:
        result: bool | None = False
        for operand in operands:
            found = operand(view)
            if found:
                return True
            if found is None:
                result = None
        return result

    return test


def _not(operand: Predicate) -> Predicate:
    def test(view: MessageView) -> bool | None:
        found = operand(view)
        return None if found is None else not found

    return test
