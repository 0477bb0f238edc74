"""What a partition's file holds, read from a copy of it: header, catalogue, queues and counters.

And its check: pages, tables, and counters against messages. Every finding is a sentence; none means
that the file is sound.
"""

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bendybus.domain import message_format
from bendybus.domain.entity import (
    DEAD_LETTER_SUFFIX,
    TRANSFER_DEAD_LETTER_SUFFIX,
    TRANSFER_SUFFIX,
)
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.records import (
    ROW_BYTES,
    SHARED_FORMAT,
    SLOT_SHIFT,
    State,
    body_size,
)

if TYPE_CHECKING:
    from sqlite_utils import Database

Record = dict[str, Any]
# What follows the name of an entity in the path of its sub-queue.
SUFFIXES: Final[dict[int, str]] = {
    SubQueue.DEAD_LETTER: DEAD_LETTER_SUFFIX,
    SubQueue.TRANSFER: TRANSFER_SUFFIX,
    SubQueue.TRANSFER_DEAD_LETTER: TRANSFER_DEAD_LETTER_SUFFIX,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def facts(file: Path, database: "Database") -> Record:
    """Return what the file holds: its header, tables, entities, queues and their counters."""
    sql = file_format.load("inspecting.sql")
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


def header(database: "Database") -> Record:
    """Return the row with the file's bus and partition. Raises FileRefused if there is none."""
    for row in database.query(file_format.load("inspecting.sql")["header"]):
        return dict(row)
    raise FileRefused("the file has no header: no server has finished opening it yet.")


def catalogue(database: "Database") -> list[Record]:
    """Return the entries of the catalogue, tombstones too."""
    rows = database.query(file_format.load("inspecting.sql")["entries"])
    return [json.loads(row["entry"]) for row in rows]


def path_of(entry: Record | None, sub_queue: int) -> str:
    """Return the name of a (sub-)queue."""
    name = entry["name"] if entry else "(deleted)"
    suffix = SUFFIXES.get(sub_queue)
    return f"{name}/{suffix}" if suffix else name


def iso(milliseconds: int | None) -> str:
    """Return a time in ISO-8601; "" for none, or beyond the years 1 to 9999."""
    if not milliseconds:
        return ""
    try:
        found = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return ""
    return found.isoformat(timespec="milliseconds")


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
        "plain_numbers": entry.get("plain_numbers", False),
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


FIGURES: Final = ("active", "deferred", "scheduled", "size_bytes")
_STATES: Final = {State.ACTIVE: "active", State.DEFERRED: "deferred", State.SCHEDULED: "scheduled"}


def findings(database: "Database") -> list[str]:
    """Return what is wrong, worst first. Counters are checked only if all pages are sound."""
    sql = file_format.load("inspecting.sql")
    broken = [row["integrity_check"] for row in database.query(sql["pages"])]
    if broken != ["ok"]:
        return [f"SQLite finds: {line}." for line in broken]
    tables = list(_tables(database))
    # Nothing more can be queried if tables are missing.
    if tables:
        return tables
    return [*_slots(database), *_figures(database), *_sessions(database), *_bodies(database)]


def _tables(database: "Database") -> Iterator[str]:
    sql = file_format.load("inspecting.sql")
    memory = sqlite3.connect(":memory:")
    memory.executescript(file_format.schema())
    objects = memory.execute(sql["objects"])
    wanted = {(kind, name): _words(text) for kind, name, text in objects}
    memory.close()
    rows = database.query(sql["objects"])
    found = {(row["type"], row["name"]): _words(row["sql"]) for row in rows}
    for kind, name in sorted(wanted.keys() - found.keys()):
        yield f"{kind} {name} is missing."
    for kind, name in sorted(found.keys() - wanted.keys()):
        yield f"{kind} {name} was not created by this program."
    for kind, name in sorted(wanted.keys() & found.keys()):
        if wanted[kind, name] != found[kind, name]:
            yield f"{kind} {name} differs from the schema of this version."


def _words(text: str) -> str:
    """Return a statement without comments and blanks: SQLite versions format them differently."""
    return re.sub(r"\s*--[^\n]*|\s+", "", text)


def _slots(database: "Database") -> Iterator[str]:
    entries = {entry["uid"]: entry for entry in catalogue(database)}
    by_queue: dict[tuple[str, int], list[int]] = defaultdict(list)
    for slot in database.query(file_format.load("inspecting.sql")["slots"]):
        number, uid = slot["slot"], slot["uid"]
        if slot["sub_queue"] != SubQueue.TRANSFER:
            # Of those there is one for each destination.
            by_queue[uid, slot["sub_queue"]].append(number)
        if uid not in entries and not slot["dropped"]:
            yield (
                f"slot {number} belongs to {uid}, which is not in the catalogue: a server "
                "removes it when it opens the file (or does so now, if the queue was recreated)."
            )
    for (uid, sub_queue), numbers in by_queue.items():
        if len(numbers) > 1:
            name = path_of(entries.get(uid), sub_queue)
            yield f"entity {name!r} has several slots: {numbers}."


def _figures(database: "Database") -> Iterator[str]:
    sql = file_format.load("inspecting.sql")
    names = {entry["uid"]: entry for entry in catalogue(database)}
    slots = {slot["slot"]: slot for slot in database.query(sql["slots"])}
    counted, highest, newest = _counted(database)
    unknown = sum(figures["formats_unknown"] for figures in counted.values())
    if unknown:
        yield f"{unknown} messages are of a format that this version does not know."
    for number in sorted(counted.keys() - slots.keys()):
        yield f"slot {number} has messages or keys but no counters."
    for number, slot in slots.items():
        entry = names.get(slot["uid"])
        if entry is None or entry["deleted"] or slot["dropped"]:
            # Being removed: its rows go first, its counters last.
            continue
        queue = path_of(entry, slot["sub_queue"])
        for name in FIGURES:
            if slot[name] != counted[number][name]:
                yield (
                    f"entity {queue!r}: {name} is recorded as {slot[name]}, but is "
                    f"{counted[number][name]}."
                )
        if highest.get(number, 0) > slot["counter"]:
            yield (
                f"entity {queue!r}: the highest assigned number is recorded as {slot['counter']}, "
                f"but a message has {highest[number]}."
            )
        # A dead letter keeps the time at which it was first enqueued.
        if slot["sub_queue"] == SubQueue.MAIN and newest.get(number, 0) > slot["last_enqueued_ms"]:
            yield f"entity {queue!r}: a message is newer than the last enqueued time."


def _sessions(database: "Database") -> Iterator[str]:
    for row in database.query(file_format.load("inspecting.sql")["sessions_amiss"]):
        yield f"slot {row['slot']}: message {row['counter']} is not in its session's order."


def _bodies(database: "Database") -> Iterator[str]:
    sql = file_format.load("inspecting.sql")
    # What v0.6 removed of a topic before its subscriptions harms no other entity.
    removed = _removed_slots(database)

    def is_kept(id_: int) -> bool:
        return id_ >> SLOT_SHIFT not in removed

    ids = (int.from_bytes(row["payload"], "big") for row in database.query(sql["references"]))
    counted = Counter(filter(is_kept, ids))
    counts = ((row["id"], row["count"]) for row in database.query(sql["body_references"]))
    recorded = {id_: count for id_, count in counts if is_kept(id_)}
    stored = {row["id"] for row in database.query(sql["body_ids"]) if is_kept(row["id"])}
    for id_ in sorted(stored ^ recorded.keys()):
        yield f"shared body {id_} is not stored and counted."
    for id_ in sorted(counted.keys() - stored):
        yield f"shared body {id_} is missing: {counted[id_]} messages refer to it."
    for id_ in sorted(stored & recorded.keys()):
        if recorded[id_] != counted[id_]:
            yield (
                f"shared body {id_} is recorded with {recorded[id_]} messages, but "
                f"{counted[id_]} refer to it."
            )


def _removed_slots(database: "Database") -> set[int]:
    """Return the slots that are being removed with a deleted entity."""
    existing = {each["uid"] for each in catalogue(database) if not each["deleted"]}
    slots = database.query(file_format.load("inspecting.sql")["slots"])
    return {each["slot"] for each in slots if each["dropped"] or each["uid"] not in existing}


def _counted(
    database: "Database",
) -> tuple[dict[int, Counter[str]], dict[int, int], dict[int, int]]:
    """Return totals of messages and keys by slot: counters, highest number, newest time."""
    sql = file_format.load("inspecting.sql")
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    highest: dict[int, int] = {}
    newest: dict[int, int] = {}
    for row in database.query(sql["measured"]):
        slot = row["slot"]
        figures = counted[slot]
        figures[_STATES.get(row["state"], "unknown")] += 1
        shared = row["format"] >= SHARED_FORMAT
        format_ = row["format"] - SHARED_FORMAT if shared else row["format"]
        figures["formats_unknown"] += not 0 <= format_ <= message_format.NEWEST
        texts = len(row["message_id"]) + len(row["partition_key"]) + len(row["session_id"] or "")
        figures["size_bytes"] += row["content_bytes"] + texts + ROW_BYTES + row["extra_bytes"]
        highest[slot] = row["counter"]
        newest[slot] = max(newest.get(slot, 0), row["enqueued_ms"])
    for row in database.query(sql["remembered"]):
        # Counted here: SQLite's length() ends at the NUL that is in some keys.
        counted[row["slot"]]["size_bytes"] += len(row["key"]) + ROW_BYTES
    for row in database.query(sql["session_states"]):
        size_bytes = len(row["session_id"]) + row["state_bytes"] + ROW_BYTES
        counted[row["slot"]]["size_bytes"] += size_bytes
    for row in database.query(sql["bodies"]):
        counted[row["slot"]]["size_bytes"] += body_size(row["length"])
    return counted, highest, newest
