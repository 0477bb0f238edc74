"""What each walk may enter: a feature that lengthens the ways of others is seen at once.

Raising a budget is allowed, in a commit that says why. Lowering it is the purpose.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.walk import measure
from tools.walk.measure import Walk


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a walk may have of each."""

    files: int
    functions: int
    # Executed in one run, in these functions.
    lines: int
    depth: int
    # Of one run, from one thread to another.
    hand_overs: float


BUDGETS: Final = {
    "send": Budget(74, 261, 1_520, 14, 6.5),
    "receive": Budget(69, 275, 1_420, 19, 7.2),
    "settle": Budget(58, 192, 1_080, 12, 6.5),
    "publish": Budget(83, 324, 1_965, 19, 6.5),
    "session": Budget(97, 459, 3_800, 18, 22.0),
    "transaction": Budget(86, 323, 2_330, 18, 13.5),
    "forward": Budget(88, 332, 2_305, 21, 8.5),
}


def measured(
    folder: Path, *, idle_s: float = measure.IDLE_S, say: Callable[[str], None] = lambda _: None
) -> list[Walk]:
    """Measure all walks in `folder`; while one is beyond its budget, up to four times on two buses.

    The walks have what is common to all measurements: what a busy machine adds to one (a retry, a
    partition that seems slow) it spares another; what the code adds is in each.
    """
    found: list[Walk] = []
    for bus in ("first", "second"):
        own = folder / bus
        own.mkdir()
        with measure.walking(own, idle_s=idle_s, say=say) as walk:
            for _ in range(2):
                new = walk()
                found = list(map(measure.common, found, new)) if found else new
                if not beyond(found):
                    return found
    return found


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
