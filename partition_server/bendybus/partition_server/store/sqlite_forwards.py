"""What other partitions forwarded, in the SQLite file."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw

from bendybus.partition_server.store import statements
from bendybus.partition_server.store.file_format import INCARNATION_BYTES
from bendybus.partition_server.store.records import COUNTER_MASK, Changes, row_id

Read = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
PREFIX: Final = "forward_"
# After every incarnation, in the order of names.
_AFTER_ANY: Final = b"\xff" * (INCARNATION_BYTES + 1)


class SqliteForwards:
    """See forward_reads.ForwardReads."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        sql |= {PREFIX + name: text for name, text in statements.load("forwards.sql").items()}
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
