"""Ways of messages from a queue that forwards to the partitions of its destination.

    ready set ──taken──► parked ──locked──► in flight ──answered──► gone from the source
                           ▲                    │
                           └────not stored──────┘

One lane for each partition, with one frame on its way at a time, so that messages go on in order
and one partition that does not answer delays only what is for it. In memory only: after a restart
everything is taken again, and the destination knows what it has.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.domain.errors import BusError
from bendybus.partition_server.state.answers import ForwardedTaken
from bendybus.partition_server.state.batch import Batch

# Beyond this, nothing more is taken from the queue until the lane gets on.
PARKED_MAX: Final = 2_000


@dataclass(slots=True)
class Lane:
    """What a queue forwards to one partition."""

    # Numbers of messages, in order.
    parked: deque[int] = field(default_factory=deque)
    # Of the last frame.
    sequence: int = 0
    # Its messages; they are locked.
    in_flight: Sequence[int] = ()
    # What was deleted since: the destination forgets it with the next frame.
    settled: Sequence[int] = ()
    # Not before this, on the monotonic clock.
    next_mono_ms: int = 0
    # Since when the destination has no room; None: it has.
    full_since_mono_ms: int | None = None

    def is_waiting(self) -> bool:
        """Whether there is something to send, and no frame on its way."""
        return bool(self.parked) and not self.in_flight


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A frame for another partition; the shell sends it and hands in a ForwardOutcome."""

    slot: int
    boot: int
    sequence: int
    partition: int
    source: bytes
    source_uid: str
    # The destination, as it is known here.
    uid: str
    generation: int
    counters: Sequence[int]
    batch: Batch
    settled: Sequence[int]
    settled_below: int
    overtake: bool


@dataclass(slots=True)
class ForwardOutcome:
    """What became of a frame; not answered. Without `taken`, it may or may not be stored."""

    reply_to: Any
    slot: int
    boot: int
    sequence: int
    partition: int
    taken: ForwardedTaken | None = None
    error: BusError | None = None


class Lanes:
    """The lanes of all queues of a partition."""

    def __init__(self) -> None:
        self._by_slot: dict[int, dict[int, Lane]] = {}

    def of(self, slot: int) -> dict[int, Lane]:
        """Return the lanes of a queue, by partition."""
        return self._by_slot.setdefault(slot, {})

    def lane(self, slot: int, partition: int) -> Lane:
        """Return one lane."""
        return self.of(slot).setdefault(partition, Lane())

    def unpark(self, slot: int) -> None:
        """Forget what is parked: the queue is read again from its beginning."""
        for lane in self._by_slot.get(slot, {}).values():
            lane.parked.clear()

    def drop(self, slot: int) -> None:
        """Forget the lanes of a queue that is deleted."""
        self._by_slot.pop(slot, None)
