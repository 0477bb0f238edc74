"""The real store: one SQLite file, one connection, one thread.

Order at a commit: BEGIN, all changes, COMMIT (which syncs), check that the file is still the one
in the directory; only then may callers be answered. `apsw` brings its own SQLite: the one of Debian
and of Python may lie in the range of the WAL-reset bug.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Final

import apsw

from bendybus.domain.entity import Fingerprint
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store import file_format, file_guard
from bendybus.partition_server.store.errors import (
    FileRefused,
    NotCommitted,
    StoreError,
    StoreFailed,
    StoreFull,
    Unwritable,
)
from bendybus.partition_server.store.records import (
    ROW_BYTES,
    SHARED_FORMAT,
    SLOT_SHIFT,
    Changes,
    ClockMark,
    Envelope,
    HistoryEntry,
    Row,
    SlotState,
    Summary,
    Values,
    row_id,
)
from bendybus.partition_server.store.sqlite_appends import Appends, in_steps, in_steps_of
from bendybus.partition_server.store.sqlite_features import (
    SqliteBodies,
    SqliteDelays,
    SqliteForwards,
    SqliteSessions,
)
from bendybus.partition_server.store.sqlite_producers import SqlitePipelines, SqliteProducers
from bendybus.partition_server.store.store import Opened

_BY_SESSION: Final = attrgetter("by_session")
_HAS_COPIES: Final = attrgetter("has_copies")
_SLOT_COLUMNS: Final = 12
_PAYLOAD: Final = Row._fields.index("payload")
_PLAIN_COLUMNS: Final = Row._fields.index("changed_properties")


class SqliteStore:
    """Messages of one partition in `directory`/partition-NN.db; see store.Store."""

    def __init__(
        self,
        directory: Path,
        fingerprint: Fingerprint,
        *,
        reserve_bytes: int = 0,
        page_count_max: int = 0,
    ) -> None:
        self.fingerprint = fingerprint
        self.guard = file_guard.FileGuard(directory, fingerprint.partition, reserve_bytes)
        self._page_count_max = page_count_max
        self._queries = file_format.load()
        self._appends = Appends(self._queries)
        self._slots = in_steps_of(self._queries["write_slots"], _SLOT_COLUMNS)
        self.bodies = SqliteBodies(self._queries, self._all)
        self.forwards = SqliteForwards(self._queries, self._all)
        self.pipelines = SqlitePipelines(self._queries, self._all)
        self._producers = SqliteProducers(self._queries, self._all)
        self._delays = SqliteDelays(self._queries, self._all)
        self.sessions = SqliteSessions(self._queries, self._all, self._page)
        self._db: apsw.Connection | None = None
        self._wal = f"{self.path}-wal"
        self._page_bytes = 0

    @property
    def path(self) -> Path:
        """The file."""
        return self.guard.path

    def open(self) -> Opened:
        """Lock the file, make it if it is new, check whose it is, raise its boot number."""
        self.close()
        self.guard.lock()
        try:
            return self._open_somehow()
        except BaseException:
            self.close()
            raise

    def _open_somehow(self) -> Opened:
        try:
            return self._open()
        except FileRefused:
            raise
        except StoreError:
            # Opening writes: on a full volume it needs the reserve, as everything else does.
            if not self.guard.give_up_reserve():
                raise
            self._close_file()
            return self._open()

    def close(self) -> None:
        """Close the file and give up its lock; may be called at any time."""
        self._close_file()
        self.guard.unlock()

    def _close_file(self) -> None:
        if self._db is not None:
            with contextlib.suppress(apsw.Error):
                self._db.close()
            self._db = None

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        with contextlib.suppress(OSError):
            return os.stat(self._wal).st_size
        return 0

    def written_bytes(self) -> int:
        """Return the bytes of all pages that were written since the file was opened."""
        pages, _ = self._connection().status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        return int(pages) * self._page_bytes

    def unused_bytes(self) -> int:
        """Return the space inside the file that deleted messages left, which counts as free."""
        with translated(self.path):
            return int(self._connection().pragma("freelist_count")) * self._page_bytes

    def shrink(self, pages: int) -> None:
        """Give up to `pages` unused pages at the end of the file back to the volume."""
        with translated(self.path):
            self._connection().execute(f"PRAGMA incremental_vacuum({pages})").fetchall()

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file, for a clean end."""
        with translated(self.path):
            self._connection().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def cut(self) -> None:
        """Cut off the end of the file that `shrink` gave up: only a checkpoint does that."""
        with translated(self.path):
            self._connection().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _open(self) -> Opened:
        self.guard.check_before_open()
        with translated(self.path, FileRefused):
            self._db = db = apsw.Connection(str(self.path))
            # Before anything is written: a foreign file stays as it is.
            empty = file_format.refuse_foreign(self.path, db)
            if empty:
                self.guard.check_may_begin("is empty")
            else:
                [versions] = db.execute(self._queries["read_versions"])
                file_format.check_contents(self.path, *versions)
            file_format.set_pragmas(db)
            self._page_bytes = int(db.pragma("page_size"))
            if empty:
                file_format.make(db)
            if self._page_count_max:
                db.pragma("max_page_count", self._page_count_max)
            self._appends.opened(db)
            self.sessions.opened()
            self.bodies.opened()
            opened = self._read_all(*file_format.open_header(self.path, db, self.fingerprint))
        self.guard.opened()
        return opened

    def _read_all(self, incarnation: bytes, boot: int, seen: ClockMark | None) -> Opened:
        self.fingerprint = replace(self.fingerprint, incarnation=incarnation)
        self._producers.opened(self._connection(), boot)
        return Opened(
            self.fingerprint,
            boot,
            [file_format.entity_from_json(entry) for (entry,) in self._all("read_entities")],
            [
                SlotState(slot, uid, SubQueue(sub_queue), *figures)
                for slot, uid, sub_queue, *figures in self._all("read_slots")
            ],
            self._producers.all(),
            seen,
            self._producers.unknown(),
            self._delays.all(),
            self.pipelines.leases(),
        )

    # Reads

    def active(
        self, slot: int, after: int, through: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """See Store."""
        span = (row_id(slot, after + 1), row_id(slot, through))
        return self._page("read_active", (*span, expired_ms, limit), size_limit)

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """See Store."""
        found: list[Row] = []
        for first, last in _runs(ids):
            if first == last:
                found += self._rows("read_one", (first,))
            else:
                found += self._rows("browse", (first, last, last - first + 1))
        return found

    def envelope(self, id_: int) -> Envelope | None:
        """See Store."""
        for columns in self._all("read_envelope", (id_,)):
            return Envelope(Row._make(columns[:-1]), columns[-1])
        return None

    def browse(self, slot: int, start: int, limit: int, size_limit: int) -> list[Row]:
        """See Store."""
        span = (row_id(slot, start), ((slot + 1) << SLOT_SHIFT) - 1)
        return self._page("browse", (*span, limit), size_limit)

    def summaries(self, slot: int, start: int, through: int, limit: int) -> list[Summary]:
        """See Store."""
        return self._summaries(
            "read_summaries", (row_id(slot, start), row_id(slot, through), limit)
        )

    def expiring(self, until_ms: int, after: tuple[int, int], limit: int) -> list[Summary]:
        """See Store."""
        return self._summaries("read_expiring", (until_ms, *after, limit))

    def activating(
        self, until_ms: int, after: tuple[int, int], limit: int, slot: int | None = None
    ) -> list[Summary]:
        """See Store."""
        if slot is None:
            return self._summaries("read_activating", (until_ms, *after, limit))
        ids = row_id(slot, 0), ((slot + 1) << SLOT_SHIFT) - 1
        return self._summaries("read_activating_of", (until_ms, *after, *ids, limit))

    def next_expiry(self, after_ms: int) -> int | None:
        """See Store."""
        [(time_ms,)] = self._all("next_expiry", (after_ms,))
        return time_ms  # type: ignore[no-any-return]

    def next_activation(self, after_ms: int) -> int | None:
        """See Store."""
        [(time_ms,)] = self._all("next_activation", (after_ms,))
        return time_ms  # type: ignore[no-any-return]

    def oldest_key(self, slot: int, from_ms: int) -> int | None:
        """See Store."""
        [(time_ms,)] = self._all("oldest_key", (slot, from_ms))
        return time_ms  # type: ignore[no-any-return]

    def known(self, slot: int, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
        """See Store."""
        found: dict[str, tuple[int, int]] = {}
        for key in keys:
            for original in self._all("known_key", (slot, key)):
                found[key] = original
        return found

    def history(self, slot: int, before_ms: int, limit: int) -> list[HistoryEntry]:
        """See Store."""
        return [HistoryEntry(*row) for row in self._all("read_history", (slot, before_ms, limit))]

    # Writes

    def commit(self, changes: Changes, *, keep: bool = True) -> None:
        """See Store."""
        db = self._connection()
        failed: type[StoreFailed] = NotCommitted
        # Not a `with` for each half: this is done for every commit.
        try:
            db.execute("BEGIN IMMEDIATE")
            self._write(db, changes)
            # Whatever fails from here on, the transaction may be in the file: a failing sync says
            # nothing about what was written before it.
            failed = StoreFailed
            db.execute("COMMIT" if keep else "ROLLBACK")
        except BaseException as error:
            with translated(self.path, failed=failed):
                if db.in_transaction:
                    with translated(self.path):
                        db.execute("ROLLBACK")
                if failed is NotCommitted and is_unwritable(error):
                    raise Unwritable(f"{self.path}: {error!r}") from error
                raise
        self.guard.check_still_there()

    def _write(self, db: apsw.Connection, changes: Changes) -> None:
        sql = self._queries
        for entity in changes.entities:
            entry = file_format.entity_to_json(entity)
            values = (entity.key, entity.generation, entity.deleted, entry)
            db.execute(sql["write_entity"], (*values, file_format.entry_version(entity)))
        for name in changes.entities_forgotten:
            db.execute(sql["forget_entity"], (name,))
        # What a queue does not have costs it nothing: sessions, shared bodies, delays.
        slots, known = changes.slots, self.sessions.slots
        by_session = any(map(_BY_SESSION, slots.values())) or not known.isdisjoint(slots)
        # Of a deleted queue, states may be all that is left, which its slot does not say.
        if by_session := by_session or bool(changes.session_states):
            self.sessions.before(db, changes, _runs)
        copies = changes.deletes and any(map(_HAS_COPIES, slots.values()))
        if copies or changes.bodies or changes.bodies_removed:
            self.bodies.commit(db, changes, _runs)
        if changes.inserts:
            self._appends.write(db, changes.inserts)
        if changes.copies:
            self._appends.copy(db, changes.copies)
        for update in changes.updates:
            change = (*update[1:], update.id)
            db.execute(sql["update_message"], change)
        for id_, row in changes.moves:
            db.execute(sql["move_message"], (*row[:_PAYLOAD], *row[_PLAIN_COLUMNS:], id_))
        for span in _runs(changes.deletes):
            db.execute(sql["delete_range"], span)
        if changes.delays or self._delays.waiting:
            self._delays.commit(db, changes, _runs)
        if by_session:
            self.sessions.after(db, changes)
        if changes.forwarded or changes.forward_choices or changes.forward_sources_removed:
            self.forwards.commit(db, changes)
        if changes.leases or changes.fences or changes.leases_removed or changes.slots_removed:
            self.pipelines.commit(db, changes)
        for key in changes.history:
            db.execute(sql["remember_key"], key)
        for key in changes.history_deletes:
            db.execute(sql["forget_key"], (key.slot, key.key))
        if changes.producers or changes.leases_removed:
            self._producers.commit(db, changes, _runs)
        written = [
            (each.slot, each.uid, each.sub_queue, *each.figures(), each.dropped, each.destination)
            for each in slots.values()
        ]
        in_steps(db, self._slots, written)
        for number in changes.slots_removed:
            db.execute(sql["remove_slot"], (number,))
            self.forwards.forget_slot(db, number)
        if changes.seen is not None:
            db.execute(sql["write_seen"], changes.seen)

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            raise StoreFailed(f"{self.path} is closed")
        return self._db

    def _all(self, name: str, values: Values = ()) -> list[Values]:
        db = self._connection()
        with translated(self.path):
            return db.execute(self._queries[name], values).fetchall()

    def _page(self, name: str, values: Values, size_limit: int) -> list[Row]:
        found: list[Row] = []
        db = self._connection()
        with translated(self.path):
            for columns in db.execute(self._queries[name], values):
                row = Row._make(columns)
                if row.format >= SHARED_FORMAT:
                    row = self.bodies.resolved(row)
                found.append(row)
                size_limit -= row.delivered_bytes()
                if size_limit <= 0:
                    break
        return found

    def _summaries(self, name: str, values: tuple[int, ...]) -> list[Summary]:
        found: list[Summary] = []
        for *known, content_bytes, text, key, session, extra_bytes in self._all(name, values):
            size_bytes = content_bytes + len(text) + len(key) + len(session or "") + ROW_BYTES
            found.append(Summary._make([*known, size_bytes + extra_bytes]))
        return found

    def _rows(self, name: str, values: Values) -> list[Row]:
        rows = list(map(Row._make, self._all(name, values)))
        if any(row.format >= SHARED_FORMAT for row in rows):
            return [self.bodies.resolved(row) if row.is_shared else row for row in rows]
        return rows


def _runs(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of the runs of consecutive ids."""
    ordered = sorted(set(ids))
    if not ordered:
        return
    first = last = ordered[0]
    if ordered[-1] - first == len(ordered) - 1:
        yield first, ordered[-1]
        return
    for id_ in ordered[1:]:
        if id_ != last + 1:
            yield first, last
            first = id_
        last = id_
    yield first, last


# What a value raises that no column can hold.
_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, apsw.TooBigError)


def is_unwritable(error: BaseException) -> bool:
    """Whether a value of a transaction is to blame for its failure, and not the file."""
    return isinstance(error, _UNWRITABLE)


@contextlib.contextmanager
def translated(
    path: Path,
    other: type[FileRefused] | type[StoreFailed] = StoreFailed,
    *,
    failed: type[StoreFailed] = StoreFailed,
) -> Iterator[None]:
    """Raise the store's errors: `other` for a damaged file, `failed` for what else goes wrong."""
    try:
        yield
    except apsw.FullError as exc:
        raise StoreFull(f"{path}: no room left on the volume") from exc
    except (apsw.NotADBError, apsw.CorruptError) as exc:
        raise other(f"{path} is damaged or not an SQLite file ({exc}). Restore a backup.") from exc
    except apsw.Error as exc:
        raise failed(f"{path}: {exc}") from exc
