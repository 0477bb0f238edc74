"""Faults, drawn from a seed: what breaks, when, and for how long."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.chaos.cluster import Cluster
from tests.chaos.history import History

# What can be done to a process, by weight.
FAULTS: Final = {
    "kill": 4, "stop": 4, "cut": 3, "hold": 3, "lose-answers": 3, "restart": 2, "kill-all": 1,
}  # fmt: skip
PAUSE_S: Final = (0.2, 1.2)
LASTS_S: Final = (0.2, 4.5)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: when it begins, what it hits (every process: "all"), how long it lasts."""

    at_s: float
    fault: str
    target: str
    lasts_s: float


def plan(seed: int, lasts_s: float, names: Sequence[str]) -> list[Step]:
    """Return the faults of a run; the same seed gives the same ones."""
    random = Random(seed)
    steps, at_s = [], 0.5
    while at_s < lasts_s:
        [fault] = random.choices(list(FAULTS), list(FAULTS.values()))
        target = "all" if fault == "kill-all" else random.choice(names)
        steps.append(Step(at_s, fault, target, min(random.uniform(*LASTS_S), lasts_s)))
        at_s += random.uniform(*PAUSE_S)
    return steps


class Nemesis:
    """Carries a plan out; blocking, on a thread of its own."""

    def __init__(self, cluster: Cluster, history: History, steps: Sequence[Step]) -> None:
        self._cluster = cluster
        self._history = history
        self._steps = steps
        # Whom a fault holds, so that no process gets two at a time.
        self._held: set[str] = set()
        self._mending: list[tuple[float, str, Callable[[], None], list[str]]] = []

    def run(self) -> None:
        """Break what the plan says; return when all is mended."""
        began = time.monotonic()
        waiting = list(self._steps)
        while waiting or self._mending:
            now = time.monotonic() - began
            while waiting and waiting[0].at_s <= now:
                self._break(waiting.pop(0), now)
            for due in [each for each in self._mending if each[0] <= now]:
                self._mending.remove(due)
                self._mend(due)
            time.sleep(0.02)

    def _break(self, step: Step, now: float) -> None:
        targets = self._cluster.names() if step.target == "all" else [step.target]
        if self._held.intersection(targets):
            return
        self._history.fault(f"{step.fault} {step.target} for {step.lasts_s:.1f} s", targets)
        self._held.update(targets)
        mends = [self._one(step.fault, name) for name in targets]
        mend = self._cluster.start_all if step.fault == "kill-all" else mends[0]
        self._mending.append(
            (now + step.lasts_s, f"{step.fault} {step.target} is over", mend, targets)
        )

    def _one(self, fault: str, name: str) -> Callable[[], None]:
        """Break one process or its line; return what mends it."""
        cluster = self._cluster
        lines = cluster.lines_to(name)

        def mend() -> None:
            for line in lines:
                line.mend()

        def reset() -> None:
            for line in lines:
                line.reset()

        match fault:
            case "stop":
                cluster.stop(name)
                return lambda: cluster.go_on(name)
            case "cut":
                for line in lines:
                    line.cut()
                return mend
            case "hold":
                for line in lines:
                    line.hold()
                return mend
            case "lose-answers":
                for line in lines:
                    line.swallow()
                return reset
            case "restart":
                cluster.ended_in_order(name)
            case _:
                cluster.kill(name)
        return lambda: cluster.start(name)

    def _mend(self, due: tuple[float, str, Callable[[], None], list[str]]) -> None:
        _, text, mend, targets = due
        mend()
        self._held.difference_update(targets)
        self._history.fault(text, targets, over=True)
