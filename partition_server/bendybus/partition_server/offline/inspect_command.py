"""`store inspect|check|export|copy FILE`: a look into a partition's file, on a backup copy.

Called by `__main__`; `bendybus store …` starts it as a process. Needs the extra `store`
(sqlite-utils), which a server does not. Never writes to the file, whether a server has it or not.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bendybus.domain.entity import DEAD_LETTER_SUFFIX
from bendybus.partition_server.store import statements
from bendybus.partition_server.store.errors import FileRefused, StoreError

Record = dict[str, Any]
_YEAR_9999_MS: Final = 253_402_300_000_000


def run(options: argparse.Namespace) -> int:
    """Do what the command line says; 0 fine, 1 something is wrong with the file."""
    if options.action == "copy":
        return _back_up(options.file, options.to)
    try:
        # Named here, so that what is missing is said in a sentence.
        import sqlite_utils  # noqa: F401

        from bendybus.partition_server.offline import backup_copy, export, integrity
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is needed: install bendybus[server,store].", file=sys.stderr)
        return 1
    try:
        with backup_copy.opened(options.file) as database:
            if options.action == "inspect":
                return _print_facts(facts(options.file, database), as_json=options.json)
            if options.action == "check":
                found = integrity.findings(database)
                return _print_findings(options.file, found, as_json=options.json)
            for line in export.lines(database, options.entity):
                print(line)
            sys.stdout.flush()
            return 0
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)
    except BrokenPipeError:
        # Whoever read has seen enough; Python's own flush at the end must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _back_up(file: Path, to: str) -> int:
    """Copy to a new file, which appears when it is whole, or to standard output ("-")."""
    from bendybus.partition_server.offline import backup_copy

    try:
        if to == "-":
            backup_copy.back_up(file, sys.stdout.buffer)
            return 0
        target = Path(to)
        if target.exists():
            raise FileRefused(f"{target} exists already. Name a new file; none is written over.")
        part = target.with_name(f"{target.name}.part")
        try:
            with part.open("wb") as out:
                size = backup_copy.back_up(file, out)
                os.fsync(out.fileno())
            part.rename(target)
        finally:
            part.unlink(missing_ok=True)
        print(f"{target}: {size} bytes, checked")
        return 0
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {to}: {error.strerror}. Choose another place.", file=sys.stderr)
    return 1


def facts(file: Path, database: Any) -> Record:
    """Return what the file holds: whose it is, tables, queues and their figures."""
    sql = statements.load("inspecting.sql")
    entries = {entry["uid"]: entry for entry in catalogue(database)}
    spans = {span["slot"]: span for span in database.query(sql["spans"])}
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "header": header(database),
        "tables": {name: database[name].count for name in database.table_names()},
        "entities": [_entity(entry) for entry in entries.values()],
        "queues": [
            _queue(slot, entries.get(slot["uid"]), spans.get(slot["slot"], {}))
            for slot in database.query(sql["slots"])
        ],
    }


def header(database: Any) -> Record:
    """Return the one row that says whose file it is. Raises FileRefused without one."""
    for row in database.query(statements.load("inspecting.sql")["header"]):
        return dict(row)
    raise FileRefused("the file has no header: it was never opened by a server to its end.")


def catalogue(database: Any) -> list[Record]:
    """Return the entries of the catalogue, tombstones too."""
    rows = database.query(statements.load("inspecting.sql")["entries"])
    return [json.loads(row["entry"]) for row in rows]


def path_of(entry: Record | None, slot: int) -> str:
    """Return the name of the (sub-)queue in a slot."""
    name = entry["name"] if entry else "(deleted)"
    return f"{name}/{DEAD_LETTER_SUFFIX}" if slot & 1 else name


def iso(milliseconds: int | None) -> str:
    """Return a time as people and programs read it; "" is none, or beyond the year 9999."""
    if not milliseconds or abs(milliseconds) > _YEAR_9999_MS:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _entity(entry: Record) -> Record:
    return {
        "name": entry["name"],
        "uid": entry["uid"],
        "generation": entry["generation"],
        "origin": entry["origin"],
        "partitions": entry["partition_count"],
        "home": entry["home_partition"],
        "status": entry["queue"]["status"],
        "deleted": entry["deleted"],
    }


def _queue(slot: Record, entry: Record | None, span: Record) -> Record:
    return {
        "queue": path_of(entry, slot["slot"]),
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


# Printing. Plain text: the server's image has no library for tables.


def _print_facts(found: Record, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(found))
        return 0
    own = found["header"]
    print(f"{found['file']}: {found['bytes']} bytes (and what its log holds)")
    print(
        f"namespace {own['namespace_name']} ({own['namespace_uid']}), {own['tier']}, partition "
        f"{own['partition_index']} of {own['partition_count']}, opened {own['boot']} times"
    )
    rows = ", ".join(f"{name} {count}" for name, count in found["tables"].items())
    print(f"rows: {rows}")
    for title in ("entities", "queues"):
        print(f"\n{title}")
        for line in _table(found[title]):
            print(line)
    return 0


def _table(records: Sequence[Record]) -> Iterable[str]:
    if not records:
        yield "  none"
        return
    rows = [list(records[0]), *([_cell(value) for value in r.values()] for r in records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(cells)).rstrip()


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _print_findings(file: Path, found: Sequence[str], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"file": str(file), "ok": not found, "findings": list(found)}))
    elif found:
        for sentence in found:
            print(f"{file}: {sentence}")
    else:
        print(f"{file}: all fine")
    return 1 if found else 0
