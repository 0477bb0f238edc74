"""What operators do with values. None is UNKNOWN, of any operand and as a result.

Integers are computed exactly and must fit into 64 signed bits; with a float in it, a computation
is one of doubles. Division of integers drops the fraction, as in C#.
"""

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from bendybus.domain import limits
from bendybus.domain.filters.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    FilterError,
    Value,
    equal,
    is_number,
    is_ordered,
    kind_of,
)

Comparing = Callable[[Value, Value], bool | None]
Computing = Callable[[Value, Value], Value]
_Number = int | float


def unequal(left: Value, right: Value) -> bool | None:
    """Return left <> right."""
    found = equal(left, right)
    return None if found is None else not found


def _ordering(sign: str, test: Callable[[object, object], bool]) -> Comparing:
    def compare(left: Value, right: Value) -> bool | None:
        if left is None or right is None:
            return None
        if not is_ordered(left, right):
            raise FilterError(
                f"{kind_of(left).value} cannot be compared with {kind_of(right).value} by {sign}."
            )
        return test(left, right)

    return compare


def _computing(sign: str, compute: Callable[[_Number, _Number], _Number]) -> Computing:
    def result(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        if is_number(left) and is_number(right):
            return _fitting(compute(left, right))
        if sign == "+" and type(left) is str and type(right) is str:
            return _joined(left, right)
        raise FilterError(f"{kind_of(left).value} {sign} {kind_of(right).value} is not defined.")

    return result


def signed(sign: str, operand: Value) -> Value:
    """Return +operand or -operand."""
    if operand is None:
        return None
    if not is_number(operand):
        raise FilterError(f"{sign} {kind_of(operand).value} is not defined.")
    return operand if sign == "+" else _fitting(-operand)


def _fitting(number: _Number) -> _Number:
    if type(number) is int and not INTEGER_MIN <= number <= INTEGER_MAX:
        raise FilterError("the result of integer arithmetic does not fit into 64 bits.")
    return number


def _joined(left: str, right: str) -> str:
    if len(left) + len(right) > limits.PROPERTY_BYTES_MAX:
        raise FilterError(f"a string is longer than {limits.PROPERTY_BYTES_MAX} characters.")
    return left + right


def _divided(left: _Number, right: _Number) -> _Number:
    if type(left) is int and type(right) is int:
        if right == 0:
            raise FilterError("an integer is divided by zero.")
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if right != 0:
        return left / right
    # As IEEE 754 has it, which Python refuses to do.
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _remainder(left: _Number, right: _Number) -> _Number:
    if type(left) is int and type(right) is int:
        if right == 0:
            raise FilterError("an integer is divided by zero.")
        remainder = abs(left) % abs(right)
        return remainder if left >= 0 else -remainder
    if right == 0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


COMPARE: Final[Mapping[str, Comparing]] = MappingProxyType(
    {
        "=": equal,
        "<>": unequal,
        "<": _ordering("<", operator.lt),  # type: ignore[arg-type]
        "<=": _ordering("<=", operator.le),  # type: ignore[arg-type]
        ">": _ordering(">", operator.gt),  # type: ignore[arg-type]
        ">=": _ordering(">=", operator.ge),  # type: ignore[arg-type]
    }
)
COMPUTE: Final[Mapping[str, Computing]] = MappingProxyType(
    {
        "+": _computing("+", operator.add),
        "-": _computing("-", operator.sub),
        "*": _computing("*", operator.mul),
        "/": _computing("/", _divided),
        "%": _computing("%", _remainder),
    }
)
