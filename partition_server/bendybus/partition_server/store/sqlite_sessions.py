"""Sessions in the SQLite file: the order of messages inside each, and what is kept for them.

`session_messages` is kept like an index, by the store alone: `before` and `after` surround what a
commit does to `messages`. It is a table of its own because an index would have to be built from
all messages of a file that is opened for the first time, however large it is.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from operator import attrgetter
from typing import Any, Final

import apsw

from bendybus.partition_server.store import statements
from bendybus.partition_server.store.records import (
    SLOT_SHIFT,
    Changes,
    Row,
    State,
    row_id,
)
from bendybus.partition_server.store.store import MessageRun

Read = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
Page = Callable[[str, tuple[Any, ...], int], list[Row]]
# Names of its statements among all.
PREFIX: Final = "session_"


class SqliteSessions:
    """Reads of sessions; see session_reads.SessionReads."""

    def __init__(self, sql: dict[str, str], read: Read, page: Page) -> None:
        """`read` and `page` execute a statement of `sql`, by name."""
        sql |= {PREFIX + name: text for name, text in statements.load("sessions.sql").items()}
        self._sql = sql
        self._read = read
        self._page = page
        # Slots that have messages by session, or had.
        self.slots: set[int] = set()

    # Reads

    def rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """See SessionReads."""
        values = (slot, session_id, after, expired_ms, limit)
        return self._page("session_rows", values, size_limit)

    def head(self, slot: int, session_id: str, expired_ms: int) -> int | None:
        """See SessionReads."""
        found = self._read("session_head", (slot, session_id, expired_ms))
        return found[0][0] if found else None

    def discover(
        self, slot: int, after: int, through: int, limit: int, expired_ms: int
    ) -> list[tuple[int, str]]:
        """See SessionReads."""
        span = (row_id(slot, after + 1), row_id(slot, through))
        found = self._read("session_discover", (*span, expired_ms, limit))
        return [(counter, session_id) for counter, session_id in found]

    def browse(
        self, slot: int, session_id: str, start: int, limit: int, size_limit: int
    ) -> list[Row]:
        """See SessionReads."""
        pages = [
            self._page("session_browse", (slot, session_id, state, start, limit), size_limit)
            for state in State
        ]
        found: list[Row] = []
        for row in merge(*pages, key=attrgetter("id")):
            if len(found) == limit or size_limit <= 0:
                break
            found.append(row)
            size_limit -= row.delivered_bytes()
        return found

    def listed(self, slot: int, after: str | None, limit: int) -> tuple[list[str], str | None]:
        """See SessionReads."""
        start = "" if after is None else _following(after)
        # Whether each is wanted. The first `limit` of these are the first of all.
        looked = {name: True for (name,) in self._read("session_with_state", (slot, start, limit))}
        for _ in range(limit):
            found = self._read("session_next_session", (slot, start))
            if not found:
                break
            name, active = found[0]
            start = _following(name)
            looked[name] = bool(active) or name in looked
        names = sorted(looked)[:limit]
        last = names[-1] if len(names) == limit else None
        return [name for name in names if looked[name]], last

    def updated(
        self, slot: int, after: str | None, limit: int, since_ms: int
    ) -> tuple[list[str], str | None]:
        """See SessionReads."""
        start = "" if after is None else _following(after)
        looked = self._read("session_updated", (slot, start, limit))
        names = [session_id for session_id, updated_ms in looked if updated_ms > since_ms]
        return names, looked[-1][0] if len(looked) == limit else None

    def with_state(self, slot: int, limit: int) -> list[str]:
        """See SessionReads."""
        found = self._read("session_with_state", (slot, "", limit))
        return [session_id for (session_id,) in found]

    def state(self, slot: int, session_id: str) -> bytes | None:
        """See SessionReads."""
        found = self._read("session_state", (slot, session_id))
        return found[0][0] if found else None

    def count(
        self, slot: int, after: tuple[str, int, int], rows: int, limit: int
    ) -> list[MessageRun]:
        """See SessionReads."""
        found = self._read("session_count", (slot, *after, rows, limit))
        return [MessageRun(*columns) for columns in found]

    def state_sizes(self, slot: int, start: str, limit: int) -> list[tuple[str, int]]:
        """See SessionReads."""
        found = self._read("session_state_sizes", (slot, start, limit))
        return [(session_id, size_bytes) for session_id, size_bytes in found]

    # Writes

    def opened(self) -> None:
        """Find the slots that the file has by session."""
        self.slots.clear()
        slot = -1
        while (following := self._read("session_slots", (slot,))[0][0]) is not None:
            slot = following
            self.slots.add(slot)

    def before(
        self, db: apsw.Connection, changes: Changes, runs: Callable[[Iterable[int]], Iterator[Any]]
    ) -> None:
        """Take out what is deleted or moved, and change states, while the rows are still there."""
        self.slots.update(number for number, slot in changes.slots.items() if slot.by_session)
        for update in changes.updates:
            if update.state != State.ACTIVE and update.id >> SLOT_SHIFT in self.slots:
                for place in self._read("session_places", (update.id, update.id)):
                    db.execute(self._sql["session_change"], (update.state, *place))
        leaving = [move.id for move in changes.moves] + changes.deletes
        leaving = [id_ for id_ in leaving if id_ >> SLOT_SHIFT in self.slots]
        for span in runs(leaving):
            db.executemany(self._sql["session_delete"], self._read("session_places", span))

    def after(self, db: apsw.Connection, changes: Changes) -> None:
        """Take in what is inserted, and write the states of sessions."""
        joining = [
            (row.slot, row.session_id, row.state, row.counter)
            for row in changes.inserts
            if row.session_id is not None and row.slot in self.slots
        ]
        if joining:
            db.executemany(self._sql["session_insert"], joining)
        for entry in changes.session_states:
            if entry.state is None:
                db.execute(self._sql["session_clear_state"], (entry.slot, entry.session_id))
            else:
                db.execute(self._sql["session_set_state"], entry)


def _following(name: str) -> str:
    """Return the first name after `name`: none contains NUL."""
    return name + "\0"
