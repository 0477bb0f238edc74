"""Fair shares of what all entities of a partition use together: places, and bytes in memory.

Those that use less than an equal part have what they use; the others have equal parts of the rest
(max-min fairness). The last tenth is kept for those that come later: in it, a user may have no more
than it leaves. A user is an entity; subscriptions are one with their topic.

Places that all entities share: of delayed messages, and of producers with a fence.

Queues have the locks of messages that wait because they were abandoned with a delay; here they are
counted. Counting producers goes through all of them, so it is done once a second at most; in
between those that are new are added.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from bendybus.domain.entity import Entity
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.message_queue import MessageQueue

User = TypeVar("User")


def user_of(entity: Entity) -> str:
    """Return what an entity shares as: with its family, as access policies cover it."""
    return entity.topic_key or entity.key


def level(uses: Iterable[int], bound: int) -> int:
    """Return the most that each user may have so that all together have at most `bound`."""
    ordered = sorted(uses)
    left, users = bound, len(ordered)
    for use in ordered:
        if use * users > left:
            return left // users
        left -= use
        users -= 1
    return bound


class Shares(Generic[User]):
    """How much each user has."""

    __slots__ = ("_used", "total")

    def __init__(self) -> None:
        self._used: dict[User, int] = {}
        self.total = 0

    def of(self, user: User) -> int:
        """Return what a user has."""
        return self._used.get(user, 0)

    def uses(self) -> Iterable[int]:
        """Return what each user has."""
        return self._used.values()

    def add(self, user: User, count: int) -> None:
        """Count what a user has from now on; a negative count: no more."""
        # Twice for each frame that is sent.
        used = self._used.get(user, 0) + count
        self.total += count
        if used:
            self._used[user] = used
        else:
            self._used.pop(user, None)

    def put(self, user: User, count: int, total: int) -> None:
        """Set what a user has, and what all have together."""
        self.total = total
        if count:
            self._used[user] = count
        else:
            self._used.pop(user, None)

    def has_room(self, user: User, count: int, bound: int) -> bool:
        """Whether a user may have that much more, if there is `bound` for all."""
        room = bound - bound // 10
        if self.total + count <= room:
            return True
        if not self.total:
            # One that takes more than nine tenths, where nobody has anything.
            return count <= bound
        wanted = self.of(user) + count
        if wanted > bound - self.total:
            # Of the last tenth as much as is left; or there is no such room at all.
            return False
        others = (min(used, wanted) for key, used in self._used.items() if key != user)
        return sum(others) + wanted <= room


class OpenStreams:
    """Asks, and the queues that messages are reserved from."""

    def __init__(self) -> None:
        # Stream → ask id → slot.
        self._asks: dict[Caller, dict[int, int]] = {}
        # Slots that ever gave something to a stream; the locks themselves are in the queues.
        self._reserved: dict[Caller, set[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._asks.values()))

    def ask_opened(self, stream: Caller, ask_id: int, slot: int) -> None:
        """Note where an ask waits."""
        self._asks.setdefault(stream, {})[ask_id] = slot

    def ask_closed(self, stream: Caller, ask_id: int) -> int | None:
        """Forget an ask; return the slot where it waited, None if it was not open."""
        asks = self._asks.get(stream)
        slot = None if asks is None else asks.pop(ask_id, None)
        if asks is not None and not asks:
            del self._asks[stream]
        return slot

    def slot_of_ask(self, stream: Caller, ask_id: int) -> int:
        """Return the slot where an ask waits, -1 if it is not open."""
        return self._asks.get(stream, {}).get(ask_id, -1)

    def reserved(self, stream: Caller, slot: int) -> None:
        """Note that messages of a slot are locked for a stream."""
        self._reserved.setdefault(stream, set()).add(slot)

    def asks_of(self, stream: Caller) -> list[tuple[int, int]]:
        """Return the asks of a stream, each with its slot."""
        return list(self._asks.get(stream, {}).items())

    def slots_of(self, stream: Caller) -> set[int]:
        """Return the slots that gave a stream messages.

        They are known until `forget`: a stage that is taken back is decided again.
        """
        return set(self._reserved.get(stream, ()))

    def forget(self, stream: Caller) -> None:
        """Forget what a stream reserved: its end is committed, or failed for good."""
        self._reserved.pop(stream, None)


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
        slot, user, places = queue.slot, user_of(queue.entity), self.places
        before = (self._by_slot[slot], places.of(user), places.total)
        self._journal.note(self._put, slot, user, *before)
        self._put(slot, user, *(each + count for each in before))

    def drop(self, queue: MessageQueue) -> None:
        """Forget a queue that is deleted."""
        self.places.add(user_of(queue.entity), -self._by_slot.pop(queue.slot, 0))

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
