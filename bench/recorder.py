"""Measures spans of work: time on the wall, and processor time of each process that took part."""

import gc
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench import processes
from bench.row import Row

Roles = Mapping[str, Sequence[Sequence[int]]]


@dataclass(slots=True)
class _Span:
    count: int = 0
    values: list[float] = field(default_factory=list)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)


class Recorder:
    """Collects the repetitions of a system's measurements."""

    def __init__(self, system: str, roles: Roles) -> None:
        self._system = system
        # Each process of a role is a group of pids that count as one.
        self._roles: Roles = {"client": [[os.getpid()]], **roles}
        self._spans: dict[str, _Span] = {}

    @contextmanager
    def timing(self, what: str, count: int) -> Iterator[None]:
        """Measure the block, which handles `count` messages."""
        gc.collect()
        before, began = self._cpu(), time.perf_counter()
        yield
        took = time.perf_counter() - began
        after = self._cpu()
        span = self._spans.setdefault(what, _Span())
        span.count += count
        span.values.append(count / took)
        for role, usages in after.items():
            spent = span.cpu_s.setdefault(role, [0.0] * len(usages))
            for index, usage in enumerate(usages):
                spent[index] += usage - before[role][index]

    def row(self, what: str, title: str, frames: str, note: str = "") -> Row:
        """Return what was measured under a name."""
        span = self._spans[what]
        cpu_us = {
            role: [1e6 * spent / span.count for spent in usages]
            for role, usages in span.cpu_s.items()
        }
        return Row(self._system, what, title, "/s", span.values, frames, cpu_us, note)

    def _cpu(self) -> dict[str, list[float]]:
        return {
            role: [sum(processes.cpu_s(pid) for pid in group) for group in groups]
            for role, groups in self._roles.items()
        }
