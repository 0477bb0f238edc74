"""Leases of drains: which (sub-)queues a data pipeline alone removes messages from.

A lease is durable by its epoch; how long it lasts is not: what was held when the file was closed is
held for its whole duration from the opening on, so that no restart lets receivers in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.store.records import Lease

Key = tuple[str, SubQueue]


@dataclass(slots=True)
class Drain:
    """A lease that is held."""

    lease: Lease
    until_mono_ms: int
    # All active messages up to this number are settled, as long as this lease is held.
    settled_to: int = 0


class Drains:
    """The leases that a partition knows, by entity and sub-queue."""

    def __init__(self, leases: Sequence[Lease], mono_ms: int, journal: Journal) -> None:
        self._journal = journal
        # The last one of each (sub-)queue, held or not.
        self._known: dict[Key, Lease] = {}
        self._held: dict[Key, Drain] = {}
        for lease in leases:
            self.put(lease, mono_ms)

    def __bool__(self) -> bool:
        return bool(self._held)

    def known(self, key: Key) -> Lease | None:
        """Return the last lease of a (sub-)queue, held or not."""
        return self._known.get(key)

    def held(self, uid: str, sub_queue: SubQueue) -> Drain | None:
        """Return the lease of a (sub-)queue that is held now."""
        return self._held.get((uid, sub_queue)) if self._held else None

    def owners(self, uid: str) -> Sequence[tuple[SubQueue, str]]:
        """Return which queues of an entity are drained, and by whom."""
        return [
            (sub_queue, drain.lease.owner)
            for (of, sub_queue), drain in self._held.items()
            if of == uid
        ]

    def next_end(self) -> int | None:
        """Return the monotonic time when the first lease ends."""
        return min((drain.until_mono_ms for drain in self._held.values()), default=None)

    def over(self, mono_ms: int) -> list[Drain]:
        """Return those whose time is over."""
        return [drain for drain in self._held.values() if drain.until_mono_ms <= mono_ms]

    def renew(self, drain: Drain, mono_ms: int) -> None:
        """Let a lease that is held last for its whole duration from now."""
        self._journal.note(setattr, drain, "until_mono_ms", drain.until_mono_ms)
        drain.until_mono_ms = mono_ms + drain.lease.duration_ms

    def extend(self, gap_ms: int) -> None:
        """Give leases the time back that the process was suspended."""
        for drain in self._held.values():
            drain.until_mono_ms += gap_ms

    # At the commit.

    def put(self, lease: Lease, mono_ms: int) -> None:
        """Take a lease as it was committed."""
        key = (lease.uid, lease.sub_queue)
        self._known[key] = lease
        self._held.pop(key, None)
        if lease.duration_ms:
            self._held[key] = Drain(lease, mono_ms + lease.duration_ms)

    def end(self, drain: Drain) -> None:
        """Let a lease be over."""
        self._held.pop((drain.lease.uid, drain.lease.sub_queue), None)

    def forget(self, uid: str) -> None:
        """Forget a deleted entity."""
        for key in [key for key in self._known if key[0] == uid]:
            del self._known[key]
            self._held.pop(key, None)
