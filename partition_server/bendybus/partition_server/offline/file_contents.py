"""What a partition's file holds, read from a copy of it: header, catalogue, queues and counters."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bendybus.domain.entity import (
    DEAD_LETTER_SUFFIX,
    TRANSFER_DEAD_LETTER_SUFFIX,
    TRANSFER_SUFFIX,
)
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store import statements
from bendybus.partition_server.store.errors import FileRefused

Record = dict[str, Any]
# What follows the name of an entity in the path of its sub-queue.
SUFFIXES: Final[dict[int, str]] = {
    SubQueue.DEAD_LETTER: DEAD_LETTER_SUFFIX,
    SubQueue.TRANSFER: TRANSFER_SUFFIX,
    SubQueue.TRANSFER_DEAD_LETTER: TRANSFER_DEAD_LETTER_SUFFIX,
}
_YEAR_9999_MS: Final = 253_402_300_000_000


def facts(file: Path, database: Any) -> Record:
    """Return what the file holds: its header, tables, entities, queues and their counters."""
    sql = statements.load("inspecting.sql")
    entries = {entry["uid"]: entry for entry in catalogue(database)}
    spans = {span["slot"]: span for span in database.query(sql["spans"])}
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "format": database.execute("PRAGMA user_version").fetchone()[0],
        "header": header(database),
        "tables": {name: database[name].count for name in database.table_names()},
        "entities": [_entity(entry) for entry in entries.values()],
        "queues": [
            _queue(slot, entries.get(slot["uid"]), spans.get(slot["slot"], {}))
            for slot in database.query(sql["slots"])
        ],
    }


def header(database: Any) -> Record:
    """Return the row with the file's bus and partition. Raises FileRefused if there is none."""
    for row in database.query(statements.load("inspecting.sql")["header"]):
        return dict(row)
    raise FileRefused("the file has no header: no server has finished opening it yet.")


def catalogue(database: Any) -> list[Record]:
    """Return the entries of the catalogue, tombstones too."""
    rows = database.query(statements.load("inspecting.sql")["entries"])
    return [json.loads(row["entry"]) for row in rows]


def path_of(entry: Record | None, sub_queue: int) -> str:
    """Return the name of a (sub-)queue."""
    name = entry["name"] if entry else "(deleted)"
    suffix = SUFFIXES.get(sub_queue)
    return f"{name}/{suffix}" if suffix else name


def iso(milliseconds: int | None) -> str:
    """Return a time in ISO-8601; "" for none, or beyond the year 9999."""
    if not milliseconds or abs(milliseconds) > _YEAR_9999_MS:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _entity(entry: Record) -> Record:
    described = entry["description"] if "description" in entry else entry["queue"]
    return {
        "name": entry["name"],
        "kind": entry.get("kind", EntityKind.QUEUE),
        "uid": entry["uid"],
        "generation": entry["generation"],
        "origin": entry["origin"],
        "partitions": entry["partition_count"],
        "home": entry["home_partition"],
        "status": described["status"],
        "deleted": entry["deleted"],
    }


def _queue(slot: Record, entry: Record | None, span: Record) -> Record:
    return {
        "queue": path_of(entry, slot["sub_queue"]),
        "slot": slot["slot"],
        "counter": slot["counter"],
        "active": slot["active"],
        "deferred": slot["deferred"],
        "scheduled": slot["scheduled"],
        "size_bytes": slot["size_bytes"],
        "deliveries": span.get("deliveries") or 0,
        "oldest": iso(span.get("oldest_ms")),
        "newest": iso(span.get("newest_ms")),
        "dropped": entry is None or entry["deleted"] or bool(slot["dropped"]),
    }
