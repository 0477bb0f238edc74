"""Shared bodies of the store without a file."""

from bendybus.partition_server.store.records import SLOT_SHIFT, Changes, Row


class MemoryBodies:
    """See body_reads.BodyReads."""

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
