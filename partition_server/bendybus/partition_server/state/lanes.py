"""Ways of messages from a queue that forwards to the partitions of its destination.

    ready set ──taken──► parked ──locked──► in flight ──answered──► gone from the source
                           ▲                    │
                           └────not stored──────┘

One lane for each partition, with one frame on its way at a time, so that messages go on in order
and one partition that does not answer delays only what is for it. In memory only: after a restart
everything is taken again, and the destination knows what it has.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from bendybus.domain import limits
from bendybus.partition_server.state.answers import ForwardedTaken
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.store.records import SLOT_SHIFT, ForwardSource

RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 10_000
# Where many destinations refuse, each is tried less often.
SHARE_MS: Final = 5
# Beyond this, nothing more is taken from the queue until the lane gets on; less where many queues
# forward.
PARKED_MAX: Final = 2_000
PARKED_MIN: Final = 20
PARKED_ALL: Final = 500_000
# On their way to one partition, from all queues; one frame at least.
FLIGHTS_MAX: Final = 8
FLIGHT_BYTES_MAX: Final = 4 * limits.MB
# Queues that are looked at when a frame has arrived and made room for another one.
WOKEN_MAX: Final = 8


@dataclass(slots=True)
class Lane:
    """What a queue forwards to one partition."""

    # Numbers of messages, in order.
    parked: deque[int] = field(default_factory=deque)
    # Of the last frame.
    sequence: int = 0
    # Its messages; they are locked.
    in_flight: Sequence[int] = ()
    flight_bytes: int = 0
    # What was deleted since: the destination forgets it with the next frame that it answers.
    settled: Sequence[int] = ()
    # The last frame was not answered: the next one is a try, of one message.
    in_doubt: bool = False
    # Messages of frames that were not answered, and of none that was since.
    unanswered: set[int] = field(default_factory=set)
    # Since when frames are not answered; None: the last one was.
    unanswered_since_mono_ms: int | None = None
    # Not before this, on the monotonic clock.
    next_mono_ms: int = 0
    # Since when the destination has no room; None: it has.
    full_since_mono_ms: int | None = None
    # Since when the first message meets a bug there; None: it does not.
    bug_since_mono_ms: int | None = None
    # When it last had none.
    refused_mono_ms: int | None = None

    def may_have_room(self, since_mono_ms: int) -> bool:
        """Whether its partition answers, and has not refused a message since then."""
        refused = self.refused_mono_ms
        return not self.in_doubt and (refused is None or refused < since_mono_ms)

    def note_answer(self, now_mono_ms: int, *, full: bool, bug: bool) -> None:
        """Note what its partition said to a frame, when what was not taken is parked again."""
        self.refused_mono_ms = now_mono_ms if full else None
        if not full or not self.parked:
            self.full_since_mono_ms = None
        elif self.full_since_mono_ms is None:
            self.full_since_mono_ms = now_mono_ms
        if not bug:
            self.bug_since_mono_ms = None
        elif self.bug_since_mono_ms is None:
            self.bug_since_mono_ms = now_mono_ms

    def pause_ms(self, now_mono_ms: int) -> int:
        """Return when to try its partition again, 0 if that takes messages."""
        if self.bug_since_mono_ms is not None:
            # The next message may not meet it.
            return RETRY_MS
        since_ms = self.full_since_mono_ms
        return 0 if since_ms is None else pause_ms(now_mono_ms - since_ms)

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
    source: ForwardSource
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
    """What became of a frame. Without `taken`, it may or may not be stored.

    Answered by Done, or by Failed: then it is to be handed in again.
    """

    reply_to: Caller
    slot: int
    boot: int
    sequence: int
    partition: int
    taken: ForwardedTaken | None = None


class Lanes:
    """The lanes of all queues of a partition."""

    def __init__(self, choices: dict[int, int]) -> None:
        """`choices`: the partition that was chosen for a message without a key, by id."""
        self._by_slot: dict[int, dict[int, Lane]] = {}
        self.choices = choices
        # By partition: frames on their way there, their bytes, and queues that wait to send more.
        self._frames: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._waiting: dict[int, dict[int, None]] = {}

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

    def may_depart(self, partition: int) -> bool:
        """Whether another frame may go to a partition now."""
        return self._frames[partition] < FLIGHTS_MAX and self._bytes[partition] < FLIGHT_BYTES_MAX

    def wait(self, slot: int, partition: int) -> None:
        """Note a queue that has a frame for a partition to which none may go now."""
        self._waiting.setdefault(partition, {})[slot] = None

    # At the commit

    def forget_choices(self, slot: int) -> None:
        """Forget the partitions that were chosen for messages of a slot that is removed."""
        for id_ in [id_ for id_ in self.choices if id_ >> SLOT_SHIFT == slot]:
            del self.choices[id_]

    def departed(self, lane: Lane, partition: int, counters: Sequence[int], size: int) -> None:
        """Note a frame that is on its way."""
        lane.sequence += 1
        lane.in_flight, lane.flight_bytes = counters, size
        self._frames[partition] += 1
        self._bytes[partition] += size

    def landed(self, lane: Lane, partition: int) -> list[int]:
        """Note the outcome of a frame; return slots of queues that waited for it."""
        self._frames[partition] -= 1
        self._bytes[partition] -= lane.flight_bytes
        lane.in_flight, lane.flight_bytes = (), 0
        waiting = self._waiting.get(partition, {})
        woken = list(islice(waiting, WOKEN_MAX))
        for slot in woken:
            del waiting[slot]
        return woken

    def drop(self, slot: int) -> None:
        """Forget the lanes of a queue that is deleted."""
        for partition, lane in self._by_slot.pop(slot, {}).items():
            if lane.in_flight:
                self.landed(lane, partition)


def pause_ms(refuses_for_ms: int, refusing: int = 1) -> int:
    """Return when to try a destination again that refuses, one of as many.

    The longer it refuses, the later: a quarter of that time, so that messages wait little longer
    than they have to.
    """
    return min(RETRY_MS_MAX, max(RETRY_MS, refuses_for_ms // 4, refusing * SHARE_MS))
