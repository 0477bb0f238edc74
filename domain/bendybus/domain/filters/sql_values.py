"""SQL texts with the values of their parameters written into them, for who cannot pass any."""

import math
import re
from collections.abc import Mapping
from typing import Final

from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import values
from bendybus.domain.filters.values import Value

# As the parser has them: what may hold an @, and parameters themselves.
_TOKEN: Final = re.compile(
    r"""
    '(?:[^']|'')*' | \[(?:[^\]]|\]\])+\] | "(?:[^"]|"")+"
    | (?P<minus>-\s*)? @(?P<name>[^\W\d]\w*)
    """,
    re.VERBOSE,
)
_IN_WORDS: Final = re.compile(r"[\w'\"\[\]$#]")
_WHOLE_MAX: Final = 2**63 - 1


def written(text: str, parameters: Mapping[str, Value]) -> str:
    """Return a text that means the same without parameters. `parameters`: by name, @ or not.

    A parameter without a value stays: the text is wrong anyway. Raises InvalidArgument for a value
    that no text has.
    """
    known = {values.fold(name.removeprefix("@")): value for name, value in parameters.items()}

    def replaced(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or values.fold(name) not in known:
            return found[0]
        # Two signs in a row would begin a comment in other languages of the kind.
        sign = "- " if found["minus"] else ""
        # A word before it, as in not@p, is no part of it, and neither is what follows.
        before = " " if _IN_WORDS.match(text, found.start() - 1) and found.start() else ""
        after = " " if _IN_WORDS.match(text, found.end()) else ""
        return f"{before}{sign}{_literal(name, known[values.fold(name)])}{after}"

    return _TOKEN.sub(replaced, text)


def _literal(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgument(name, "is not a number, or infinite: no text has it.")
    if isinstance(value, int) and value > _WHOLE_MAX:
        raise InvalidArgument(name, "has more than 64 bits with its sign: no text has it.")
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"
