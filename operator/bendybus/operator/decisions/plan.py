"""Decides the next step for a queue: manifest and catalogue in, one decision out. Deterministic.

One step at a time: once it is carried out, the catalogue has changed and the next is decided. The
registrar validates each step again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bendybus.crds.manifest import DeletionPolicy
from bendybus.crds.queue_manifest import to_description
from bendybus.domain import descriptions, immutable_fields
from bendybus.domain import entity as entities
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.errors import BusError, InvalidArgument, PartitioningImmutable
from bendybus.domain.queue_description import QueueDescription
from bendybus.operator.decisions.manifests import BusView, QueueView
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names

ADOPT: Final = "adopt"
PURGE: Final = "purge"


class Step(StrEnum):
    """The next request to the registrar."""

    NOTHING = "Nothing"
    CREATE = "Create"
    UPDATE = "Update"
    ADOPT = "Adopt"
    PURGE = "Purge"
    REFUSE = "Refuse"


@dataclass(frozen=True, slots=True)
class Decision:
    """A step; with REFUSE, reason and message of the Ready condition."""

    step: Step
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    wanted: QueueDescription | None = None


@dataclass(frozen=True, slots=True)
class ManifestDeletion:
    """The deletion of a manifest, and what happens to its data."""

    manifest_uid: str
    name: str
    namespace: str
    policy: DeletionPolicy

    def retained(self) -> "ManifestDeletion":
        """Return the same deletion with policy Retain."""
        return replace(self, policy=DeletionPolicy.RETAIN)


def refuse(reason: Reason, message: str) -> Decision:
    """Return the decision to change nothing, with the reason."""
    return Decision(Step.REFUSE, reason, message)


def decide(
    queue: QueueView, bus: BusView | None, entry: Entity | None, *, rival: QueueView | None = None
) -> Decision:
    """Return what to do for `queue`.

    `entry` is the catalogue's entry of its name, tombstones included; `rival` another manifest
    that the entry belongs to, if there is one.
    """
    if queue.problems or queue.manifest is None:
        return refuse(Reason.INVALID_SPEC, queue.problems[0] if queue.problems else "")
    refusal = check_place(queue, bus)
    if refusal is not None:
        return refusal
    assert bus is not None
    assert bus.manifest is not None
    try:
        if entry is None or entry.deleted:
            entities.check_new_name(queue.entity_name)
        wanted = wanted_description(queue, bus)
    except BusError as error:
        return refuse(Reason.INVALID_SPEC, error.message)
    if entry is None or (entry.deleted and entry.manifest_uid != queue.uid):
        return Decision(Step.CREATE, wanted=wanted)
    if entry.deleted:
        return _after_deletion(queue, entry, wanted)
    if entry.orphaned:
        return _orphaned(queue, bus, entry, wanted)
    if entry.manifest_uid != queue.uid:
        return _taken(queue, entry, rival)
    return _living(entry, wanted)


def check_place(queue: QueueView, bus: BusView | None) -> Decision | None:
    """Return the refusal of a queue that may not use its bus, None if it may."""
    if bus is None:
        return refuse(
            Reason.NAMESPACE_NOT_FOUND,
            f"there is no BusNamespace {queue.bus.name!r} in namespace {queue.bus.namespace!r}. "
            "The queue is created when that exists.",
        )
    if bus.manifest is None:
        return refuse(
            Reason.NAMESPACE_NOT_READY, f"BusNamespace {bus.key.name!r} is invalid; fix it first."
        )
    allowed = (*bus.manifest.spec.allowed_namespaces, bus.key.namespace)
    if queue.key.namespace not in allowed:
        return refuse(
            Reason.NAMESPACE_NOT_ALLOWED,
            f"namespace {queue.key.namespace!r} may not use BusNamespace {bus.key}. Add it to "
            "spec.allowedNamespaces there, or put the queue into an allowed namespace.",
        )
    return None


def wanted_description(queue: QueueView, bus: BusView) -> QueueDescription:
    """Return what the manifest asks for, as this bus would keep it. Raises BusError."""
    assert queue.manifest is not None
    assert bus.manifest is not None
    tier, count = bus.manifest.tier, bus.manifest.partition_count
    wanted = to_description(queue.manifest.spec)
    descriptions.check(wanted, tier=tier, partition_count=count)
    return descriptions.settled(wanted, tier=tier, partition_count=count)


def _after_deletion(queue: QueueView, entry: Entity, wanted: QueueDescription) -> Decision:
    if entry.auto_deleted:
        return refuse(
            Reason.AUTO_DELETED,
            f"the bus deleted queue {entry.name!r} after autoDeleteOnIdle without use. Delete the "
            "manifest and apply it again to have the queue again.",
        )
    if queue.annotations.get(names.RETAINED_ANNOTATION) == PURGE:
        return Decision(Step.CREATE, wanted=wanted)
    return refuse(
        Reason.REFUSED,
        f"queue {entry.name!r} was deleted by an administration call. Delete the manifest and "
        "apply it again to have the queue again.",
    )


def _orphaned(queue: QueueView, bus: BusView, entry: Entity, wanted: QueueDescription) -> Decision:
    """Adopt for the manifest that it had before; for another one follow its annotation."""
    choice = queue.annotations.get(names.RETAINED_ANNOTATION)
    if entry.manifest_uid != queue.uid and not _may_have(queue, bus):
        # The namespace of the former manifest is unknown.
        return refuse(
            Reason.RETAINED_DATA,
            f"an earlier manifest left queue {entry.name!r} with its messages. To let namespace "
            f"{queue.key.namespace!r} adopt or purge them, annotate BusNamespace {bus.key} with "
            f"{names.RETAINED_TO_ANNOTATION}={queue.key.namespace}.",
        )
    if entry.manifest_uid == queue.uid or choice == ADOPT:
        refusal = _fixed(entry, wanted)
        return refusal or Decision(Step.ADOPT, wanted=wanted)
    if choice == PURGE:
        return Decision(Step.PURGE, wanted=wanted)
    return refuse(
        Reason.RETAINED_DATA,
        f"an earlier manifest left queue {entry.name!r} with its messages. Annotate this one with "
        f"{names.RETAINED_ANNOTATION}={ADOPT} to continue it, or ={PURGE} to delete them.",
    )


def _may_have(queue: QueueView, bus: BusView) -> bool:
    """Whether a manifest's namespace may adopt or purge retained data of other manifests."""
    allowed = bus.annotations.get(names.RETAINED_TO_ANNOTATION, "").split(",")
    return queue.key.namespace in (bus.key.namespace, *(each.strip() for each in allowed))


def _taken(queue: QueueView, entry: Entity, rival: QueueView | None) -> Decision:
    if entry.origin is not Origin.MANIFEST:
        whose = "an administration call made it"
    elif rival is not None:
        whose = f"manifest {rival.key} has it"
    else:
        # Its manifest is gone: the catalogue will say Orphaned in a moment.
        return refuse(Reason.PROGRESSING, f"queue {entry.name!r} is being released.")
    return refuse(
        Reason.NAME_TAKEN,
        f"the name {queue.entity_name!r} is taken on this bus: {whose}. Choose another "
        "spec.entityName, or delete that queue first.",
    )


def _living(entry: Entity, wanted: QueueDescription) -> Decision:
    if entry.description == wanted:
        return Decision(Step.NOTHING, Reason.AVAILABLE, wanted=wanted)
    return _fixed(entry, wanted) or Decision(Step.UPDATE, wanted=wanted)


def _fixed(entry: Entity, wanted: QueueDescription) -> Decision | None:
    try:
        immutable_fields.check_entity(entry.name, entry.description, wanted)
    except PartitioningImmutable as error:
        return refuse(Reason.PARTITIONING_IMMUTABLE, error.message)
    except BusError as error:
        return refuse(Reason.FIELD_IMMUTABLE, error.message)
    return None


def reason_of(error: BusError) -> Reason:
    """Return the reason of a refusal by the registrar."""
    if isinstance(error, PartitioningImmutable):
        return Reason.PARTITIONING_IMMUTABLE
    if isinstance(error, InvalidArgument):
        return Reason.INVALID_SPEC
    if error.reason == "RETAINED_DATA":
        return Reason.RETAINED_DATA
    return Reason.PARTITION_UNAVAILABLE if error.retryable else Reason.REFUSED


def orphans(entries: Iterable[Entity], manifest_uids: set[str], departing: set[str]) -> list[str]:
    """Return the names of entities whose manifest was deleted unnoticed."""
    return [
        entry.name
        for entry in entries
        if entry.origin is Origin.MANIFEST
        and not entry.deleted
        and not entry.orphaned
        and entry.manifest_uid not in manifest_uids
        and entry.manifest_uid not in departing
    ]
