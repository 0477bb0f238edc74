"""Errors of official SDKs: the table that tests check, `errors.toml`, and what a run finds."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

TABLE: Final = Path(__file__).parent / "errors.toml"
SDKS: Final = ("python", "javascript", "java", "go")
# Fields of a row that are not those of an SDK.
_OWN: Final = ("title", "settings", "without")


@dataclass(frozen=True, slots=True)
class Found:
    """What a program sees: an error's class and reason, and how long that took, with all tries."""

    kind: str
    reason: str
    seconds: float
    # How often the bus refused it, if it counts that for the queue; 0: it does not.
    tries: int = 0

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return what a program printed, or the table says."""
        return cls(fields["class"], fields["reason"], fields["seconds"], fields.get("tries", 0))

    @property
    def line(self) -> str:
        """The value in the table."""
        return (
            f"{{ class = {json.dumps(self.kind)}, reason = {json.dumps(self.reason)}, "
            f"tries = {self.tries}, seconds = {self.seconds:.1f} }}"
        )


@dataclass(frozen=True, slots=True)
class Case:
    """An error, and what each SDK makes of it."""

    name: str
    title: str
    settings: Mapping[str, Any]
    without: Mapping[str, str]
    found: Mapping[str, Found]


def cases() -> list[Case]:
    """Return the table."""
    return [
        Case(
            name,
            row["title"],
            row.get("settings", {}),
            row.get("without", {}),
            {sdk: Found.of(row[sdk]) for sdk in SDKS if sdk in row},
        )
        for name, row in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
    ]


def write(found: Mapping[tuple[str, str], Found]) -> None:
    """Write what was found, by case and SDK, into the table; the rest stays as it is."""
    name, lines = "", []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        known = line.partition(" = ")[0]
        if (name, known) not in found:
            lines.append(line)
        if known == _last(name):
            lines += [f"{sdk} = {found[name, sdk].line}" for sdk in SDKS if (name, sdk) in found]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _last(name: str) -> str:
    """Return the last field of a row before those of SDKs."""
    row = tomllib.loads(TABLE.read_text(encoding="utf-8")).get(name, {})
    return [field for field in _OWN if field in row][-1] if row else ""
