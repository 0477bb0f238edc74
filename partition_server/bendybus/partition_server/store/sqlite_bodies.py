"""Shared bodies in the SQLite file: stored once, counted, removed when no message has them.

    messages                          bodies                  body_references
    ┌────┬──────────────┬─────────┐   ┌────┬─────────┐        ┌────┬───────┐
    │ id │ format >= 16 │ payload ├──►│ id │ payload │        │ id │ count │
    └────┴──────────────┴─────────┘   └────┴─────────┘        └────┴───────┘
                          8 bytes      slot of the topic << 44 | number at the topic

Counts change in the transaction that inserts or deletes the messages. What no message has any more
is found by an index and removed later, by the partition's sweep: after a crash, too.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import apsw

from bendybus.partition_server.store import statements
from bendybus.partition_server.store.records import (
    BODY_ID_BYTES,
    SLOT_SHIFT,
    Changes,
    Row,
    shared_format_missing,
)
from bendybus.partition_server.store.sqlite_appends import in_steps, in_steps_of

Read = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
PREFIX: Final = "body_"


class SqliteBodies:
    """Reads and counts of shared bodies; see body_reads.BodyReads."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        sql |= {PREFIX + name: text for name, text in statements.load("bodies.sql").items()}
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

    def commit(
        self, db: apsw.Connection, changes: Changes, runs: Callable[[Iterable[int]], Iterator[Any]]
    ) -> None:
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

    def _release(self, db: apsw.Connection, spans: Iterator[Any]) -> None:
        released: Counter[bytes] = Counter()
        for span in spans:
            released.update(payload for (payload,) in self._read("body_released", span))
        for payload, count in released.items():
            assert len(payload) == BODY_ID_BYTES, payload
            db.execute(self._sql["body_release"], (count, int.from_bytes(payload, "big")))
            self.has_garbage = True
