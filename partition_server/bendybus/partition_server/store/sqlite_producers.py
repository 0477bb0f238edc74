"""Parts of producers' frames that are stored, and since when they are known, in the SQLite file.

Marks of before v0.7 have one time for all entities. It is still written, for a version that goes
back. What such a version forgets it notes there alone, and not at all where the time is as late
already: if it opened the file in between, that time is one of all entities.

    producers_forgotten_until_ms          of whatever entity, at most
    producers_forgotten_until_ms/UID      of one entity; without UID: of all others
    producers_forgotten_until_ms/*        the last opening by a version that writes these
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import apsw

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.records import Changes, Fence, Lease, ProducerEntry, Values
from bendybus.partition_server.store.store import FORGOTTEN_A_COMMIT

Read = Callable[..., list[Values]]
_MARK: Final = "producers_forgotten_until_ms"
_OPENING: Final = "*"


class SqliteProducers:
    """What of producers is in the file."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        self._sql = sql
        self._read = read
        # Of all entities, as it is in the file.
        self._newest_ms = 0

    def all(self) -> list[ProducerEntry]:
        """Return all entries, oldest first; read when the file is opened."""
        return [ProducerEntry(*row) for row in self._read("read_producers")]

    def opened(self, db: apsw.Connection, boot: int) -> None:
        """Note that the file is opened by this version. STRICTLY BEFORE `unknown`."""
        write = self._sql["write_mark"]
        marks = self._marks()
        with db:
            if marks.get(f"{_MARK}/{_OPENING}") != boot - 1 and _MARK in marks:
                db.execute(write, (f"{_MARK}/", marks[_MARK]))
            db.execute(write, (f"{_MARK}/{_OPENING}", boot))

    def unknown(self) -> dict[str, int]:
        """Return until when entries are no longer known, by entity; read when it is opened."""
        found = self._marks()
        self._newest_ms = found.pop(_MARK, 0)
        del found[f"{_MARK}/{_OPENING}"]
        return {name.removeprefix(f"{_MARK}/"): value for name, value in found.items()}

    def _marks(self) -> dict[str, int]:
        end = chr(ord("/") + 1)
        return dict(self._read("read_marks", (_MARK, _MARK + end)))

    def commit(
        self,
        db: apsw.Connection,
        changes: Changes,
        runs: Callable[[Iterable[int]], Iterator[tuple[int, int]]],
    ) -> None:
        """Write what a commit notes and forgets."""
        sql = self._sql
        for entry in changes.producers:
            values = (entry.id or None, *entry[:-1], file_format.OUTCOME_VERSION)
            db.execute(sql["write_producer"], values)
        if not (changes.producers_forgotten or changes.leases_removed):
            return
        for span in runs(changes.producers_forgotten):
            db.execute(sql["forget_producers"], span)
        for uid, unknown_ms in changes.producers_unknown:
            db.execute(sql["write_mark"], (f"{_MARK}/{uid}", unknown_ms))
            self._newest_ms = max(self._newest_ms, unknown_ms)
        if changes.producers_unknown:
            db.execute(sql["write_mark"], (_MARK, self._newest_ms))
        for uid in changes.leases_removed:
            db.execute(sql["forget_mark"], (f"{_MARK}/{uid}",))


class SqlitePipelines:
    """See store.FenceReads."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        self._sql = sql
        self._read = read

    def leases(self) -> list[Lease]:
        """Return the leases of drains; read when the file is opened."""
        return [
            Lease(uid, SubQueue(sub_queue), *rest)
            for uid, sub_queue, *rest in self._read("pipeline_read_leases")
        ]

    def fence(self, slot: int, producer_id: bytes) -> Fence | None:
        """See FenceReads."""
        found = self._read("pipeline_read_fence", (slot, producer_id))
        return Fence(*found[0]) if found else None

    def fence_counts(self, since_ms: int = 0) -> dict[int, int]:
        """See FenceReads."""
        return dict(self._read("pipeline_count_fences", (since_ms,)))

    def commit(self, db: apsw.Connection, changes: Changes) -> None:
        """Write what a commit notes and forgets."""
        sql = self._sql
        for lease in changes.leases:
            db.execute(sql["pipeline_write_lease"], lease)
        for uid in changes.leases_removed:
            db.execute(sql["pipeline_remove_leases"], (uid,))
        if changes.fences_before_ms:
            values = (changes.fences_before_ms, FORGOTTEN_A_COMMIT)
            db.execute(sql["pipeline_forget_fences"], values)
        for fence in changes.fences:
            db.execute(sql["pipeline_write_fence"], fence)
        for slot in changes.slots_removed:
            db.execute(sql["pipeline_forget_slot_fences"], (slot,))
