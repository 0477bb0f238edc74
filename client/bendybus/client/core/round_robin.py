"""Where messages without a key go: round robin over what a connection sends.

The bus deals such messages of a frame over partitions in runs: the first run to the partition of
the frame's lane, the next run to the next one, and so on. A lane is one of LANES, the largest
number of partitions; with fewer of them, several lanes are the same partition. The lane is chosen
so that the fullest one is as empty as can be: frames differ in size, and going round frame by
frame could fill every other partition only.

A run is a sixteenth of what the connection sent within about a second, this frame included. So a
few sends at once go one by one to different partitions, and at any moment no partition has more
than twice its share of all that was sent; but as each run costs a partition a frame and a commit
of its own, a connection that sends thousands a second pays for at most sixteen more of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from bendybus.client.messages.encode import Columns
from bendybus.domain import limits

LANES: Final = limits.STANDARD_PARTITION_COUNT
# How fast what was sent is forgotten: all of it in this time.
MEMORY_S: Final = 1.0
RUN_MAX: Final = 1_000
_ENTITIES_MAX: Final = 1_000


class Unit(Protocol):
    """What is sent as a whole: its messages, and how many messages of its frame are before it."""

    columns: Columns
    position: int


class Deal(NamedTuple):
    """How the messages of one frame are dealt; a repeat of it is dealt in the same way."""

    lane: int
    run: int


@dataclass(slots=True)
class _Sent:
    """What was sent to one entity."""

    loads: list[int] = field(default_factory=lambda: [0] * LANES)
    # Messages of the last second, about: each is forgotten a little all the time.
    recent: float = 0.0
    at_s: float = 0.0


class Dealer:
    """What the lanes of each entity got."""

    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}
        self._turn = 0

    def deal(self, entity_path: str, units: Sequence[Unit], now_s: float) -> Deal:
        """Return how to deal a frame with these units, and count their messages."""
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
            return Deal(lane, run)
        added = _runs(units, keyless, run)
        lane = min(order, key=lambda at: _fullest(loads, at, added))
        for i, n in enumerate(added):
            loads[(lane + i) % LANES] += n
        return Deal(lane, run)


def _keyless(units: Sequence[Unit]) -> list[int]:
    """Return how many messages without a key each unit has."""
    return [0 if _keyed(unit.columns) else len(unit.columns.messages) for unit in units]


def _keyed(columns: Columns) -> bool:
    if columns.extras is None:
        return False
    first = columns.extras[0]
    return bool(first.partition_key) or first.session_id is not None


def _runs(units: Sequence[Unit], keyless: Sequence[int], run: int) -> list[int]:
    """Return how many messages without a key each lane gets, from that of the frame on."""
    added = [0] * min(LANES, units[-1].position // run + 1)
    for unit, count in zip(units, keyless, strict=True):
        added[unit.position // run % LANES] += count
    return added


def _fullest(loads: Sequence[int], lane: int, added: Sequence[int]) -> int:
    return max(loads[(lane + i) % LANES] + n for i, n in enumerate(added))
