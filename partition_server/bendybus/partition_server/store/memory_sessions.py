"""Sessions of the store without a file; see session_reads.SessionReads."""

from collections.abc import Iterable, Mapping
from itertools import groupby, islice

from bendybus.partition_server.store.memory_bodies import MemoryBodies
from bendybus.partition_server.store.records import Changes, Row, SessionState, State
from bendybus.partition_server.store.session_reads import MessageRun


class MemorySessions:
    """Looks through all rows whenever it is asked, so it suits small numbers."""

    def __init__(self, rows: Mapping[int, Row], bodies: MemoryBodies) -> None:
        self._rows = rows
        self._bodies = bodies
        self._states: dict[tuple[int, str], SessionState] = {}

    def rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """See SessionReads."""
        active = (row for row in self._active(slot, expired_ms) if row.session_id == session_id)
        found = (self._bodies.resolved(row) for row in active if row.counter > after)
        return bounded(found, limit, size_limit)

    def head(self, slot: int, session_id: str, expired_ms: int) -> int | None:
        """See SessionReads."""
        found = self.rows(slot, session_id, 0, 1, 1, expired_ms)
        return found[0].counter if found else None

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
