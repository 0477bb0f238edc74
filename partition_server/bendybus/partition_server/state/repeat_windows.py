"""The parts of producers' frames that a partition remembers: how many and how much of each entity.

What all entities have together is bounded. Beyond that the oldest of those entities are forgotten
that have more than their share, see `shares`: what a busy one sends shortens its own window alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bendybus.partition_server.state import shares
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.store.records import ProducerEntry

# What an entry costs in memory beside its outcome, roughly.
ENTRY_BYTES: Final = 260


# Length and bytes of a window, count and bytes of all, the last id.
_Sizes = tuple[int, int, int, int, int]


class _Producer(NamedTuple):
    """What one producer stored."""

    producer_id: bytes
    # By sequence; most often one part a frame.
    parts: dict[int, ProducerEntry | list[ProducerEntry]]


@dataclass(slots=True)
class Window:
    """What is remembered of one entity, oldest first."""

    # Two columns of one list: entries by the thousand cost a process most as objects.
    order: deque[ProducerEntry] = field(default_factory=deque)
    # When each was stored, on the monotonic clock.
    times_ms: deque[int] = field(default_factory=deque)
    size_bytes: int = 0


class RepeatWindows:
    """The windows of all entities, by UID; "": of entries that do not say of which they are."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._windows: dict[str, Window] = {}
        self._producers: dict[bytes, _Producer] = {}
        self.count = self.size_bytes = 0
        # The highest id of an entry.
        self.last_id = 0

    def uids(self) -> list[str]:
        """Return the entities of which something is remembered."""
        return list(self._windows)

    def named(self, producer_id: bytes, sequence: int) -> Sequence[ProducerEntry]:
        """Return the parts of a frame, in the order of their commits."""
        producer = self._producers.get(producer_id)
        found = producer.parts.get(sequence, ()) if producer else ()
        return (found,) if isinstance(found, ProducerEntry) else found

    def name(self, producer_id: bytes) -> bytes:
        """Return a producer's id: one object for all of a producer."""
        known = self._producers.get(producer_id)
        return known.producer_id if known else producer_id

    def times_ms(self, uid: str) -> Sequence[int]:
        """Return when the entries of an entity were stored, on the monotonic clock."""
        window = self._windows.get(uid)
        return () if window is None else window.times_ms

    def add(self, uid: str, entry: ProducerEntry, at_mono_ms: int) -> None:
        """Remember an entry, the newest one."""
        producer = self._producers.get(entry.producer_id)
        known: Sequence[ProducerEntry] = ()
        if producer is not None and entry.sequence in producer.parts:
            known = self._known(entry)
        window = self._windows.get(uid)
        order: Sequence[ProducerEntry] = window.order if window else ()
        size_bytes = window.size_bytes if window else 0
        sizes = len(order), size_bytes, self.count, self.size_bytes, self.last_id
        self._journal.note(self._restore, uid, sizes, entry, known)
        if window is None:
            window = self._windows[uid] = Window()
        if entry.id > self.last_id:
            self.last_id = entry.id
        window.order.append(entry)
        window.times_ms.append(at_mono_ms)
        self._count(window, entry, 1)
        if producer is None or known:
            self._put_parts(entry, [*known, entry])
        else:
            producer.parts[entry.sequence] = entry

    def forget(self, uid: str) -> tuple[ProducerEntry, int]:
        """Forget the oldest entry of an entity; return it, and when it was stored."""
        window = self._windows[uid]
        entry, at_mono_ms = window.order[0], window.times_ms[0]
        known = self._known(entry)
        self._journal.note(self._restore_first, *self._sizes(uid), entry, known, at_mono_ms)
        window.order.popleft()
        window.times_ms.popleft()
        self._count(window, entry, -1)
        if not window.order:
            del self._windows[uid]
        self._put_parts(entry, [other for other in known if other is not entry])
        return entry, at_mono_ms

    def surplus(self, count_max: int, bytes_max: int) -> Iterator[str]:
        """Yield the entities that have more than their share, as often as each is to forget one."""
        windows = self._windows
        count = shares.level([len(each.order) for each in windows.values()], count_max)
        size_bytes = shares.level([each.size_bytes for each in windows.values()], bytes_max)
        for uid, window in list(windows.items()):
            while window.order and (len(window.order) > count or window.size_bytes > size_bytes):
                yield uid

    def oldest(self, uid: str) -> ProducerEntry | None:
        """Return the oldest entry of an entity."""
        window = self._windows.get(uid)
        return window.order[0] if window else None

    def entries(self) -> Iterable[ProducerEntry]:
        """Return all that is remembered."""
        return (entry for window in self._windows.values() for entry in window.order)

    def _sizes(self, uid: str) -> tuple[str, _Sizes]:
        """Return how much there is of an entity, and in all, and the last id."""
        window = self._windows.get(uid)
        if window is None:
            return uid, (0, 0, self.count, self.size_bytes, self.last_id)
        order = window.order
        return uid, (len(order), window.size_bytes, self.count, self.size_bytes, self.last_id)

    # What undoes changes, however far they came.

    def _restore(
        self,
        uid: str,
        sizes: _Sizes,
        entry: ProducerEntry,
        known: Sequence[ProducerEntry],
    ) -> None:
        length, size_bytes, self.count, self.size_bytes, self.last_id = sizes
        window = self._windows.setdefault(uid, Window())
        window.size_bytes = size_bytes
        for column in (window.order, window.times_ms):
            while len(column) > length:
                column.pop()
        if not length:
            del self._windows[uid]
        self._put_parts(entry, known)

    def _restore_first(
        self,
        uid: str,
        sizes: _Sizes,
        entry: ProducerEntry,
        known: Sequence[ProducerEntry],
        at_mono_ms: int,
    ) -> None:
        window = self._windows.setdefault(uid, Window())
        if len(window.order) < sizes[0]:
            window.order.appendleft(entry)
        if len(window.times_ms) < sizes[0]:
            window.times_ms.appendleft(at_mono_ms)
        self._restore(uid, sizes, entry, known)

    def _count(self, window: Window, entry: ProducerEntry, change: int) -> None:
        size_bytes = change * (len(entry.outcome) + ENTRY_BYTES)
        window.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self.count += change

    def _known(self, entry: ProducerEntry) -> Sequence[ProducerEntry]:
        return self.named(entry.producer_id, entry.sequence)

    def _put_parts(self, entry: ProducerEntry, parts: Sequence[ProducerEntry]) -> None:
        """Set what is known of a frame."""
        producer = self._producers.get(entry.producer_id)
        if producer is None:
            producer = _Producer(entry.producer_id, {})
        if parts:
            producer.parts[entry.sequence] = list(parts) if len(parts) > 1 else parts[0]
            self._producers[entry.producer_id] = producer
        else:
            producer.parts.pop(entry.sequence, None)
            if not producer.parts:
                self._producers.pop(entry.producer_id, None)
