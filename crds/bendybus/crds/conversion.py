"""The result of converting another program's file: manifests, and a report.

An importer makes a `Conversion`. Nothing of the file is dropped silently: its report has a finding
for every field, and for every default that differs from that of the other program.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from bendybus.crds.bundle import Bundle

Document = Mapping[str, Any]


class Outcome(StrEnum):
    """What became of a field."""

    TAKEN = "taken"
    # It means the same, and is written in another way.
    REWRITTEN = "rewritten"
    CHANGED = "changed"
    NOT_SUPPORTED = "not supported"
    # It is left out, and what the bus does with messages is the same without it.
    NO_EFFECT = "without effect"
    # The file does not set it, and the default of the other program is another one.
    DEFAULT = "default"


# Of `default`, nothing is in the file.
_OF_FIELDS: Final = tuple(each for each in Outcome if each is not Outcome.DEFAULT)
_LOSSES: Final = (Outcome.CHANGED, Outcome.NOT_SUPPORTED)
_ENDS: Final = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# The outcomes that a person should know, in the order of the report.
_REMARKS: Final = (*_LOSSES, Outcome.REWRITTEN, Outcome.NO_EFFECT, Outcome.DEFAULT)
# The number of places that a line names; the report in JSON has all of them.
_PLACES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a field is not taken, in a sentence, and whether something is lost by that."""

    detail: str
    outcome: Outcome = Outcome.NOT_SUPPORTED


def no_effect(detail: str) -> Reason:
    """Return the reason for a field whose absence changes nothing for messages."""
    return Reason(detail, Outcome.NO_EFFECT)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one field, or of all below it. `detail`: why, in a sentence."""

    path: str
    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.path}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The manifests, the bus that they describe, and what became of each field.

    `policies`: the own names of policies that are called otherwise in manifests, by their names
    there.
    """

    source: str
    documents: tuple[Document, ...]
    bundle: Bundle
    findings: tuple[Finding, ...]
    policies: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """Return how many fields had which outcome."""
        counted = Counter(each.outcome for each in self.findings)
        fields = sum(counted[each] for each in _OF_FIELDS)
        if not counted[Outcome.TAKEN]:
            # Written, not read: only what is lost has findings.
            subject = _count(len(self.bundle.entities), "entity", "entities")
            always: tuple[Outcome, ...] = _LOSSES
        else:
            subject, always = _count(fields, "field", "fields"), (Outcome.TAKEN, *_LOSSES)
        parts = [
            f"{counted[each]} {each}" for each in _OF_FIELDS if counted[each] or each in always
        ]
        if counted[Outcome.DEFAULT]:
            parts.append(f"{counted[Outcome.DEFAULT]} absent with another default")
        return f"{self.source}: {subject}: {', '.join(parts)}."

    def differences(self) -> list[Finding]:
        """Return the findings of fields that were changed or are not supported."""
        return [each for each in self.findings if each.outcome in _LOSSES]

    def remarks(self) -> Iterator[str]:
        """Give what a person should know: all but what was simply taken, the same said once."""
        alike: dict[tuple[Outcome, str, str], list[str]] = {}
        for each in self.findings:
            last = each.path.rpartition(".")[2].rstrip("0123456789[]")
            alike.setdefault((each.outcome, last, each.detail), []).append(each.path)
        for outcome in _REMARKS:
            for (had, name, detail), paths in alike.items():
                if had is outcome:
                    # Most entities lack the same.
                    many = outcome is Outcome.DEFAULT and len(paths) > _PLACES_MAX
                    where = f"{name} of {len(paths)} entities" if many else _places(paths)
                    yield one_line(f"{outcome}: {where}: {detail}")


def one_line(text: str) -> str:
    """Return a text without ends of lines: names in files may have them."""
    return _ENDS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _places(paths: Sequence[str]) -> str:
    """Return the places of a line: the first of them, since most entities are alike."""
    shown = ", ".join(dict.fromkeys(paths[:_PLACES_MAX]))
    more = len(paths) - _PLACES_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _count(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {many}"
