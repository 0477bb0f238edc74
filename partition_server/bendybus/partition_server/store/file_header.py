"""The header of a partition's file: whose it is, which copy, and how often it was opened."""

import os
from pathlib import Path
from typing import Final

import apsw

from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.partition_server.store import statements
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.records import ClockMark

INCARNATION_BYTES: Final = 16


def new_incarnation() -> bytes:
    """Return what tells a file from the one that it was copied from, and from any other."""
    return os.urandom(INCARNATION_BYTES)


def open_header(
    path: Path, db: apsw.Connection, own: Fingerprint
) -> tuple[bytes, int, ClockMark | None]:
    """Check whose file it is, raise its boot number durably; return incarnation, boot, last use.

    A new file, and one of before incarnations, gets what it lacks. Raises FileRefused for a file
    that belongs elsewhere.
    """
    sql = statements.load()
    found = db.execute(sql["read_header"]).fetchone()
    with db:
        if found is None:
            values = (own.namespace_name, own.namespace_uid, own.tier.value)
            db.execute(sql["write_header"], (*values, own.partition_count, own.partition))
        else:
            name, uid, tier, count, index, *_ = found
            stored = Fingerprint(name, uid, Tier(tier), count, index)
            if stored != own:
                raise FileRefused(_difference(path, stored, own))
        db.execute(sql["raise_boot"])
        [(*_, boot, incarnation, wall_ms, mono_ms, machine)] = db.execute(sql["read_header"])
        if not incarnation:
            incarnation = new_incarnation()
            db.execute(sql["write_incarnation"], (incarnation,))
    return incarnation, boot, ClockMark(wall_ms, mono_ms, machine) if wall_ms else None


def _difference(path: Path, stored: Fingerprint, own: Fingerprint) -> str:
    facts = [
        f"{name} {getattr(stored, name)!s} instead of {getattr(own, name)!s}"
        for name, field in Fingerprint.__dataclass_fields__.items()
        if field.compare and getattr(stored, name) != getattr(own, name)
    ]
    told = (
        f"{path} belongs elsewhere: {', '.join(facts)}. The partitioning of a namespace "
        "cannot be changed; give this partition its own file."
    )
    if stored.namespace_uid == own.namespace_uid:
        return told
    return (
        f"{told} On Kubernetes it is the data of an earlier BusNamespace of this name: annotate "
        "the BusNamespace with bendybus.io/retained-data: adopt to keep it, or purge to start "
        "without messages."
    )
