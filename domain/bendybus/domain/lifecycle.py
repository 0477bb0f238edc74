"""What an entity goes through from its creation to its tombstone: states, actions, one table.

             CREATE         ORPHAN
    ABSENT ─────────► LIVE ─────────► ORPHANED
                      │  ▲ ◄──────────┘   │
              DELETE, │  │     ADOPT      │ DELETE, by any origin: "purge"
          DELETE_IDLE │  │ CREATE         │
                      ▼  │                │
                     DELETED ◄────────────┘

An orphan is an entity whose manifest was deleted: its messages are kept and can be received, sends
are rejected. Only adopt and purge end that, both explicit; it never ends by time alone.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

from bendybus.domain import errors
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError


class EntityState(StrEnum):
    """The lifecycle state of an entity; ABSENT is a name that was never used."""

    ABSENT = "Absent"
    LIVE = "Live"
    ORPHANED = "Orphaned"
    DELETED = "Deleted"

    @property
    def exists(self) -> bool:
        """Whether there is data to receive."""
        return self in (EntityState.LIVE, EntityState.ORPHANED)


class EntityAction(IntEnum):
    """What to do with a name; numbers as in the contract."""

    CREATE = 1
    UPDATE = 2
    DELETE = 3
    DELETE_IDLE = 4
    ORPHAN = 5
    ADOPT = 6


# Actions that only manifests take.
MANIFEST_ACTIONS: Final = frozenset({EntityAction.ORPHAN, EntityAction.ADOPT})
# What a manifest did already when it finds its entity in this state: to repeat it is no error.
REPEATS: Final = MappingProxyType(
    {
        EntityAction.CREATE: EntityState.LIVE,
        EntityAction.ADOPT: EntityState.LIVE,
        EntityAction.ORPHAN: EntityState.ORPHANED,
    }
)
_ABSENT, _LIVE = EntityState.ABSENT, EntityState.LIVE
_ORPHANED, _DELETED = EntityState.ORPHANED, EntityState.DELETED

# (state, action) → the state that it leads to, or the error that refuses it.
TRANSITIONS: Final = MappingProxyType[
    tuple[EntityState, EntityAction], EntityState | type[BusError]
](
    {
        (_ABSENT, EntityAction.CREATE): _LIVE,
        (_ABSENT, EntityAction.UPDATE): errors.EntityNotFound,
        (_ABSENT, EntityAction.DELETE): errors.EntityNotFound,
        (_ABSENT, EntityAction.DELETE_IDLE): errors.EntityNotFound,
        (_ABSENT, EntityAction.ORPHAN): errors.EntityNotFound,
        (_ABSENT, EntityAction.ADOPT): errors.EntityNotFound,
        (_LIVE, EntityAction.CREATE): errors.EntityAlreadyExists,
        (_LIVE, EntityAction.UPDATE): _LIVE,
        (_LIVE, EntityAction.DELETE): _DELETED,
        (_LIVE, EntityAction.DELETE_IDLE): _DELETED,
        (_LIVE, EntityAction.ORPHAN): _ORPHANED,
        (_LIVE, EntityAction.ADOPT): errors.InvalidOperation,
        (_ORPHANED, EntityAction.CREATE): errors.RetainedData,
        (_ORPHANED, EntityAction.UPDATE): errors.RetainedData,
        (_ORPHANED, EntityAction.DELETE): _DELETED,
        # Kept until it is adopted or purged, for however long.
        (_ORPHANED, EntityAction.DELETE_IDLE): errors.RetainedData,
        (_ORPHANED, EntityAction.ORPHAN): _ORPHANED,
        (_ORPHANED, EntityAction.ADOPT): _LIVE,
        (_DELETED, EntityAction.CREATE): _LIVE,
        (_DELETED, EntityAction.UPDATE): errors.EntityNotFound,
        (_DELETED, EntityAction.DELETE): errors.EntityNotFound,
        (_DELETED, EntityAction.DELETE_IDLE): errors.EntityNotFound,
        (_DELETED, EntityAction.ORPHAN): errors.EntityNotFound,
        (_DELETED, EntityAction.ADOPT): errors.EntityNotFound,
    }
)
_SENTENCES: Final[dict[type[BusError], str]] = {
    errors.EntityNotFound: (
        "{kind} {name!r} does not exist. List what exists: bendybus get {kind}s."
    ),
    errors.EntityAlreadyExists: (
        "{kind} {name!r} already exists. Choose another name or update it."
    ),
    errors.InvalidOperation: "{kind} {name!r} has a manifest: only an orphaned one can be adopted.",
    errors.RetainedData: (
        "{kind} {name!r} holds the data of a deleted manifest. Adopt it (annotate its new "
        "manifest with bendybus.io/retained-data: adopt) or purge it (bendybus delete {kind} "
        "{name})."
    ),
}


def after(
    state: EntityState,
    action: EntityAction,
    name: str,
    *,
    facts: Mapping[str, str],
    kind: EntityKind = EntityKind.QUEUE,
) -> EntityState:
    """Return the state that an action leads to. Raises the error that refuses it, with `facts`."""
    found = TRANSITIONS[state, action]
    if isinstance(found, EntityState):
        return found
    raise found(_SENTENCES[found].format(kind=kind, name=name), metadata={"entity": name, **facts})


def refuse_sends(name: str, kind: EntityKind = EntityKind.QUEUE) -> BusError:
    """Return the error of a send to an orphan."""
    return errors.EntityOrphaned(
        f"{kind} {name!r} accepts no messages: its manifest was deleted. Its messages can be "
        f"received. Adopt it with a manifest, or purge it (bendybus delete {kind}).",
        metadata={"entity": name},
    )
