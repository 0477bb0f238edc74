"""Which queues of a partition forward their messages: when to look at each, and what refuses them.

Kept beside the queues, so that those that do not forward have nothing of it. In memory only: after
a restart each is looked at, and the time of a refusal begins again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bendybus.partition_server.state import lanes
from bendybus.partition_server.state.due_times import SlotTimes
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a destination refuses, and since when; on the monotonic clock."""

    code: str
    since_mono_ms: int


class Forwards:
    """The forwarding queues of one partition, by slot."""

    def __init__(self, refused_ms: int, journal: Journal) -> None:
        """`refused_ms`: how long a refusal lasts before the message is set aside."""
        self.refused_ms = refused_ms
        self.sources: set[int] = set()
        # Monotonic times of the next looks.
        self.due = SlotTimes(journal)
        self._refusals: dict[int, Refusal] = {}
        # What is waited for that is no refusal, by slot: messages are never set aside for it.
        self._waits: dict[int, Refusal] = {}
        # Since the file was opened, by slot: messages that went on, and that never can.
        self.forwarded: Counter[int] = Counter()
        self.set_aside: Counter[int] = Counter()

    def put(self, slot: int, *, forwards: bool) -> None:
        """Note whether a queue forwards; if it does, look at it."""
        if forwards:
            self.sources.add(slot)
            self.due.add(0, slot)
        else:
            self.drop(slot)

    def drop(self, slot: int) -> None:
        """Forget a queue."""
        self.sources.discard(slot)
        for known in (self._refusals, self._waits, self.forwarded, self.set_aside):
            known.pop(slot, None)
        self.due.replace(slot, None)

    def note(self, changed: Mapping[int, MessageQueue]) -> None:
        """Look soon at those that forward among queues that changed, unless they are refused."""
        for slot, queue in changed.items():
            if slot in self.sources and slot not in self._refusals and queue.ready.has_ready():
                self.due.add(0, slot)

    def note_all(self) -> None:
        """Look at every queue that forwards."""
        for slot in self.sources:
            self.due.add(0, slot)

    def count(self) -> int:
        """Return how many queues forward, 1 at least."""
        return max(1, len(self.sources))

    def standstill(self, slot: int) -> Refusal | None:
        """Return why nothing of a queue goes on, and since when; None: nothing is known of that."""
        return self._refusals.get(slot) or self._waits.get(slot)

    def is_refused(self, slot: int) -> bool:
        """Whether the last look at a queue met a refusal."""
        return slot in self._refusals

    def lasts(self, slot: int, code: str, now_mono_ms: int) -> bool:
        """Whether the destination of a queue has refused for the stated time, for this reason."""
        refusal = self._refusals.get(slot)
        if refusal is None or refusal.code != code:
            return self.refused_ms <= 0
        return now_mono_ms - refusal.since_mono_ms >= self.refused_ms

    def retry_ms(self, slot: int, code: str, now_mono_ms: int) -> int:
        """Return when to look again at a queue that is refused, for this reason."""
        known = self._refusals.get(slot)
        lasts_ms = 0
        if known is not None and known.code == code:
            lasts_ms = now_mono_ms - known.since_mono_ms
        wait_ms = lanes.pause_ms(lasts_ms, len(self._refusals))
        left_ms = self.refused_ms - lasts_ms
        # Never later than what waits is to be set aside.
        return min(wait_ms, left_ms) if left_ms > 0 else wait_ms

    # At the commit of a look.

    def looked(
        self,
        slot: int,
        next_mono_ms: int | None,
        refused: str,
        now_mono_ms: int,
        waits: str = "",
    ) -> None:
        """Note the next look, and what was refused, or is waited for: "" for nothing."""
        if slot not in self.sources:
            return
        if not waits:
            self._waits.pop(slot, None)
        elif slot not in self._waits or self._waits[slot].code != waits:
            self._waits[slot] = Refusal(waits, now_mono_ms)
        known = self._refusals.get(slot)
        if not refused:
            self._refusals.pop(slot, None)
        elif known is None or known.code != refused:
            self._refusals[slot] = Refusal(refused, now_mono_ms)
        self.due.replace(slot, next_mono_ms)
