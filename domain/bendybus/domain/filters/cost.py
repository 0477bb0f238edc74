"""What a SQL text may cost for one message, in steps of about 1 µs, at worst.

The worst that is possible: properties have 32 KB, and everything is evaluated. Limits and turns
count these steps instead of time, so that a rule is refused, or not, on every machine alike.
Each figure is measured by a test.
"""

from typing import Final

from bendybus.domain.filters import syntax
from bendybus.domain.filters.compiler import Compiler

# Of anything that is not below: a comparison of two texts, an addition, AND, OR, NOT.
_OTHER: Final = 1
# The name is folded when it is known.
_NAMED_PROPERTY: Final = 50
# The text is searched once for all parts of the pattern.
_LIKE: Final = 100
# … and with each character as so many bits.
_LIKE_WITH_ONE: Final = 700
# The pattern is compiled for each message.
_LIKE_COMPUTED: Final = 2_000


def of(compiler: Compiler, *roots: syntax.Node) -> int:
    """Return the steps that trees may take together."""
    return sum(_of_node(compiler, node) for node, _ in syntax.walk(*roots))


def _of_node(compiler: Compiler, node: syntax.Node) -> int:
    match node:
        case syntax.PropertyNamed():
            return _NAMED_PROPERTY
        case syntax.Like():
            pattern = compiler.constant(node.pattern)
            escape = None if node.escape is None else compiler.constant(node.escape)
            if pattern is None or (node.escape is not None and escape is None):
                return _LIKE_COMPUTED
            text = pattern.value
            return _LIKE_WITH_ONE if isinstance(text, str) and "_" in text else _LIKE
    return _OTHER
