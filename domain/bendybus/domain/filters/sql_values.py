"""SQL texts with the values of their parameters written into them, for who cannot pass any."""

import re
from collections.abc import Mapping
from typing import Final

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


def written(text: str, parameters: Mapping[str, Value]) -> str:
    """Return a text that means the same without parameters. `parameters`: by name, @ or not.

    A parameter without a value stays: the text is wrong anyway.
    """
    known = {values.fold(name.removeprefix("@")): value for name, value in parameters.items()}

    def replaced(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or values.fold(name) not in known:
            return found[0]
        # Two signs in a row would begin a comment in other languages of the kind.
        sign = "- " if found["minus"] else ""
        return sign + _literal(known[values.fold(name)])

    return _TOKEN.sub(replaced, text)


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"
