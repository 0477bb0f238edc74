"""`store inspect|check|export|copy FILE`: reads a partition's file, on a backup copy.

Called by `__main__`; `bendybus store …` runs it as a process. `inspect`, `check` and `export` need
sqlite-utils: the extra `server` has it, the images of servers do not. The file is never written to,
whether a server has it open or not.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bendybus.partition_server.offline.file_contents import Record
from bendybus.partition_server.store.errors import FileRefused, StoreError

# What shells say of a program that SIGPIPE ended: 128 + 13.
PIPE_CLOSED: Final = 141


def run(options: argparse.Namespace) -> int:
    """Run the action of the command line; return 0, or 1 if it failed or the file is damaged."""
    if options.action == "copy":
        return _back_up(options.file, options.to)
    try:
        # Imported here to report a missing package in a sentence.
        import sqlite_utils  # noqa: F401

        from bendybus.partition_server.offline import backup_copy, export, file_contents
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is needed: pip install '.[server]' in Bendybus's folder.")
    try:
        with backup_copy.opened(options.file) as database:
            if options.action == "inspect":
                return _print_facts(
                    file_contents.facts(options.file, database), as_json=options.json
                )
            if options.action == "check":
                found = file_contents.findings(database)
                return _print_findings(options.file, found, as_json=options.json)
            for line in export.lines(database, options.entity):
                print(line)
            sys.stdout.flush()
            return 0
    except StoreError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader closed the pipe; Python's own flush at the end must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _back_up(file: Path, to: str) -> int:
    """Copy to a new file, which appears when it is complete, or to standard output ("-")."""
    from bendybus.partition_server.offline import backup_copy

    try:
        if to == "-":
            backup_copy.back_up(file, sys.stdout.buffer)
            return 0
        target = Path(to)
        if target.exists():
            raise FileRefused(
                f"{target} already exists. Name a new file; files are not overwritten."
            )
        part = target.with_name(f"{target.name}.part")
        try:
            # Not readable by others, as little as the file that it is a copy of.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with os.fdopen(os.open(part, flags, 0o600), "wb") as out:
                size = backup_copy.back_up(file, out)
                os.fsync(out.fileno())
            part.rename(target)
        finally:
            part.unlink(missing_ok=True)
        print(f"{target}: {size} bytes, checked")
        return 0
    except StoreError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{to}: {error.strerror}. Choose another path.")


def _fail(sentence: str) -> int:
    """Print an error as `bendybus` prints its own."""
    print(f"bendybus: {sentence}", file=sys.stderr)
    return 1


# Printing. Plain text: the server's image has no library for tables.


def _print_facts(found: Record, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(found))
        return 0
    own = found["header"]
    print(f"{found['file']}: {found['bytes']} bytes (without its write-ahead log)")
    print(
        f"namespace {own['namespace_name']} ({own['namespace_uid']}), {own['tier']}, partition "
        f"{own['partition_index']} of {own['partition_count']}, opened {own['boot']} times"
    )
    incarnation = own["incarnation"].lower() or "not assigned yet"
    print(f"format {found['format']}, incarnation {incarnation}")
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


def _cell(value: object) -> str:
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
