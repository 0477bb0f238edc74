"""The partitions of messages without a key: round robin over what a connection sends.

The bus distributes such messages of a frame over partitions in runs: the first run to the partition
of the frame's lane, the next run to the next lane, and so on. There are LANES lanes, the largest
number of partitions; with fewer partitions, several lanes are the same one. The lane is chosen so
that the fullest lane has as few messages as possible: frames differ in size, and rotating by frame
could fill only every other partition.

A run is a sixteenth of what the connection sent within about a second, including this frame. So
a few concurrent sends go one by one to different partitions, and at any time no partition has more
than twice its share of all messages sent. Each run costs a partition a frame and a commit: a
connection that sends thousands of messages a second causes at most sixteen more of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from bendybus.client.messages.encode import Columns
from bendybus.domain import limits

LANES: Final = limits.STANDARD_PARTITION_COUNT
# What was sent decays linearly to nothing in this time.
MEMORY_S: Final = 1.0
RUN_MAX: Final = 1_000
_ENTITIES_MAX: Final = 1_000


class Unit(Protocol):
    """Messages that are sent as a whole; `position`: how many of its frame are before it."""

    columns: Columns
    position: int


class Assignment(NamedTuple):
    """How the messages of one frame are distributed; a repeat of the frame has the same one."""

    lane: int
    run: int


@dataclass(slots=True)
class _Sent:
    """The messages sent to one entity."""

    loads: list[int] = field(default_factory=lambda: [0] * LANES)
    # Messages of about the last second.
    recent: float = 0.0
    at_s: float = 0.0


class RoundRobin:
    """Chooses lanes, and counts how many messages the lanes of each entity have."""

    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}
        self._turn = 0

    def assign(self, entity_path: str, units: Sequence[Unit], now_s: float) -> Assignment:
        """Return how to distribute a frame with these units, and count their messages."""
        sent = self._sent.get(entity_path)
        if sent is None:
            if len(self._sent) >= _ENTITIES_MAX:
                self._sent.clear()
            sent = self._sent[entity_path] = _Sent(at_s=now_s)
        keyless = _keyless(units)
        count = sum(keyless)
        kept = max(0.0, 1.0 - (now_s - sent.at_s) / MEMORY_S)
        sent.at_s, sent.recent = now_s, sent.recent * kept + count
        run = max(1, min(RUN_MAX, int(sent.recent) // LANES))
        turn = self._turn = (self._turn + 1) % LANES
        order = [*range(turn, LANES), *range(turn)]
        loads = sent.loads
        if units[-1].position < run:
            lane: int = min(order, key=loads.__getitem__)
            loads[lane] += count
            return Assignment(lane, run)
        added = _runs(units, keyless, run)
        lane = min(order, key=lambda at: _fullest(loads, at, added))
        for i, n in enumerate(added):
            loads[(lane + i) % LANES] += n
        return Assignment(lane, run)


def _keyless(units: Sequence[Unit]) -> list[int]:
    """Return how many messages without a key each unit has."""
    return [0 if _keyed(unit.columns) else len(unit.columns.messages) for unit in units]


def _keyed(columns: Columns) -> bool:
    if columns.extras is None:
        return False
    first = columns.extras[0]
    return bool(first.partition_key) or first.session_id is not None


def _runs(units: Sequence[Unit], keyless: Sequence[int], run: int) -> list[int]:
    """Return how many messages without a key each lane gets, starting with that of the frame."""
    added = [0] * min(LANES, units[-1].position // run + 1)
    for unit, count in zip(units, keyless, strict=True):
        added[unit.position // run % LANES] += count
    return added


def _fullest(loads: Sequence[int], lane: int, added: Sequence[int]) -> int:
    return max(loads[(lane + i) % LANES] + n for i, n in enumerate(added))
