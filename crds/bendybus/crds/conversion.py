"""The result of converting another program's file: manifests, and a report.

An importer makes a `Conversion`. Nothing of the file is dropped silently: its report has a finding
for every field, and for every default that differs from that of the other program.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bendybus.crds.bundle import Bundle

Document = Mapping[str, Any]


class Outcome(StrEnum):
    """What became of a field."""

    TAKEN = "taken"
    CHANGED = "changed"
    NOT_SUPPORTED = "not supported"
    # The file does not set it, and the default of the other program is another one.
    DEFAULT = "default"


# Of `default`, nothing is in the file.
_OF_FIELDS: Final = (Outcome.TAKEN, Outcome.CHANGED, Outcome.NOT_SUPPORTED)


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
    """The manifests, the bus that they describe, and what became of each field."""

    source: str
    documents: tuple[Document, ...]
    bundle: Bundle
    findings: tuple[Finding, ...]

    def summary(self) -> str:
        """Return how many fields had which outcome."""
        counted = Counter(each.outcome for each in self.findings)
        if not counted[Outcome.TAKEN]:
            # Written, not read: only what is lost has findings.
            count = len(self.bundle.entities)
            entities = "1 entity" if count == 1 else f"{count} entities"
            parts = [f"{counted[each]} {each}" for each in _OF_FIELDS[1:]]
            return f"{self.source}: {entities}: {', '.join(parts)}."
        parts = [f"{counted[each]} {each}" for each in _OF_FIELDS]
        if counted[Outcome.DEFAULT]:
            parts.append(f"{counted[Outcome.DEFAULT]} absent with another default")
        return f"{self.source}: {_fields(sum(counted[each] for each in _OF_FIELDS))}: " + (
            ", ".join(parts) + "."
        )

    def differences(self) -> list[Finding]:
        """Return the findings of fields that were changed or are not supported."""
        return [
            each
            for each in self.findings
            if each.outcome in (Outcome.CHANGED, Outcome.NOT_SUPPORTED)
        ]

    def remarks(self) -> Iterator[str]:
        """Give what a person should know: all but what was simply taken, the same said once."""
        yield from map(str, self.differences())
        yield from _defaults([each for each in self.findings if each.outcome is Outcome.DEFAULT])


def _defaults(findings: Sequence[Finding]) -> Iterator[str]:
    """Give one line for each default, since most entities leave most settings out."""
    counted = Counter((each.path.rpartition(".")[2], each.detail) for each in findings)
    for (name, detail), count in counted.items():
        entities = "1 entity" if count == 1 else f"{count} entities"
        yield f"{Outcome.DEFAULT}: {name} of {entities}: {detail}"


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"
