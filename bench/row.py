"""One line of the result. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one system."""

    system: str
    what: str
    """Stable, for programs: `send`, `receive_complete`, …"""
    title: str
    unit: str
    """`/s`, `ms`, `%`, `MB`; empty when nothing was measured."""
    values: list[float] = field(default_factory=list)
    """One for each repetition."""
    frames: str = ""
    """How many messages travel together at each hop."""
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    """Microseconds of processor time per message, of each process of a role."""
    note: str = ""

    @property
    def median(self) -> float:
        """The middle of the repetitions; 0 when nothing was measured."""
        return statistics.median(self.values) if self.values else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the row for a JSON file."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {**found, "median": self.median}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Row":
        """Return the row of a JSON file."""
        return cls(**{name: found[name] for name in cls.__slots__})


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return the value that `share` of the given ones do not exceed."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latency_rows(
    system: str, what: str, title: str, seconds: Sequence[float], note: str = ""
) -> list[Row]:
    """Return p50 and p99 of single operations, in milliseconds."""
    return [
        Row(system, f"{what}_p{share}", f"{title}, p{share}", "ms",
            [1_000 * percentile(seconds, share / 100)], "1", note=note)
        for share in (50, 99)
    ]  # fmt: skip
