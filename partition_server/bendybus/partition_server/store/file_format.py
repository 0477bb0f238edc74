"""The format of a partition's file: its version, its migrations, and the versions inside it.

`user_version` is the version of all tables; what is serialised inside a column has a version of
its own beside it. Whatever a newer program wrote is refused in a sentence, before anything is
written. Migrations only add columns and tables, each in bounded steps, in one transaction: killed
in the middle, the next opening does all of it.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import apsw

from bendybus.domain import entity as entities
from bendybus.domain import entity_settings
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.entity_status import EntityStatus
from bendybus.domain.filters import rule_json
from bendybus.domain.setting import Setting
from bendybus.partition_server.store import statements
from bendybus.partition_server.store.errors import FileRefused

APPLICATION_ID: Final = 0x42454E44  # "BEND"
# Pages of WAL after which the writer checkpoints, within its own commit. Nothing else reads for
# long, so the WAL ends there (4 MB and one commit) and the next commit writes it from its
# beginning. A larger one was measured to be no faster, and a full disk must have room for all of
# it a second time, or a checkpoint cannot end.
WAL_PAGES_MAX: Final = 1_000
# Of what is serialised in columns: the entries of the catalogue, the outcomes of producers; and
# the format that first says it.
VERSIONED_SINCE: Final = 4
ENTRY_VERSION: Final = max(each.since for each in entity_settings.TABLE)
# Programs of this version write all settings that they know; a later setting is left out where it
# has its default, so that they can read the entry.
COMPLETE_ENTRY_VERSION: Final = 3
OUTCOME_VERSION: Final = 1


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
    db.pragma("foreign_keys", True)
    db.set_busy_timeout(2_000)


def check_version(path: Path, version: int) -> None:
    """Raise FileRefused unless this program knows the version of the tables."""
    known = len(statements.migrations())
    if version > known:
        raise FileRefused(
            f"{path} has format {version}; this version reads up to {known}. Use the version that "
            "wrote it, or a later one."
        )


def refuse_foreign(path: Path, db: apsw.Connection) -> bool:
    """Return whether the file is empty. Raises FileRefused for another program's or version's."""
    empty = not db.execute("SELECT count(*) FROM sqlite_schema").get
    if db.pragma("application_id") != APPLICATION_ID and not empty:
        raise FileRefused(f"{path} is an SQLite file of another program. Move it away.")
    check_version(path, db.pragma("user_version"))
    return empty


def migrate(db: apsw.Connection) -> None:
    """Make the tables what this version needs: all of it, or nothing."""
    scripts = statements.migrations()
    version = db.pragma("user_version")
    if version == len(scripts):
        return
    with db:
        for script in scripts[version:]:
            db.execute(script)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", len(scripts))


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
    since = [each.since for each in entity_settings.BY_KIND[entity.kind] if _is_set(entity, each)]
    return max([1 if entity.kind is EntityKind.QUEUE else 2, *since])


def _is_set(entity: Entity, setting: Setting) -> bool:
    return bool(getattr(entity.description, setting.name) != setting.default)


def entity_to_json(entity: Entity) -> str:
    """Return an entry of the catalogue as it is stored: a queue as programs of version 1 do."""
    described = entity.description
    if isinstance(described, SubscriptionDescription):
        entity = replace(entity, description=replace(described, rules=()))
    values = asdict(entity)
    if not entity.manifest_rules:
        # Only subscriptions have it; a program of version 1 knows no such field of a queue.
        del values["manifest_rules"]
    if isinstance(described, SubscriptionDescription):
        values["description"]["rules"] = [rule_json.to_json(each) for each in described.rules]
    for each in entity_settings.BY_KIND[entity.kind]:
        if each.since > COMPLETE_ENTRY_VERSION and not _is_set(entity, each):
            del values["description"][each.name]
    if entity.kind is EntityKind.QUEUE:
        values["queue"] = values.pop("description")
    else:
        values["kind"] = entity.kind.value
    return json.dumps(values)


def entity_from_json(text: str) -> Entity:
    """Return an entry of the catalogue."""
    values: dict[str, Any] = json.loads(text)
    kind = EntityKind(values.pop("kind", EntityKind.QUEUE))
    described = values.pop("queue" if kind is EntityKind.QUEUE else "description")
    described["status"] = EntityStatus(described["status"])
    if kind is EntityKind.SUBSCRIPTION:
        described["rules"] = tuple(rule_json.from_json(each) for each in described["rules"])
    values["origin"] = origin = Origin(values["origin"])
    # Entries that were written before orphans existed have none of their fields.
    values["manifest_uid"] = entities.manifest_of(
        values.get("manifest_uid", ""), uid=values["uid"], origin=origin
    )
    return Entity(description=entity_settings.TYPES[kind](**described), **values)
