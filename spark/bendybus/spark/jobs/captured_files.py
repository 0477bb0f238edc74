"""The files of one range: rows of record batches go to the file of the hour they were enqueued in.

Files that are there already were complete: a replay of their range does not write them again.
"""

import base64
import contextlib
import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bendybus.spark.columns import BODY, BODY_BASE64
from bendybus.spark.errors import PipelineError
from bendybus.spark.jobs.file_store import HOUR_S, PARQUET, Draft, Layout, Store

# Columns without which a row finds no file.
NEEDED: Final = ("entity", "partition", "enqueued_at", "range")
# Of one range; only dead letters, whose times do not rise, ever need many.
OPEN_MAX: Final = 256
# What a Parquet file buffers for its next row group.
GROUP_ROWS: Final = 50_000
GROUP_BYTES: Final = 16_000_000
_GZIP_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Published:
    """A file. `new`: it was not there before."""

    path: str
    rows: int
    size_bytes: int
    new: bool


def write(
    batches: Iterable[Any], layout: Layout, store: Store, kept: list[str]
) -> Iterator[Published]:
    """Write the record batches of one range; yield its files. `kept`: the columns that they have.

    STRICTLY AFTER the last batch: only then is a file complete.
    """
    files: dict[str, _File] = {}
    try:
        for batch in batches:
            for path, rows in _parts(batch, layout):
                _file(files, path, layout, store).add(rows.select(kept))
        for path, file in sorted(files.items()):
            new, size_bytes = file.publish()
            yield Published(path, file.rows, size_bytes, new)
    finally:
        for file in files.values():
            file.discard()


def _file(files: dict[str, "_File"], path: str, layout: Layout, store: Store) -> "_File":
    found = files.get(path)
    if found is None:
        if len(files) >= OPEN_MAX:
            raise PipelineError(
                f"--path-template: one range has messages of more than {OPEN_MAX} folders; leave "
                "{hour} out of it, or set a smaller --max-messages"
            )
        found = _File(layout, None if store.has(path) else store.draft(path))
        files[path] = found
    return found


def _parts(batch: Any, layout: Layout) -> Iterator[tuple[str, Any]]:
    """Yield (path, rows): the rows of each file of a batch."""
    if not batch.num_rows:
        return
    micros = batch.column("enqueued_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    hours = pc.divide(micros, HOUR_S * 1_000_000)
    facts = [batch.column(name)[0].as_py() for name in ("entity", "partition", "range")]
    entity, partition, range_ = facts
    found = pc.unique(hours).to_pylist()
    for hour in found:
        path = layout.path(entity, partition, hour, range_)
        yield path, batch if len(found) == 1 else batch.filter(pc.equal(hours, hour))


class _File:
    """One file. Without a draft it is there already, and its rows are only counted."""

    def __init__(self, layout: Layout, draft: Draft | None) -> None:
        self._layout = layout
        self._draft = draft
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0
        self.rows = 0

    def add(self, rows: Any) -> None:
        """Take rows."""
        self.rows += rows.num_rows
        if self._draft is None:
            return
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush(self._draft)

    def publish(self) -> tuple[bool, int]:
        """Complete the file; (whether it was not there, bytes)."""
        if self._draft is None:
            return False, 0
        if self._waiting:
            self._flush(self._draft)
        self._close()
        return self._draft.publish()

    def discard(self) -> None:
        """Remove what was not published."""
        if self._draft is not None:
            with contextlib.suppress(OSError, ValueError):
                # A disk that is full, or a store that is away: the draft goes anyway.
                self._close()
            self._draft.discard()

    def _close(self) -> None:
        """Write the end of the file, once."""
        writer, self._writer = self._writer, None
        if writer is not None and self._draft is not None and writer is not self._draft.file:
            writer.close()

    def _flush(self, draft: Draft) -> None:
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if self._layout.format == PARQUET:
            if self._writer is None:
                codec = None if self._layout.codec == "none" else self._layout.codec
                self._writer = pq.ParquetWriter(draft.file, table.schema, compression=codec)
            self._writer.write_table(table)
            return
        if self._writer is None:
            # No name and no time in it: the same rows give the same bytes.
            zipped = self._layout.codec == "gzip"
            self._writer = (
                gzip.GzipFile("", "wb", _GZIP_LEVEL, draft.file, 0) if zipped else draft.file
            )
        for row in table.to_pylist(maps_as_pydicts="lossy"):
            if isinstance(row.get(BODY), bytes):
                row |= _body(row.pop(BODY))
            line = json.dumps(row, ensure_ascii=False, default=_plain)
            self._writer.write(line.encode() + b"\n")


def _body(data: bytes) -> dict[str, str]:
    """Return the fields of a body in JSON: text, or base64 of what is none."""
    try:
        return {BODY: data.decode()}
    except UnicodeDecodeError:
        return {BODY_BASE64: base64.b64encode(data).decode()}


def _plain(value: Any) -> Any:
    """Return what JSON has in place of a value: ISO 8601 for times, base64 for bytes."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return base64.b64encode(value).decode()
