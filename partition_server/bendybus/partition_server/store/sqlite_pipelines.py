"""Leases of drains and fences of producers, in the SQLite file."""

from collections.abc import Callable
from typing import Any, Final

import apsw

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store import statements
from bendybus.partition_server.store.records import Changes, Fence, Lease
from bendybus.partition_server.store.store import FORGOTTEN_A_COMMIT

Read = Callable[..., list[tuple[Any, ...]]]
PREFIX: Final = "pipeline_"


class SqlitePipelines:
    """See fence_reads.FenceReads."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        """`read` executes a statement of `sql`, by name."""
        sql |= {PREFIX + name: text for name, text in statements.load("pipelines.sql").items()}
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
