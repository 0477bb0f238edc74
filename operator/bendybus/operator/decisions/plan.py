"""Decides the next step for an entity: manifest and catalogue in, one decision out. Deterministic.

One step at a time: once it is carried out, the catalogue has changed and the next is decided. The
registrar validates each step again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bendybus.crds import entity_manifest
from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain import descriptions, entity_settings
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import BusError, InvalidArgument, PartitioningImmutable
from bendybus.operator.decisions.manifests import BusView, EntityView
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
    wanted: Description | None = None


@dataclass(frozen=True, slots=True)
class ManifestDeletion:
    """The deletion of a manifest, and what happens to its data."""

    manifest_uid: str
    name: str
    namespace: str
    policy: DeletionPolicy
    # Also with messages: the manifest was annotated so.
    with_messages: bool = False
    # When the manifest was created, as Kubernetes writes it; "": not known.
    created_at: str = ""

    def retained(self) -> "ManifestDeletion":
        """Return the same deletion with policy Retain."""
        return replace(self, policy=DeletionPolicy.RETAIN)


def refuse(reason: Reason, message: str) -> Decision:
    """Return the decision to change nothing, with the reason."""
    return Decision(Step.REFUSE, reason, message)


def decide(
    view: EntityView,
    bus: BusView | None,
    entry: Entity | None,
    *,
    rival: EntityView | None = None,
    topic: Entity | None = None,
    own: Entity | None = None,
    unseen: bool = False,
    complete: bool = True,
) -> Decision:
    """Return what to do for the entity of a manifest.

    `entry` is the catalogue's entry of its name, tombstones included; `rival` another manifest
    that the entry belongs to, if there is one; `topic` the entry of a subscription's topic; `own`
    the entry that belongs to the manifest, of whatever name. `unseen`: the entry's manifest may be
    in a namespace that is not watched.
    `complete`: whether the catalogue is known, so that an entry that is missing does not exist.
    """
    if view.problems or view.manifest is None:
        return refuse(Reason.INVALID_SPEC, view.problems[0] if view.problems else "")
    refusal = check_place(view, bus)
    if refusal is not None:
        return refusal
    assert bus is not None
    assert bus.manifest is not None
    if own is not None and own.key != view.entity_name.lower():
        return _renamed(view, own)
    missing = entry is None or entry.deleted
    try:
        if missing:
            view.manifest.check_name()
        current = None if missing or entry is None else entry.description
        wanted = _with_left_out(entry, wanted_description(view, bus, current), view)
        check_new(wanted, bus, current)
    except BusError as error:
        return refuse(Reason.INVALID_SPEC, error.message)
    if missing and complete and view.kind is EntityKind.SUBSCRIPTION:
        refusal = _topic_missing(view, topic)
        if refusal is not None:
            return refusal
    if entry is None or (entry.deleted and entry.manifest_uid != view.uid):
        return Decision(Step.CREATE, wanted=wanted)
    if entry.deleted:
        return _after_deletion(view, entry, wanted, topic)
    if entry.orphaned:
        return _orphaned(view, bus, entry, wanted)
    if entry.manifest_uid != view.uid:
        return _taken(view, entry, rival, unseen=unseen)
    return _living(view, entry, wanted)


def may_use(namespace: str, bus: BusView | None) -> bool:
    """Whether manifests of a Kubernetes namespace may use a bus."""
    if bus is None or bus.manifest is None:
        return bus is None or namespace == bus.key.namespace
    return namespace in (*bus.manifest.spec.allowed_namespaces, bus.key.namespace)


def is_deleted_with(namespace: Mapping[str, Any] | None, deletion: ManifestDeletion) -> bool:
    """Whether a manifest was deleted with its Kubernetes namespace, as that is now.

    One of the same name may have been created since: it is younger than the manifest.
    """
    if namespace is None or "deletionTimestamp" in namespace["metadata"]:
        return True
    created_at = str(namespace["metadata"].get("creationTimestamp", ""))
    return bool(deletion.created_at) and created_at > deletion.created_at


def check_place(view: EntityView, bus: BusView | None) -> Decision | None:
    """Return the refusal of an entity that may not use its bus, None if it may."""
    if bus is None:
        return refuse(
            Reason.NAMESPACE_NOT_FOUND,
            f"there is no BusNamespace {view.bus.name!r} in namespace {view.bus.namespace!r}. "
            f"The {view.kind} is created when that exists.",
        )
    if bus.manifest is None:
        return refuse(
            Reason.NAMESPACE_NOT_READY, f"BusNamespace {bus.key.name!r} is invalid; fix it first."
        )
    if not may_use(view.key.namespace, bus):
        return refuse(
            Reason.NAMESPACE_NOT_ALLOWED,
            f"namespace {view.key.namespace!r} may not use BusNamespace {bus.key}. Add it to "
            f"spec.allowedNamespaces there, or put the {view.kind} into an allowed namespace.",
        )
    return None


def _topic_missing(view: EntityView, topic: Entity | None) -> Decision | None:
    """Return why a subscription cannot be created on its topic yet, None if it can."""
    if topic is None or topic.deleted:
        return refuse(
            Reason.TOPIC_NOT_FOUND,
            f"there is no topic {view.topic_name!r} on this bus. The subscription is created when "
            "that exists.",
        )
    if topic.kind is not EntityKind.TOPIC:
        return refuse(
            Reason.TOPIC_NOT_FOUND,
            f"{topic.name!r} is a {topic.kind} on this bus, not a topic. Correct spec.topicName "
            "in a new manifest.",
        )
    if topic.orphaned:
        return refuse(
            Reason.TOPIC_ORPHANED,
            f"the manifest of topic {topic.name!r} was deleted. The subscription is created when "
            "a manifest adopts the topic.",
        )
    return None


def check_new(wanted: Description, bus: BusView, current: Description | None) -> None:
    """Raise BusError for what only an entity of an earlier version may have and keep."""
    assert bus.manifest is not None
    tier, count = bus.manifest.tier, bus.manifest.partition_count
    descriptions.check_new(wanted, tier=tier, partition_count=count, current=current)


def wanted_description(
    view: EntityView, bus: BusView, current: Description | None = None
) -> Description:
    """Return what the manifest asks for, as this bus would keep it; `current`: what it has.

    Raises BusError.
    """
    assert view.manifest is not None
    assert bus.manifest is not None
    tier, count = bus.manifest.tier, bus.manifest.partition_count
    wanted = entity_manifest.to_description(view.manifest)
    # Values that the contract has no room for; the registrar compiles the rules.
    entity_manifest.check_rules(view.manifest, compiled_max=0)
    descriptions.check(wanted, tier=tier, partition_count=count)
    return descriptions.settled(wanted, tier=tier, partition_count=count, current=current)


def _with_left_out(entry: Entity | None, wanted: Description, view: EntityView) -> Description:
    """Return a description with what an entity has of the fields that its manifest leaves out.

    Those are set by clients; a new entity begins with their defaults.
    """
    assert view.manifest is not None
    if entry is None or entry.deleted or entry.kind is not wanted.kind:
        return wanted
    known = entity_settings.values_of(entry.description)
    return replace(wanted, **{name: known[name] for name in view.manifest.left_out()})


def _after_deletion(
    view: EntityView, entry: Entity, wanted: Description, topic: Entity | None
) -> Decision:
    if entry.auto_deleted:
        return refuse(
            Reason.AUTO_DELETED,
            f"the bus deleted {entry.title} after autoDeleteOnIdle without use. Delete the "
            f"manifest and apply it again to have the {entry.kind} again.",
        )
    # A subscription that was deleted with its topic follows the topic that is there now.
    with_topic = topic is not None and entry.updated_at_ms <= topic.created_at_ms
    if with_topic or view.annotations.get(names.RETAINED_ANNOTATION) == PURGE:
        return Decision(Step.CREATE, wanted=wanted)
    return refuse(
        Reason.REFUSED,
        f"{entry.title} was deleted by an administration call. Delete the manifest and "
        f"apply it again to have the {entry.kind} again.",
    )


def _orphaned(view: EntityView, bus: BusView, entry: Entity, wanted: Description) -> Decision:
    """Adopt for the manifest that it had before; for another one follow its annotation."""
    choice = view.annotations.get(names.RETAINED_ANNOTATION)
    if entry.manifest_uid != view.uid and not _may_have(view, bus):
        # The namespace of the former manifest is unknown.
        return refuse(
            Reason.RETAINED_DATA,
            f"an earlier manifest left {entry.title} with its messages. To let namespace "
            f"{view.key.namespace!r} adopt or purge them, annotate BusNamespace {bus.key} with "
            f"{names.RETAINED_TO_ANNOTATION}={view.key.namespace}.",
        )
    if choice == PURGE and entry.manifest_uid != view.uid:
        return Decision(Step.PURGE, wanted=wanted)
    if entry.kind is not view.kind:
        return refuse(
            Reason.RETAINED_DATA,
            f"an earlier manifest left {entry.title} with its messages, which a {view.kind} "
            f"cannot continue. Annotate this one with {names.RETAINED_ANNOTATION}={PURGE} to "
            "delete them, or choose another name.",
        )
    if entry.manifest_uid == view.uid or choice == ADOPT:
        refusal = _fixed(entry, wanted)
        return refusal or Decision(Step.ADOPT, wanted=wanted)
    return refuse(
        Reason.RETAINED_DATA,
        f"an earlier manifest left {entry.title} with its messages. Annotate this one with "
        f"{names.RETAINED_ANNOTATION}={ADOPT} to continue it, or ={PURGE} to delete them.",
    )


def _may_have(view: EntityView, bus: BusView) -> bool:
    """Whether a manifest's namespace may adopt or purge retained data of other manifests."""
    allowed = bus.annotations.get(names.RETAINED_TO_ANNOTATION, "").split(",")
    return view.key.namespace in (bus.key.namespace, *(each.strip() for each in allowed))


def _taken(view: EntityView, entry: Entity, rival: EntityView | None, *, unseen: bool) -> Decision:
    if entry.origin is not Origin.MANIFEST:
        whose = f"a {entry.kind} that an administration call created"
    elif rival is not None:
        whose = f"the {entry.kind} of manifest {rival.key}"
    elif unseen:
        whose = (
            f"a {entry.kind} whose manifest may be in a namespace that this operator does not watch"
        )
    else:
        # Its manifest is gone: the catalogue will say Orphaned in a moment.
        return refuse(Reason.PROGRESSING, f"{entry.title} is being released.")
    return refuse(
        Reason.NAME_TAKEN,
        f"the name {view.entity_name!r} is taken on this bus by {whose}. Choose another "
        f"spec.entityName, or delete that {entry.kind} first.",
    )


def _renamed(view: EntityView, own: Entity) -> Decision:
    """Refuse the name of a manifest that made an entity of another name.

    The API server refuses such a change of a spec; not if its rules are not those of this version.
    """
    same_topic = own.topic_key == view.topic_key or own.kind is not EntityKind.SUBSCRIPTION
    field = "entityName" if same_topic else "topicName"
    return refuse(
        Reason.FIELD_IMMUTABLE,
        f"spec.{field} cannot be changed after creation: the manifest is that of {own.title}, "
        f"not of {view.entity_name!r}. Change it back, or write another manifest for the other "
        f"{view.kind}.",
    )


def _living(view: EntityView, entry: Entity, wanted: Description) -> Decision:
    assert view.manifest is not None
    if entry.description == wanted and entry.manifest_rules == view.manifest.has_rules:
        return Decision(Step.NOTHING, Reason.AVAILABLE, wanted=wanted)
    return _fixed(entry, wanted) or Decision(Step.UPDATE, wanted=wanted)


def _fixed(entry: Entity, wanted: Description) -> Decision | None:
    try:
        descriptions.check_unchanged(entry.name, entry.description, wanted)
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


def orphans(
    entries: Iterable[Entity],
    manifest_uids: set[str],
    departing: set[str],
    kinds: Collection[EntityKind] = tuple(EntityKind),
) -> list[str]:
    """Return the names of entities whose manifest was deleted unnoticed.

    Of `kinds` only: the manifests of others could not be listed.
    """
    return [
        entry.name
        for entry in entries
        if entry.origin is Origin.MANIFEST
        and entry.kind in kinds
        and not entry.deleted
        and not entry.orphaned
        and entry.manifest_uid not in manifest_uids
        and entry.manifest_uid not in departing
    ]
