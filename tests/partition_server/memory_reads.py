"""What the store without a file reads of sessions, bodies, forwarded frames and fences."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store.records import (
    SLOT_SHIFT,
    Changes,
    Fence,
    Lease,
    Row,
    SessionState,
    State,
)
from bendybus.partition_server.store.store import FORGOTTEN_A_COMMIT, Head, MessageRun


class MemorySessions:
    """Looks through all rows whenever it is asked, so it suits small numbers."""

    def __init__(self, rows: Mapping[int, Row], bodies: "MemoryBodies") -> None:
        self._rows = rows
        self._bodies = bodies
        self._states: dict[tuple[int, str], SessionState] = {}

    def rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int, expired_ms: int
    ) -> tuple[list[Row], int | None]:
        """See SessionReads; passes over any number of rows."""
        active = (row for row in self._active(slot, expired_ms) if row.session_id == session_id)
        following = [self._bodies.resolved(row) for row in active if row.counter > after]
        found = bounded(following, limit, size_limit)
        full = len(found) == limit or sum(row.delivered_bytes() for row in found) >= size_limit
        return found, found[-1].counter if found and full else None

    def head(self, slot: int, session_id: str, after: int, expired_ms: int) -> Head | None:
        """See SessionReads; passes over any number of rows."""
        found, _ = self.rows(slot, session_id, after, 1, 1, expired_ms)
        return Head(found[0].counter, alive=True) if found else None

    def discover(
        self, slot: int, after: int, through: int, limit: int, expired_ms: int
    ) -> list[tuple[int, str]]:
        """See SessionReads."""
        found = (
            (row.counter, row.session_id)
            for row in self._active(slot, expired_ms)
            if row.session_id is not None and after < row.counter <= through
        )
        return list(islice(found, limit))

    def browse(
        self, slot: int, session_id: str, start: int, limit: int, size_limit: int
    ) -> list[Row]:
        """See SessionReads."""
        rows = (row for row in self._of(slot) if row.session_id == session_id)
        found = (self._bodies.resolved(row) for row in rows if row.counter >= start)
        return bounded(found, limit, size_limit)

    def listed(self, slot: int, after: str | None, limit: int) -> tuple[list[str], str | None]:
        """See SessionReads."""
        wanted = {row.session_id for row in self._of(slot) if row.state == State.ACTIVE}
        every = {row.session_id for row in self._of(slot)} | set(self._with_state(slot))
        names = sorted(name for name in every if name is not None)
        looked = [name for name in names if after is None or name > after]
        wanted.update(self._with_state(slot))
        last = looked[limit - 1] if len(looked) >= limit else None
        return [name for name in looked[:limit] if name in wanted], last

    def updated(
        self, slot: int, after: str | None, limit: int, since_ms: int
    ) -> tuple[list[str], str | None]:
        """See SessionReads."""
        looked = [name for name in self._with_state(slot) if after is None or name > after][:limit]
        names = [name for name in looked if self._states[slot, name].at_ms > since_ms]
        return names, looked[-1] if len(looked) == limit else None

    def with_state(self, slot: int, limit: int) -> list[str]:
        """See SessionReads."""
        return self._with_state(slot)[:limit]

    def state(self, slot: int, session_id: str) -> bytes | None:
        """See SessionReads."""
        entry = self._states.get((slot, session_id))
        return None if entry is None else entry.state

    def count(
        self, slot: int, after: tuple[str, int, int], rows: int, limit: int
    ) -> list[MessageRun]:
        """See SessionReads."""
        places = sorted(
            (row.session_id, int(row.state), row.counter)
            for row in self._of(slot)
            if row.session_id is not None
        )
        looked = islice((place for place in places if place > after), rows)
        found: list[MessageRun] = []
        for (session_id, state), run in groupby(looked, lambda place: place[:2]):
            counters = [counter for _, _, counter in run]
            found.append(MessageRun(session_id, state, len(counters), counters[-1]))
        return found[:limit]

    def state_sizes(self, slot: int, start: str, limit: int) -> list[tuple[str, int]]:
        """See SessionReads."""
        names = [name for name in self._with_state(slot) if name >= start][:limit]
        return [(name, len(self._states[slot, name].state or b"")) for name in names]

    def commit(self, changes: Changes) -> None:
        """Take the states of sessions."""
        for entry in changes.session_states:
            self._states[entry.slot, entry.session_id] = entry
            if entry.state is None:
                del self._states[entry.slot, entry.session_id]

    def _with_state(self, slot: int) -> list[str]:
        return sorted(session_id for at, session_id in self._states if at == slot)

    def _of(self, slot: int) -> list[Row]:
        return sorted(row for row in self._rows.values() if row.slot == slot)

    def _active(self, slot: int, expired_ms: int) -> Iterable[Row]:
        return (
            row
            for row in self._of(slot)
            if row.state == State.ACTIVE and (row.expires_ms is None or row.expires_ms > expired_ms)
        )


def bounded(rows: Iterable[Row], limit: int, size_limit: int) -> list[Row]:
    """Return the first rows, up to `limit`, or until they make up `size_limit` bytes."""
    found: list[Row] = []
    for row in rows:
        if len(found) == limit or size_limit <= 0:
            break
        found.append(row)
        size_limit -= row.delivered_bytes()
    return found


class MemoryBodies:
    """See store.BodyReads."""

    def __init__(self, rows: dict[int, Row]) -> None:
        """`rows`: those of the store, which are there until `commit` has seen them deleted."""
        self._rows = rows
        self._bodies: dict[int, bytes] = {}
        self._counts: dict[int, int] = {}
        self.has_garbage = False

    def opened(self) -> None:
        """Find whether an earlier opening left bodies that no message has."""
        self.has_garbage = bool(self.unreferenced(1))

    def resolved(self, row: Row) -> Row:
        """Return a row that refers to its body with the body itself."""
        if not row.is_shared:
            return row
        return row._replace(payload=self._bodies[int.from_bytes(row.payload, "big")])

    def unreferenced(self, limit: int) -> list[tuple[int, int]]:
        """See BodyReads."""
        unused = sorted(id_ for id_, count in self._counts.items() if count <= 0)
        return [(id_, len(self._bodies[id_])) for id_ in unused[:limit]]

    def of_slot(self, slot: int, limit: int) -> list[int]:
        """See BodyReads."""
        return sorted(id_ for id_ in self._bodies if id_ >> SLOT_SHIFT == slot)[:limit]

    def commit(self, changes: Changes) -> None:
        """Count what a commit inserts and deletes."""
        for body in changes.bodies:
            assert body.id not in self._bodies, f"body {body.id} exists"
            self._bodies[body.id] = body.payload
            self._counts[body.id] = body.references
        slots = {slot.slot for slot in changes.slots.values() if slot.has_copies}
        for id_ in set(changes.deletes):
            row = self._rows.get(id_)
            if row is None or not row.is_shared or id_ >> SLOT_SHIFT not in slots:
                continue
            referred = int.from_bytes(row.payload, "big")
            if referred in self._counts:
                self._counts[referred] -= 1
            self.has_garbage = True
        for id_ in changes.bodies_removed:
            self._bodies.pop(id_, None)
            self._counts.pop(id_, None)


class MemoryForwards:
    """See forward_reads.ForwardReads."""

    def __init__(self) -> None:
        # Source → UID, boot, sequence.
        self._last: dict[bytes, tuple[str, int, int]] = {}
        self._known: dict[bytes, set[int]] = {}
        self._choices: dict[int, int] = {}

    def last(self, source: bytes) -> tuple[int, int]:
        """See ForwardReads."""
        return self._last.get(source, ("", 0, 0))[1:]

    def known(self, source: bytes, counters: Sequence[int]) -> set[int]:
        """See ForwardReads."""
        return self._known.get(source, set()) & set(counters)

    def choices(self) -> dict[int, int]:
        """See ForwardReads."""
        return dict(self._choices)

    def commit(self, changes: Changes) -> None:
        """Take what a commit notes and forgets."""
        for frame in changes.forwarded:
            if frame.first:
                place = frame.source.place()
                self._forget([each for each in self._last if each.startswith(place)])
            name = frame.source.name()
            self._last[name] = (frame.source.uid, frame.boot, frame.sequence)
            known = self._known.setdefault(name, set())
            known.difference_update(frame.settled)
            known.difference_update({n for n in known if n < frame.settled_below})
            known.update(frame.stored)
        for id_, partition in changes.forward_choices.items():
            if partition is None:
                self._choices.pop(id_, None)
            else:
                self._choices[id_] = partition
        for slot in changes.slots_removed:
            for id_ in [each for each in self._choices if each >> SLOT_SHIFT == slot]:
                del self._choices[id_]
        for uid in changes.forward_sources_removed:
            place = f"{uid}/".encode()
            self._forget(
                [
                    source
                    for source, last in self._last.items()
                    if last[0] == uid or source.startswith(place)
                ]
            )

    def _forget(self, sources: Sequence[bytes]) -> None:
        for source in sources:
            del self._last[source]
            self._known.pop(source, None)


class MemoryPipelines:
    """See store.FenceReads."""

    def __init__(self) -> None:
        self._leases: dict[tuple[str, SubQueue], Lease] = {}
        self._fences: dict[tuple[int, bytes], Fence] = {}

    def leases(self) -> list[Lease]:
        """Return the leases of drains."""
        return [self._leases[key] for key in sorted(self._leases)]

    def fence(self, slot: int, producer_id: bytes) -> Fence | None:
        """See FenceReads."""
        return self._fences.get((slot, producer_id))

    def fence_counts(self, since_ms: int = 0) -> dict[int, int]:
        """See FenceReads."""
        return Counter(each.slot for each in self._fences.values() if each.at_ms >= since_ms)

    def commit(self, changes: Changes) -> None:
        """Take what a commit notes and forgets."""
        for lease in changes.leases:
            self._leases[lease.uid, lease.sub_queue] = lease
        for uid in changes.leases_removed:
            for key in [each for each in self._leases if each[0] == uid]:
                del self._leases[key]
        old = sorted(self._fences.values(), key=attrgetter("at_ms"))[:FORGOTTEN_A_COMMIT]
        for fence in old:
            if fence.at_ms < changes.fences_before_ms:
                del self._fences[fence.slot, fence.producer_id]
        for fence in changes.fences:
            self._fences[fence.slot, fence.producer_id] = fence
        for slot in changes.slots_removed:
            for each in [each for each in self._fences if each[0] == slot]:
                del self._fences[each]
