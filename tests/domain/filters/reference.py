"""A second evaluation of SQL filters, for comparison: tuples, truth tables, regular expressions.

An expression is a tuple whose first entry names it. `render` writes it as SQL text with as few
parentheses as the precedence of operators allows; `interpret` computes what it means for a message.
Nothing of the product is used.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

Tree = tuple[Any, ...]
Truth = bool | None

AND = {
    (a, b): False if a is False or b is False else None if None in (a, b) else True
    for a in (True, False, None)
    for b in (True, False, None)
}
OR = {
    (a, b): True if a is True or b is True else None if None in (a, b) else False
    for a in (True, False, None)
    for b in (True, False, None)
}
NOT = {True: False, False: True, None: None}


class Failed(Exception):
    """Raised where the language says that evaluation fails."""


def evaluate(tree: Tree, message: Mapping[str, Any]) -> bool:
    """Whether a filter takes a message. Properties by lower-case name."""
    parts = _flat(tree)
    first = [each for each in parts if _is_condition(each)]
    for part in first + [each for each in parts if not _is_condition(each)]:
        if interpret(part, message) is not True:
            return False
    return True


def _flat(tree: Tree) -> list[Tree]:
    if tree[0] != "and":
        return [tree]
    return [part for operand in tree[1] for part in _flat(operand)]


def _is_condition(tree: Tree) -> bool:
    if tree[:2] != ("compare", "="):
        return False
    kinds = {tree[2][0], tree[3][0]}
    constants = [each for each in tree[2:] if each[0] == "constant"]
    return kinds == {"property", "constant"} and constants[0][1] is not None


def interpret(tree: Tree, message: Mapping[str, Any]) -> Truth:
    """Return the truth of a predicate."""
    kind, *rest = tree
    if kind in ("and", "or"):
        table, absorbing = (AND, False) if kind == "and" else (OR, True)
        result: Truth = not absorbing
        for operand in rest[0]:
            result = table[result, interpret(operand, message)]
            if result is absorbing:
                return result
        return result
    if kind == "not":
        return NOT[interpret(rest[0], message)]
    if kind == "compare":
        return compare(rest[0], value(rest[1], message), value(rest[2], message))
    if kind == "null":
        return value(rest[0], message) is None
    if kind == "exists":
        return rest[0].lower() in message
    if kind == "in":
        return contains(value(rest[0], message), rest[1], message)
    assert kind == "like"
    operand, pattern, escape = rest
    character = None if escape is None else value(escape, message)
    return like(value(operand, message), value(pattern, message), character, escape is None)


def value(tree: Tree, message: Mapping[str, Any]) -> Any:
    """Return the value of an expression."""
    kind, *rest = tree
    if kind == "constant":
        return rest[0]
    if kind == "property":
        return message.get(rest[0].lower())
    if kind == "sign":
        operand = value(rest[1], message)
        if operand is not None and _sort(operand) != "number":
            raise Failed
        return None if operand is None else arithmetic("-" if rest[0] == "-" else "+", 0, operand)
    assert kind == "arithmetic"
    return arithmetic(rest[0], value(rest[1], message), value(rest[2], message))


def _sort(given: Any) -> str:
    if isinstance(given, bool):
        return "boolean"
    return "number" if isinstance(given, int | float) else type(given).__name__


def compare(sign: str, left: Any, right: Any) -> Truth:
    """Return the truth of a comparison."""
    if left is None or right is None:
        return None
    if sign in ("=", "<>"):
        same = _sort(left) == _sort(right) and left == right
        return same if sign == "=" else not same
    if _sort(left) != _sort(right) or _sort(left) not in ("number", "str"):
        raise Failed
    tests: dict[str, Callable[[], bool]] = {
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: right < left,
        ">=": lambda: right <= left,
    }
    return tests[sign]()


def contains(left: Any, items: list[Tree], message: Mapping[str, Any]) -> Truth:
    """Return the truth of IN: that of an OR of equalities."""
    if left is None:
        return None
    result: Truth = False
    for item in items:
        result = OR[result, compare("=", left, value(item, message))]
        if result:
            return True
    return result


def like(text: Any, pattern: Any, escape: Any, without_escape: bool) -> Truth:
    """Return the truth of LIKE."""
    if text is None or pattern is None or (escape is None and not without_escape):
        return None
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise Failed
    expression, i = "", 0
    while i < len(pattern):
        if pattern[i] == escape:
            i += 1
            expression += re.escape(pattern[i])
        else:
            expression += {"%": ".*", "_": "."}.get(pattern[i], re.escape(pattern[i]))
        i += 1
    return re.fullmatch(expression, text, re.DOTALL) is not None


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    """Return the result of an operator."""
    if left is None or right is None:
        return None
    if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
        return text(left) + text(right)
    if _sort(left) != "number" or _sort(right) != "number":
        raise Failed
    if isinstance(left, int) and isinstance(right, int):
        return _integer(sign, left, right)
    left, right = float(left), float(right)
    if sign in "+-":
        # 0 - 0.0 is 0.0, and -0.0 equals it.
        return left + right if sign == "+" else left - right
    if sign == "*":
        return left * right
    if right == 0:
        if sign == "%" or left == 0 or math.isnan(left):
            return math.nan
        return math.inf if (left > 0) == (math.copysign(1, right) > 0) else -math.inf
    if sign == "/":
        return left / right
    return math.nan if math.isinf(left) or math.isnan(left) else math.fmod(left, right)


def text(given: Any) -> str:
    """Return the text of a value, as .NET has it."""
    if not isinstance(given, float):
        return str(given)
    if not math.isfinite(given):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(given), "NaN")
    exact = Decimal(repr(given))
    power = exact.adjusted() if exact else 0
    if -5 < power < 15:
        plain = f"{exact:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    leading = f"{exact.scaleb(-power):f}"
    leading = leading.rstrip("0").rstrip(".") if "." in leading else leading
    return f"{leading}E{'-' if power < 0 else '+'}{abs(power):02}"


def _integer(sign: str, left: int, right: int) -> int:
    if sign in "/%" and right == 0:
        raise Failed
    if sign in "/%":
        quotient = math.trunc(Fraction(left, right))
        result = quotient if sign == "/" else left - right * quotient
    else:
        result = {"+": left + right, "-": left - right, "*": left * right}[sign]
    if not -(2**63) <= result < 2**63:
        raise Failed
    return result


# How tightly each binds: what binds less tightly than its place allows is put in parentheses.
_BINDS = {"or": 1, "and": 2, "not": 3, "+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "sign": 3}


def render(tree: Tree, *, least: int = 0, whole: bool = False) -> str:
    """Return the SQL text of a predicate. `whole`: with every parenthesis."""
    kind, *rest = tree
    binds = _BINDS.get(kind, 4)
    if kind in ("and", "or"):
        text = f" {kind.upper()} ".join(render(e, least=binds + 1, whole=whole) for e in rest[0])
    elif kind == "not":
        text = f"NOT {render(rest[0], least=binds, whole=whole)}"
    elif kind == "compare":
        text = f"{render_value(rest[1], 0, whole)} {rest[0]} {render_value(rest[2], 0, whole)}"
    elif kind == "null":
        text = f"{render_value(rest[0], 0, whole)} IS NULL"
    elif kind == "exists":
        text = f"EXISTS({name(rest[0])})"
    elif kind == "in":
        items = ", ".join(render_value(each, 0, whole) for each in rest[1])
        text = f"{render_value(rest[0], 0, whole)} IN ({items})"
    else:
        text = f"{render_value(rest[0], 0, whole)} LIKE {render_value(rest[1], 0, whole)}"
        if rest[2] is not None:
            text += f" ESCAPE {render_value(rest[2], 0, whole)}"
    return f"({text})" if whole or binds < least else text


def render_value(tree: Tree, least: int, whole: bool) -> str:
    """Return the SQL text of an expression."""
    kind, *rest = tree
    if kind == "constant":
        return literal(rest[0])
    if kind == "property":
        return name(rest[0])
    if kind == "sign":
        binds = _BINDS["sign"]
        text = f"{rest[0]} {render_value(rest[1], binds, whole)}"
    else:
        binds = _BINDS[rest[0]]
        left = render_value(rest[1], binds, whole)
        text = f"{left} {rest[0]} {render_value(rest[2], binds + 1, whole)}"
    return f"({text})" if whole or binds < least else text


def literal(given: Any) -> str:
    """Return a constant as SQL."""
    if given is None:
        return "NULL"
    if isinstance(given, bool):
        return "TRUE" if given else "FALSE"
    if isinstance(given, str):
        return "'" + given.replace("'", "''") + "'"
    return repr(given) if isinstance(given, int) else f"{given:.6e}"


def name(given: str) -> str:
    """Return the name of a property as SQL."""
    return given if re.fullmatch("[a-z]+", given) else "[" + given.replace("]", "]]") + "]"
