"""Small sends of many clients that go together, by the real rules of `send_lines`."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bendybus.domain import partitioning
from bendybus.frontend.core import routing
from bendybus.frontend.core.send_lines import SendLine
from tests.simulation.bus import Bus
from tests.simulation.partitions import PARTITIONS


@dataclass(frozen=True)
class Waiting:
    """A send of a client."""

    connection: str
    payload: str
    key: str
    count: int = 1
    size_bytes: int = 100
    policy: str = ""


class SharedSends:
    """The lines of the simulated front end."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lines: dict[int | None, SendLine[Waiting]] = {}
        # Batches, by how many sends are in them.
        self.batches: Counter[int] = Counter()

    @property
    def waits(self) -> bool:
        """Whether something waits, or is under way."""
        return not all(line.is_idle for line in self._lines.values())

    def send(self, client: str, payload: str, key: str = "") -> None:
        """Send one message of a client, with what others send in the same millisecond."""
        pinned = partitioning.partition_of(key, PARTITIONS) if key else None
        if pinned not in self._lines:
            partitions: Sequence[int] = range(PARTITIONS) if pinned is None else (pinned,)
            self._lines[pinned] = SendLine(partitions, 0)
        self._lines[pinned].put(Waiting(client, payload, key))
        self._bus.after(0, partial(self._flush, pinned))

    def _flush(self, pinned: int | None) -> None:
        line = self._lines[pinned]
        while batch := line.next(self._bus.now / 1_000, self._reached):
            partition, sends = batch
            self.batches[len(sends)] += 1
            self._bus.send_together(
                [([each.payload], each.key) for each in sends],
                routing.lane_to(self._bus.entity, b"producer", partition),
                partial(self._answered, pinned, partition),
            )
        if line and (held_up_s := line.held_up_s(self._bus.now / 1_000)):
            self._bus.after(math.ceil(1_000 * held_up_s), partial(self._flush, pinned))

    def _answered(self, pinned: int | None, partition: int) -> None:
        self._lines[pinned].answered(partition, self._bus.now / 1_000)
        self._bus.after(0, partial(self._flush, pinned))

    def _reached(self, partition: int) -> bool:
        return partition not in self._bus.down
