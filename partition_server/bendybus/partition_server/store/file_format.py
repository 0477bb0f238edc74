"""The format of a partition's file: its version, its tables, and the versions inside it.

`user_version` is the version of all tables; what is serialised inside a column has a version of
its own beside it. Whatever a newer program wrote, and a file of an older format, is refused in a
sentence, before anything is written. Formats are numbered since the first; this one was reached by
migrations, which version 0.7.0 still has.

And the statements of `sql/`: one per name, used by one caller each.
"""

import json
import os
import re
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import apsw

from bendybus.domain import authorization_rules, entity_settings
from bendybus.domain import entity as entities
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import EntityStatus, SubscriptionDescription
from bendybus.domain.filters import rule_json
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.limits import Tier
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.records import ClockMark

APPLICATION_ID: Final = 0x42454E44  # "BEND"
# Pages of WAL after which the writer checkpoints, within its own commit. Nothing else reads for
# long, so the WAL ends there (4 MB and one commit) and the next commit writes it from its
# beginning. A larger one was measured to be no faster, and a full disk must have room for all of
# it a second time, or a checkpoint cannot end.
WAL_PAGES_MAX: Final = 1_000
# Of all tables; and the last version that converts files of earlier formats.
FORMAT: Final = 12
CONVERTED_BY: Final = "0.7.0"
# The first programs that know entities whose sequence numbers name no partition.
PLAIN_NUMBERS_VERSION: Final = 6
# Of what is serialised in columns: the entries of the catalogue, the outcomes of producers.
ENTRY_VERSION: Final = max(entity_settings.VERSION, PLAIN_NUMBERS_VERSION)
# Programs of this version write all settings that they know; a later setting is left out where it
# has its default, so that they can read the entry.
COMPLETE_ENTRY_VERSION: Final = 3
OUTCOME_VERSION: Final = 1
_NO_RULES: Final = '"rules": null'


def set_pragmas(db: apsw.Connection) -> None:
    """Set how SQLite keeps the file; each with its reason."""
    # From the first schema: pages of deleted messages can be given back.
    db.pragma("auto_vacuum", "INCREMENTAL")
    # One writer appends, and readers do not wait for it; FULL syncs the log at every commit, so
    # that what is acknowledged survives a power cut.
    db.pragma("journal_mode", "WAL")
    db.pragma("synchronous", "FULL")
    db.pragma("wal_autocheckpoint", WAL_PAGES_MAX)
    # After a burst the log shrinks again.
    db.pragma("journal_size_limit", WAL_PAGES_MAX * 4096)
    # A queue is written at its end and read at its beginning: few pages are hot.
    db.pragma("cache_size", -4_000)
    # Copies of a batch on their way into the queues: no larger than the batch.
    db.pragma("temp_store", "MEMORY")
    db.pragma("foreign_keys", True)
    db.set_busy_timeout(2_000)


def check_version(path: Path, version: int) -> None:
    """Raise FileRefused unless the tables are of the format of this program."""
    if version > FORMAT:
        raise FileRefused(
            f"{path} has format {version}; this version reads up to {FORMAT}. Use the version that "
            "wrote it, or a later one."
        )
    if version < FORMAT:
        raise FileRefused(
            f"{path} has format {version}; this version reads format {FORMAT} only. Open it with "
            f"version {CONVERTED_BY} first, which converts it, then with this one."
        )


def refuse_foreign(path: Path, db: apsw.Connection) -> bool:
    """Return whether the file is empty. Raises FileRefused for another program's or version's."""
    version = db.pragma("user_version")
    empty = not version and not db.execute("SELECT count(*) FROM sqlite_schema").get
    if db.pragma("application_id") != APPLICATION_ID and not empty:
        raise FileRefused(f"{path} is an SQLite file of another program. Move it away.")
    if not empty:
        check_version(path, version)
    return empty


def make(db: apsw.Connection) -> None:
    """Make the tables of an empty file: all of them, or nothing."""
    with db:
        db.execute(schema())
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", FORMAT)


def check_contents(path: Path, entry: int, outcome: int, sub_queue: int) -> None:
    """Raise FileRefused where something inside the tables is of a newer version.

    The arguments are the highest versions in the file, and a kind of sub-queue of a later program.
    """
    for what, found, known in (
        ("entries of the catalogue of version", entry, ENTRY_VERSION),
        ("outcomes of sends of version", outcome, OUTCOME_VERSION),
    ):
        if found > known:
            raise FileRefused(
                f"{path} holds {what} {found}; this version reads up to {int(known)}. Use the "
                "version that wrote it, or a later one."
            )
    if sub_queue:
        raise FileRefused(
            f"{path} holds sub-queues of kind {sub_queue}, which this version does not know. Use "
            "the version that wrote it, or a later one."
        )


def entry_version(entity: Entity) -> int:
    """Return the version of an entry: that of the first programs that read it."""
    since = entity_settings.version_of(entity_settings.values_of(entity.description))
    numbers = PLAIN_NUMBERS_VERSION if entity.plain_numbers else 1
    return max(1 if entity.kind is EntityKind.QUEUE else 2, since, numbers)


def entity_to_json(entity: Entity) -> str:
    """Return an entry of the catalogue as it is stored: a queue as programs of version 1 do."""
    described = entity.description
    if isinstance(described, SubscriptionDescription):
        entity = replace(entity, description=replace(described, rules=RuleSet()))
    values = asdict(entity)
    if not entity.manifest_rules:
        # Only subscriptions have it; a program of version 1 knows no such field of a queue.
        del values["manifest_rules"]
    if not entity.plain_numbers:
        # Programs before PLAIN_NUMBERS_VERSION do not know it.
        del values["plain_numbers"]
    if isinstance(described, SubscriptionDescription):
        # In their place below; inside of a text the quotes would be escaped.
        values["description"]["rules"] = None
    else:
        stored = map(authorization_rules.to_json, described.authorization_rules)
        values["description"]["authorization_rules"] = list(stored)
    for name, value in entity_settings.values_of(described).items():
        setting = entity_settings.BY_NAME[name]
        if setting.since > COMPLETE_ENTRY_VERSION and value == setting.default:
            del values["description"][name]
    if entity.kind is EntityKind.QUEUE:
        values["queue"] = values.pop("description")
    else:
        values["kind"] = entity.kind.value
    text = json.dumps(values)
    if isinstance(described, SubscriptionDescription):
        return text.replace(_NO_RULES, f'"rules": [{", ".join(described.rules.texts)}]', 1)
    return text


def entity_from_json(text: str) -> Entity:
    """Return an entry of the catalogue."""
    values: dict[str, Any] = json.loads(text)
    kind = EntityKind(values.pop("kind", EntityKind.QUEUE))
    described = values.pop("queue" if kind is EntityKind.QUEUE else "description")
    described["status"] = EntityStatus(described["status"])
    if kind is EntityKind.SUBSCRIPTION:
        described["rules"] = RuleSet(map(rule_json.rule_from_json, described["rules"]))
    stored = described.get("authorization_rules")
    if stored:
        described["authorization_rules"] = tuple(map(authorization_rules.from_json, stored))
    values["origin"] = origin = Origin(values["origin"])
    # Entries that were written before orphans existed have none of their fields.
    values["manifest_uid"] = entities.manifest_of(
        values.get("manifest_uid", ""), uid=values["uid"], origin=origin
    )
    return Entity(description=entity_settings.TYPES[kind](**described), **values)


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
    sql = load()
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


_BLOCK: Final = re.compile(r"^-- (\w+) --\n-- .+\n", re.MULTILINE)


def load(file: str = "queries.sql") -> dict[str, str]:
    """Return statement by name."""
    text = (resources.files(__package__) / "sql" / file).read_text("utf-8")
    parts = _BLOCK.split(text)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def schema() -> str:
    """Return the script that makes the tables of a file."""
    return (resources.files(__package__) / "sql" / "schema.sql").read_text("utf-8")
