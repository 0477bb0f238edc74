"""JSON text → a value, with errors that say where: what importers of other programs' files read.

A byte order mark is skipped. Comments and keys that are written twice are errors: other readers
would keep one of them without a word.
"""

import json
import re
from typing import Any, Final

from bendybus.crds.errors import ManifestError, Problem

_TRAILING_COMMA: Final = re.compile(r",\s*([}\]])")


def parse(source: str, data: bytes) -> Any:
    """Return the value of a JSON file. Raises ManifestError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong(source, "is not UTF-8 text. Save it as UTF-8.") from error
    if not text.strip():
        raise _wrong(source, "is empty. Name a file with content.")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refused)
    except json.JSONDecodeError as error:
        hint = _hint(text, error.pos)
        where = f"{source}, line {error.lineno}"
        said = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise _wrong(where, f"is not JSON: {said} (column {error.colno}).{hint}") from error
    except RecursionError as error:
        raise _wrong(source, "is not JSON that can be read: it is nested too deeply.") from error
    except ValueError as error:
        raise _wrong(source, f"is not JSON: {error}.") from error


def _hint(text: str, position: int) -> str:
    """Return what to do about text that is not JSON at `position`; "": that is not known."""
    line = text[text.rfind("\n", 0, position) + 1 :].partition("\n")[0]
    if "//" in line or "/*" in line:
        return " JSON has no comments: remove them."
    # The position is that of the bracket or, from Python 3.13 on, of the comma.
    comma = _TRAILING_COMMA.match(text, max(text.rfind(",", 0, position + 1), 0))
    return f" Remove the comma before {comma[1]}." if comma else ""


def step(path: str, name: str) -> str:
    """Return the path of a field: PATH.name, or PATH["name"] for a name that dots would break."""
    plain = name.replace("_", "").replace("$", "").replace("-", "")
    if plain.isalnum() and not name[0].isdigit():
        return f"{path}.{name}" if path else name
    return f"{path}[{json.dumps(name)}]"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key)} is there twice")
        found[key] = value
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _wrong(where: str, sentence: str) -> ManifestError:
    return ManifestError(Problem(where, "", "", sentence))
