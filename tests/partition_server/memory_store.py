"""A store without a file: same contract, same errors, for tests and for the simulation.

Survives `open()` like a file survives a crash: everything that was committed is there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from bendybus.domain.entity import Entity, Fingerprint
from bendybus.partition_server.store.errors import FileRefused, StoreError
from bendybus.partition_server.store.records import (
    SLOT_SHIFT,
    Changes,
    ClockMark,
    Delay,
    Envelope,
    HistoryEntry,
    ProducerEntry,
    Row,
    SlotState,
    State,
    Summary,
    row_id,
)
from bendybus.partition_server.store.store import Opened
from tests.partition_server.memory_reads import (
    MemoryBodies,
    MemoryForwards,
    MemoryPipelines,
    MemorySessions,
    bounded,
)


class MemoryStore:
    """Holds rows in a dictionary; sorts when it is asked, so it suits small numbers."""

    def __init__(self, fingerprint: Fingerprint) -> None:
        self.fingerprint = replace(fingerprint, incarnation=b"in memory only..")
        # Set by a test: raised by the next commit instead of writing.
        self.fail_next: StoreError | None = None
        self._boot = 0
        self._rows: dict[int, Row] = {}
        self.bodies = MemoryBodies(self._rows)
        self.forwards = MemoryForwards()
        self.pipelines = MemoryPipelines()
        self.sessions = MemorySessions(self._rows, self.bodies)
        self._entities: dict[str, Entity] = {}
        self._slots: dict[int, SlotState] = {}
        self._history: dict[tuple[int, str], HistoryEntry] = {}
        self._producers: dict[int, ProducerEntry] = {}
        self._seen: ClockMark | None = None
        self._producers_unknown: dict[str, int] = {}
        self._delays: dict[int, int] = {}

    def expect(self, fingerprint: Fingerprint) -> None:
        """Raise FileRefused unless the store belongs to `fingerprint`."""
        if fingerprint != self.fingerprint:
            raise FileRefused(f"the store belongs to {self.fingerprint}, not to {fingerprint}")

    def open(self) -> Opened:
        """Return what is there; see Store."""
        self._boot += 1
        self.bodies.opened()
        return Opened(
            self.fingerprint,
            self._boot,
            sorted(self._entities.values(), key=attrgetter("generation")),
            [replace(self._slots[number]) for number in sorted(self._slots)],
            list(self._producers.values()),
            self._seen,
            dict(self._producers_unknown),
            [Delay(id_, until_ms) for id_, until_ms in sorted(self._delays.items())],
            self.pipelines.leases(),
        )

    def active(
        self, slot: int, after: int, through: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """See Store."""
        rows = (
            row
            for row in self._resolved(slot, after + 1)
            if row.state == State.ACTIVE
            and row.counter <= through
            and (row.expires_ms is None or row.expires_ms > expired_ms)
        )
        return bounded(rows, limit, size_limit)

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """See Store."""
        found = [self._rows[id_] for id_ in sorted(ids) if id_ in self._rows]
        return [self.bodies.resolved(row) for row in found]

    def envelope(self, id_: int) -> Envelope | None:
        """See Store."""
        row = self._rows.get(id_)
        if row is None:
            return None
        return Envelope(row._replace(payload=b"", head=b""), row.content_bytes())

    def browse(self, slot: int, start: int, limit: int, size_limit: int) -> list[Row]:
        """See Store."""
        return bounded(self._resolved(slot, start), limit, size_limit)

    def summaries(self, slot: int, start: int, through: int, limit: int) -> list[Summary]:
        """See Store."""
        rows = (row for row in self._slot_rows(slot, start) if row.counter <= through)
        return [_summary(row, 0) for row in rows][:limit]

    def expiring(self, until_ms: int, after: tuple[int, int], limit: int) -> list[Summary]:
        """See Store."""
        due = [
            (row.expires_ms, row.id)
            for row in self._rows.values()
            if row.expires_ms is not None and row.expires_ms <= until_ms
        ]
        return self._due(due, after, limit)

    def activating(
        self, until_ms: int, after: tuple[int, int], limit: int, slot: int | None = None
    ) -> list[Summary]:
        """See Store."""
        due = [
            (row.scheduled_ms, row.id)
            for row in self._rows.values()
            if row.state == State.SCHEDULED
            and row.scheduled_ms <= until_ms
            and slot in (None, row.slot)
        ]
        return self._due(due, after, limit)

    def _due(self, due: list[tuple[int, int]], after: tuple[int, int], limit: int) -> list[Summary]:
        found = sorted(key for key in due if key > after)[:limit]
        return [_summary(self._rows[id_], at_ms) for at_ms, id_ in found]

    def next_expiry(self, after_ms: int) -> int | None:
        """See Store."""
        times = [row.expires_ms for row in self._rows.values() if row.expires_ms is not None]
        return min((ms for ms in times if ms > after_ms), default=None)

    def next_activation(self, after_ms: int) -> int | None:
        """See Store."""
        waiting = [row for row in self._rows.values() if row.state == State.SCHEDULED]
        times = (row.scheduled_ms for row in waiting if row.scheduled_ms > after_ms)
        return min(times, default=None)

    def oldest_key(self, slot: int, from_ms: int) -> int | None:
        """See Store."""
        keys = [entry for entry in self._history.values() if entry.slot == slot]
        return min((key.at_ms for key in keys if key.at_ms >= from_ms), default=None)

    def known(self, slot: int, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
        """See Store."""
        found = ((key, self._history.get((slot, key))) for key in keys)
        return {key: (entry.counter, entry.at_ms) for key, entry in found if entry is not None}

    def history(self, slot: int, before_ms: int, limit: int) -> list[HistoryEntry]:
        """See Store."""
        old = [e for e in self._history.values() if e.slot == slot and e.at_ms < before_ms]
        return sorted(old, key=lambda entry: (entry.at_ms, entry.key))[:limit]

    def commit(self, changes: Changes, *, keep: bool = True) -> None:
        """See Store."""
        if self.fail_next is not None:
            failure, self.fail_next = self.fail_next, None
            raise failure
        if not keep:
            return
        for entity in changes.entities:
            self._entities[entity.key] = entity
        for key in changes.entities_forgotten:
            self._entities.pop(key, None)
        self.bodies.commit(changes)
        self.forwards.commit(changes)
        self.pipelines.commit(changes)
        copies = [
            row for run in changes.copies for place in run.places for row in run.stored(*place)
        ]
        for row in changes.inserts + copies:
            assert row.id not in self._rows, f"row {row.id} exists"
            self._rows[row.id] = row
        for update in changes.updates:
            row = self._rows[update.id]
            self._rows[update.id] = row._replace(
                state=update.state,
                delivery_count=update.delivery_count,
                changed_properties=update.changed_properties,
                extra_bytes=row.extra_bytes + update.added_bytes,
            )
        for move in changes.moves:
            assert move.row.id not in self._rows, f"row {move.row.id} exists"
            row = self._rows.pop(move.id)
            self._rows[move.row.id] = move.row._replace(
                payload=row.payload, format=row.format, head=row.head
            )
        for id_ in changes.deletes:
            self._rows.pop(id_, None)
        for id_ in (*changes.deletes, *(move.id for move in changes.moves), *changes.delays_ended):
            self._delays.pop(id_, None)
        self._delays.update(changes.delays)
        self._remember(changes)
        self.sessions.commit(changes)
        for slot in changes.slots.values():
            self._slots[slot.slot] = replace(slot)
        for number in changes.slots_removed:
            self._slots.pop(number, None)
        self._seen = changes.seen or self._seen

    def _remember(self, changes: Changes) -> None:
        for entry in changes.history:
            self._history[entry.slot, entry.key] = entry
        for entry in changes.history_deletes:
            self._history.pop((entry.slot, entry.key), None)
        for producer in changes.producers:
            id_ = producer.id or max(self._producers, default=0) + 1
            self._producers[id_] = producer._replace(id=id_)
        for forgotten in changes.producers_forgotten:
            del self._producers[forgotten]
        self._producers_unknown.update(changes.producers_unknown)
        for uid in changes.leases_removed:
            self._producers_unknown.pop(uid, None)

    def _resolved(self, slot: int, start: int) -> list[Row]:
        return [self.bodies.resolved(row) for row in self._slot_rows(slot, start)]

    def _slot_rows(self, slot: int, start: int) -> list[Row]:
        lowest, end = row_id(slot, start), (slot + 1) << SLOT_SHIFT
        return sorted(row for id_, row in self._rows.items() if lowest <= id_ < end)


def _summary(row: Row, at_ms: int) -> Summary:
    return Summary(row.id, row.state, row.enqueued_ms, at_ms, row.size())
