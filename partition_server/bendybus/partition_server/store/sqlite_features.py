"""What only some queues have: shared bodies, delays, forwarding, sessions. Others do not come here.

Each part writes its share of a commit, and reads what its rules ask for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Final

import apsw

from bendybus.partition_server.store.file_format import INCARNATION_BYTES
from bendybus.partition_server.store.records import (
    BODY_ID_BYTES,
    COUNTER_MASK,
    SLOT_SHIFT,
    Changes,
    Delay,
    Row,
    State,
    Values,
    row_id,
    shared_format_missing,
)
from bendybus.partition_server.store.sqlite_appends import in_steps, in_steps_of
from bendybus.partition_server.store.store import SESSION_LOOKS, Head, MessageRun

Read = Callable[[str, Values], list[Values]]
Page = Callable[[str, Values, int], list[Row]]
Runs = Callable[[Iterable[int]], Iterator[tuple[int, int]]]
# After every incarnation, in the order of names.
_AFTER_ANY: Final = b"\xff" * (INCARNATION_BYTES + 1)


class SqliteBodies:
    """Reads and counts of shared bodies; see store.BodyReads."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        self._sql = sql
        self._inserts = in_steps_of(sql["body_insert"], 2)
        self._count_inserts = in_steps_of(sql["body_insert_count"], 2)
        self._read = read
        # A commit may have left bodies that no message has; so may an earlier opening.
        self.has_garbage = False

    # Reads

    def resolved(self, row: Row) -> Row:
        """Return a row that refers to its body with the body itself."""
        found = self._read("body_read", (int.from_bytes(row.payload, "big"),))
        if not found:
            # A damaged file: this one message cannot be read by its receiver, all others can.
            return shared_format_missing(row)
        return row._replace(payload=found[0][0])

    def unreferenced(self, limit: int) -> list[tuple[int, int]]:
        """See BodyReads."""
        return [(id_, size) for id_, size in self._read("body_unreferenced", (limit,))]

    def of_slot(self, slot: int, limit: int) -> list[int]:
        """See BodyReads."""
        span = (slot << SLOT_SHIFT, ((slot + 1) << SLOT_SHIFT) - 1)
        return [id_ for (id_,) in self._read("body_of_slot", (*span, limit))]

    def opened(self) -> None:
        """Find whether an earlier opening left bodies that no message has."""
        self.has_garbage = bool(self.unreferenced(1))

    # Writes

    def commit(self, db: apsw.Connection, changes: Changes, runs: Runs) -> None:
        """Write what a commit changes of bodies, while the rows that it deletes are still there."""
        bodies = changes.bodies
        in_steps(db, self._inserts, [(body.id, body.payload) for body in bodies])
        in_steps(db, self._count_inserts, [(body.id, body.references) for body in bodies])
        slots = {slot.slot for slot in changes.slots.values() if slot.has_copies}
        if slots and changes.deletes:
            self._release(db, runs(id_ for id_ in changes.deletes if id_ >> SLOT_SHIFT in slots))
        for id_ in changes.bodies_removed:
            db.execute(self._sql["body_remove"], (id_,))
            db.execute(self._sql["body_remove_count"], (id_,))

    def _release(self, db: apsw.Connection, spans: Iterator[tuple[int, int]]) -> None:
        released: Counter[bytes] = Counter()
        for span in spans:
            released.update(payload for (payload,) in self._read("body_released", span))
        for payload, count in released.items():
            assert len(payload) == BODY_ID_BYTES, payload
            db.execute(self._sql["body_release"], (count, int.from_bytes(payload, "big")))
            self.has_garbage = True


class SqliteDelays:
    """Keeps when each may be received; what is deleted or moved is forgotten with its message."""

    def __init__(self, sql: dict[str, str], read: Callable[[str], list[Values]]) -> None:
        """`read` executes a statement of `sql`, by name."""
        self._sql = sql
        self._read = read
        # Whether there has been one since the file was opened: if not, a commit looks for none.
        self.waiting = False

    def all(self) -> list[Delay]:
        """Return the messages that wait; read when the file is opened."""
        found = [Delay(*row) for row in self._read("delay_read")]
        self.waiting = bool(found)
        return found

    def commit(self, db: apsw.Connection, changes: Changes, runs: Runs) -> None:
        """Write what a commit holds back and lets go."""
        self.waiting = True
        moved = [move.id for move in changes.moves]
        for span in runs([*changes.deletes, *moved, *changes.delays_ended]):
            db.execute(self._sql["delay_forget"], span)
        for delay in changes.delays:
            db.execute(self._sql["delay_write"], delay)


class SqliteForwards:
    """See forward_reads.ForwardReads."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        self._sql = sql
        self._read = read

    def last(self, source: bytes) -> tuple[int, int]:
        """See ForwardReads."""
        for boot, sequence in self._read("forward_last", (source,)):
            return boot, sequence
        return 0, 0

    def known(self, source: bytes, counters: Sequence[int]) -> set[int]:
        """See ForwardReads."""
        found = (self._read("forward_known", (source, counter)) for counter in counters)
        return {row[0] for rows in found for row in rows}

    def choices(self) -> dict[int, int]:
        """See ForwardReads."""
        return dict(self._read("forward_choices", ()))

    def forget_slot(self, db: apsw.Connection, slot: int) -> None:
        """Forget the choices for messages of a slot that is removed."""
        db.execute(
            self._sql["forward_forget_choices"], (row_id(slot, 0), row_id(slot, COUNTER_MASK))
        )

    def commit(self, db: apsw.Connection, changes: Changes) -> None:
        """Write what a commit notes and forgets."""
        sql = self._sql
        for frame in changes.forwarded:
            name = frame.source.name()
            if frame.first:
                place = frame.source.place()
                db.execute(sql["forward_forget_messages_at"], (place, place + _AFTER_ANY))
                db.execute(sql["forward_forget_sources_at"], (place, place + _AFTER_ANY))
            note = (name, frame.source.uid, frame.boot, frame.sequence)
            db.execute(sql["forward_note"], note)
            for counter in frame.settled:
                db.execute(sql["forward_forget"], (name, counter))
            if frame.settled_below:
                db.execute(sql["forward_forget_below"], (name, frame.settled_below))
            for counter in frame.stored:
                db.execute(sql["forward_remember"], (name, counter))
        for id_, partition in changes.forward_choices.items():
            if partition is None:
                db.execute(sql["forward_forget_choices"], (id_, id_))
            else:
                db.execute(sql["forward_choose"], (id_, partition))
        for uid in changes.forward_sources_removed:
            # What only forwards to it begins with its name.
            place = f"{uid}/".encode()
            db.execute(sql["forward_forget_messages_at"], (place, place + _AFTER_ANY))
            db.execute(sql["forward_forget_sources_at"], (place, place + _AFTER_ANY))
            db.execute(sql["forward_forget_messages_of"], (uid,))
            db.execute(sql["forward_forget_source"], (uid,))


class SqliteSessions:
    """Reads of sessions; see store.SessionReads."""

    def __init__(self, sql: dict[str, str], read: Read, page: Page) -> None:
        """`read` and `page` execute a statement of `sql`, by name."""
        self._sql = sql
        self._read = read
        self._page = page
        # Slots that have messages by session, or had.
        self.slots: set[int] = set()

    # Reads

    def rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int, expired_ms: int
    ) -> tuple[list[Row], int | None]:
        """See SessionReads."""
        looked, following = self._rows(slot, session_id, after, limit, size_limit)
        found = [row for row in looked if not _is_over(row.expires_ms, expired_ms)]
        if found or following is None:
            return found, following
        head = self.head(slot, session_id, following, expired_ms)
        if head is None or not head.alive:
            return [], None if head is None else head.counter
        looked, following = self._rows(slot, session_id, head.counter - 1, limit, size_limit)
        return [row for row in looked if not _is_over(row.expires_ms, expired_ms)], following

    def _rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int
    ) -> tuple[list[Row], int | None]:
        """Return active rows, those past their time too, and the counter after which to go on."""
        rows = self._page("session_rows", (slot, session_id, after, limit), size_limit)
        full = len(rows) == limit or sum(row.delivered_bytes() for row in rows) >= size_limit
        return rows, rows[-1].counter if rows and full else None

    def head(self, slot: int, session_id: str, after: int, expired_ms: int) -> Head | None:
        """See SessionReads."""
        # Mostly it is the first one.
        for looks in (1, SESSION_LOOKS):
            found = self._read("session_heads", (slot, session_id, after, looks))
            for counter, expires_ms in found:
                if not _is_over(expires_ms, expired_ms):
                    return Head(counter, alive=True)
            if len(found) < looks:
                return None
        return Head(found[-1][0], alive=False)

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
        looked = self._read("session_listed", (slot, start, limit))
        last = looked[-1][0] if len(looked) == limit else None
        return [name for name, wanted in looked if wanted], last

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

    def before(self, db: apsw.Connection, changes: Changes, runs: Runs) -> None:
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
        places = ((run, place) for run in changes.copies for place in run.places)
        of_sessions = (each for each in places if each[1][0] >> SLOT_SHIFT in self.slots)
        copies = chain.from_iterable(run.stored(*place) for run, place in of_sessions)
        joining = [
            (row.slot, row.session_id, row.state, row.counter)
            for row in chain(changes.inserts, copies)
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


def _is_over(expires_ms: int | None, now_ms: int) -> bool:
    return expires_ms is not None and expires_ms <= now_ms
