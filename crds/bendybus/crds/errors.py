"""What can be wrong with manifests.

BusError
└── ManifestError    one or more problems, each with its file, document and field
"""

from dataclasses import dataclass
from typing import ClassVar

from bendybus.domain.errors import BusError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, and a sentence that says what to do."""

    source: str
    subject: str
    field: str
    sentence: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.source, self.subject) if part)
        field = f"{self.field}: " if self.field else ""
        return f"{where}: {field}{self.sentence}"


class ManifestError(BusError):
    """Raised when manifests cannot be used; nothing was changed. Names every problem found."""

    reason: ClassVar[str] = "INVALID_ARGUMENT"

    def __init__(self, *problems: Problem) -> None:
        super().__init__(
            "\n".join(str(problem) for problem in problems),
            metadata={"field": problems[0].field},
        )
        self.problems = problems
