"""What each walk may enter: a feature that lengthens the ways of others is seen at once.

Raising a budget is allowed, in a commit that says why. Lowering it is the purpose.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tools.walk.measure import Walk


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a walk may have of each."""

    files: int
    functions: int
    # Executed in one run.
    lines: int
    depth: int
    # Of one run, from one thread to another.
    hand_overs: float


BUDGETS: Final = {
    "send": Budget(67, 224, 1_700, 14, 6.5),
    "receive": Budget(67, 247, 1_950, 19, 7.2),
    "settle": Budget(52, 163, 1_250, 12, 6.5),
    "publish": Budget(75, 285, 2_200, 19, 6.5),
    "session": Budget(88, 400, 4_700, 17, 22.0),
    "transaction": Budget(80, 296, 2_780, 18, 13.5),
    "forward": Budget(82, 282, 2_560, 21, 8.5),
}


def beyond(walks: Iterable[Walk]) -> list[str]:
    """Return a sentence for each figure that is beyond its budget."""
    return [
        f"{walk.name} has {figure:g} {what}, of {limit:g} at most: python -m tools.walk "
        f"--list={walk.name} names its functions"
        for walk in walks
        for what, figure, limit in _compared(walk, BUDGETS[walk.name])
        if figure > limit
    ]


def _compared(walk: Walk, budget: Budget) -> list[tuple[str, float, float]]:
    return [
        ("files", walk.file_count, budget.files),
        ("functions", walk.function_count, budget.functions),
        ("lines", round(walk.lines), budget.lines),
        ("calls in depth", walk.depth, budget.depth),
        ("hand-overs between threads", round(walk.hand_overs, 1), budget.hand_overs),
    ]
