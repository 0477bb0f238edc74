"""Where a frame's messages without a key begin: round robin over what a connection sends.

The bus deals such messages over partitions in runs of `RUN`, the first to the partition of the
frame's lane. A lane is one of LANES, the largest number of partitions; with fewer of them, several
lanes are the same partition. The lane is chosen so that the fullest one is as empty as can be:
frames differ in size, and going round frame by frame could fill every other partition only.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bendybus.domain import limits

if TYPE_CHECKING:
    from bendybus.client.sending import Unit

LANES: Final = limits.STANDARD_PARTITION_COUNT
# As bendybus.frontend.routing.RUN.
RUN: Final = 64
_ENTITIES_MAX: Final = 1_000


class Dealer:
    """What the lanes of each entity got."""

    def __init__(self) -> None:
        self._loads: dict[str, list[int]] = {}
        self._turn = 0

    def lane(self, entity_path: str, units: Sequence["Unit"], count: int) -> int:
        """Return the lane of a frame with these units, `count` messages, and count them."""
        loads = self._loads.get(entity_path)
        if loads is None:
            if len(self._loads) >= _ENTITIES_MAX:
                self._loads.clear()
            loads = self._loads[entity_path] = [0] * LANES
        added = _runs(units, count)
        turn = self._turn = (self._turn + 1) % LANES
        order = [*range(turn, LANES), *range(turn)]
        if len(added) == 1:
            lane: int = min(order, key=loads.__getitem__)
        else:
            lane = min(order, key=lambda at: _fullest(loads, at, added))
        for i, n in enumerate(added):
            loads[(lane + i) % LANES] += n
        return lane


def _fullest(loads: Sequence[int], lane: int, added: Sequence[int]) -> int:
    return max(loads[(lane + i) % LANES] + n for i, n in enumerate(added))


def _runs(units: Sequence["Unit"], count: int) -> list[int]:
    """Return how many messages without a key each run has."""
    if len(units) == 1 or count <= RUN:
        return [count]
    added = [0] * min(LANES, -(-count // RUN))
    for unit in units:
        extras = unit.columns.extras
        if extras is None or not (extras[0].partition_key or extras[0].session_id is not None):
            added[unit.position // RUN % LANES] += len(unit.columns.messages)
    return added
