"""Places that all entities share: of delayed messages, and of producers with a fence.

Queues have the locks of messages that wait because they were abandoned with a delay; here they are
counted. Counting producers goes through all of them, so it is done once a second at most; in
between those that are new are added.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from bendybus.partition_server.state import shares
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.shares import Shares


class HeldMessages:
    """Counts them by slot, and by who shares the places."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._by_slot: Counter[int] = Counter()
        self.places: Shares[str] = Shares()

    @property
    def total(self) -> int:
        """How many wait in all."""
        return self.places.total

    def of(self, slot: int) -> int:
        """Return how many of a queue wait."""
        return self._by_slot[slot] if self.places.total else 0

    def add(self, queue: MessageQueue, count: int = 1) -> None:
        """Count messages that wait from now on; a negative count: no more."""
        slot, user, places = queue.slot, shares.user_of(queue.entity), self.places
        before = (self._by_slot[slot], places.of(user), places.total)
        self._journal.note(self._put, slot, user, *before)
        self._put(slot, user, *(each + count for each in before))

    def drop(self, queue: MessageQueue) -> None:
        """Forget a queue that is deleted."""
        self.places.add(shares.user_of(queue.entity), -self._by_slot.pop(queue.slot, 0))

    def _put(self, slot: int, user: str, of_slot: int, of_user: int, total: int) -> None:
        self._by_slot[slot] = of_slot
        self.places.put(user, of_user, total)


COUNT_MS: Final = 1_000


class FencePlaces:
    """The places of producers, as they were counted last."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.places: Shares[str] = Shares()
        self.measured_mono_ms = -COUNT_MS

    def count_again(
        self, read: Callable[[], Mapping[int, int]], user_of: Callable[[int], str], mono_ms: int
    ) -> None:
        """Count what is stored (`read`: by slot), if that was long ago. Never while a stage has
        some that are not stored yet.
        """
        if mono_ms - self.measured_mono_ms < COUNT_MS:
            return
        self.measured_mono_ms = mono_ms
        self.places = Shares()
        for slot, count in read().items():
            self.places.add(user_of(slot), count)

    def add(self, user: str) -> None:
        """Count a new producer, until the next count or until that is taken back."""
        places = self.places
        self._journal.note(places.put, user, places.of(user), places.total)
        places.add(user, 1)
