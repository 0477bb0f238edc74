"""Reads the fields of a file of another program, and keeps what became of each.

An importer walks the file with one `FieldReader`. Names of fields are compared without case, since
the programs that write such files are not exact; null is the same as absent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import field_errors, json_text, suggestions
from bendybus.crds.conversion import Finding, Outcome, Reason
from bendybus.crds.errors import Problem

# A field as it is written: its path, and its value.
Field = tuple[str, Any]
TRUE_OR_FALSE: Final = "true or false"
WHOLE_NUMBER: Final = "a whole number"
# What values of a type look like where they are written in quotes.
_UNQUOTED: Final = {TRUE_OR_FALSE: "true|false", WHOLE_NUMBER: "-?[0-9]+"}
_NOTHING_USUAL: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType({})
# Values with which a field that has no effect says nothing.
_NOTHING: Final[tuple[Any, ...]] = (False, "false", "", [], {})
# A value is moved when a reader rearranges it, and when it is made a rule.
_MOVES_MAX: Final = 4
# A search for a name that is alike takes longer than all else about a field.
_HINTS_MAX: Final = 1_000
_NULL: Final = "null is the same as absent."


class FieldReader:
    """What was found in one file, in its order."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.findings: list[Finding] = []
        self.problems: list[Problem] = []
        # Paths of what should be an object and is not: nothing is missing there.
        self._wrong: set[str] = set()
        # Where a value is in the file, by the path that a reader gave it when it was rearranged.
        self.written: dict[str, str] = {}
        self._hints_left = _HINTS_MAX

    def taken(self, path: str, detail: str = "") -> None:
        """Note that a field means the same here."""
        self.findings.append(Finding(self.place(path), Outcome.TAKEN, detail))

    def rewritten(self, path: str, detail: str) -> None:
        """Note that a field means the same here, and is written in another way."""
        self.findings.append(Finding(self.place(path), Outcome.REWRITTEN, detail))

    def changed(self, path: str, detail: str) -> None:
        """Note that a field has another value here."""
        self.findings.append(Finding(self.place(path), Outcome.CHANGED, detail))

    def not_supported(self, path: str, detail: str) -> None:
        """Note that a field, with all below it, is lost here."""
        self.findings.append(Finding(self.place(path), Outcome.NOT_SUPPORTED, detail))

    def unknown(self, path: str, name: str, known: Iterable[str]) -> None:
        """Note a field that no program has, with the known one that is most like it."""
        self._hints_left -= 1
        hint = suggestions.did_you_mean(name, known) if self._hints_left > 0 else ""
        self.not_supported(path, f"is not a known field.{hint}")

    def left_out(self, path: str, reason: Reason) -> None:
        """Note that a field, with all below it, is left out, and why."""
        self.findings.append(Finding(self.place(path), reason.outcome, reason.detail))

    def default(self, path: str, detail: str) -> None:
        """Note that a field is absent, and that the other program has another default."""
        self.findings.append(Finding(self.place(path), Outcome.DEFAULT, detail))

    def problem(self, path: str, sentence: str) -> None:
        """Note that a field is wrong: no manifests can be made."""
        self.problems.append(Problem(self.source, "", self.place(path), sentence))

    def place(self, path: str) -> str:
        """Return where a path is in the file: below the nearest value above it that was moved."""
        for _ in range(_MOVES_MAX):
            head = path if self.written else ""
            while head and head not in self.written:
                head = head[: max(head.rfind("."), head.rfind("["), 0)]
            if not head:
                return path
            path = (self.written[head] + path[len(head) :]).lstrip(".")
        return path

    def fields(
        self,
        path: str,
        value: Any,
        known: Iterable[str],
        *,
        idle: Mapping[str, Reason],
        usual: Mapping[str, Callable[[Any], bool]] = _NOTHING_USUAL,
    ) -> dict[str, Field]:
        """Return the known fields of an object that are set, by their own names.

        `idle`: fields that are left out, and why. `usual`: whether a value of such a field means
        what is so here anyway, as false and what is empty do.
        """
        if not isinstance(value, dict):
            self.wrong(path, "an object, { … }", value)
            self._wrong.add(path)
            return {}
        if not value:
            self.taken(path, "is empty.")
        names = {name.lower(): name for name in (*known, *idle)}
        found: dict[str, Field] = {}
        for key, given in value.items():
            at = json_text.step(path, key)
            name = names.get(key.lower())
            if given is None:
                self.taken(at, _NULL)
            elif name is None:
                self.unknown(at, key, names.values())
            elif name in found:
                self.problem(at, f"is the same field as {found[name][0]}. Remove one of them.")
            elif name in idle and (given in _NOTHING or (name in usual and usual[name](given))):
                self.taken(at, "means nothing else here.")
            elif name in idle:
                self.left_out(at, idle[name])
            else:
                found[name] = at, given
        return found

    def required(
        self, path: str, found: Mapping[str, Field], name: str, *, shown: str = ""
    ) -> Field | None:
        """Return a field that must be there. `shown`: its name in the file, if it is another."""
        if name not in found and path not in self._wrong:
            self.problem(json_text.step(path, shown or name), "is missing. It is required.")
        return found.get(name)

    def items(self, field: Field | None) -> Iterator[Field]:
        """Yield the items of a list, with their paths; nothing if the field is absent."""
        if field is None:
            return
        path, value = field
        if not isinstance(value, list):
            self.wrong(path, "a list, [ … ]", value)
            return
        if not value:
            self.taken(path, "is empty.")
        for number, item in enumerate(value):
            yield f"{path}[{number}]", item

    def text(self, field: Field | None) -> str | None:
        """Return a text; None if there is none. Its finding is the caller's."""
        if field is None or isinstance(field[1], str):
            return None if field is None else field[1]
        self.wrong(field[0], "text", field[1])
        return None

    def wrong(self, path: str, wanted: str, value: Any) -> None:
        """Note a value of the wrong type."""
        quoted = isinstance(value, str) and _UNQUOTED.get(wanted)
        hint = " Remove the quotes." if quoted and re.fullmatch(quoted, value) else ""
        shown = field_errors.shown(value)
        self.problem(path, f"must be {wanted} (got {shown}).{hint}")
