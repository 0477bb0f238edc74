"""What the webhooks reject, with error sentences. Deterministic: facts in, sentences out.

The same rules as the reconciler's, from the same places (crds, domain, plan): a manifest that gets
past a webhook that is off is refused in its status instead.
"""

import re
from dataclasses import dataclass
from typing import Final

from bendybus.crds import entity_manifest
from bendybus.crds.manifest import DeletionPolicy
from bendybus.crds.namespace_manifest import BusNamespace
from bendybus.domain import descriptions, limits
from bendybus.domain.entity_settings import Description, SubscriptionDescription
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.domain.filters.rule import Rule
from bendybus.operator.decisions import plan
from bendybus.operator.decisions.manifests import Body, BusView, EntityView, bus_view, entity_view
from bendybus.operator.decisions.storage import amount
from bendybus.operator.kubernetes import names

# Longer ones make names of pods and labels of revisions that Kubernetes does not take.
BUS_NAME_CHARS_MAX: Final = 40
# How many new rules a webhook compiles: a few ms each.
RULES_COMPILED_MAX: Final = 200
PARTITIONS_MAX: Final = limits.STANDARD_PARTITION_COUNT
# As container runtimes read it: one pod at a time would be replaced by one that never starts.
_NAME: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_NAME}(?:/{_NAME})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?\Z"
)
# Annotations that have an effect → the values that have it; others would be without, in silence.
_VALUES: Final = {
    names.PAUSE_ANNOTATION: ("true", "false"),
    names.ALLOW_DELETION_ANNOTATION: ("true", "false"),
    names.RETAINED_ANNOTATION: (plan.ADOPT, plan.PURGE),
}
_BUS_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of an entity's messages. `unknown`: partitions that could not be asked."""

    messages: int = 0
    unknown: tuple[int, ...] = ()


def check_bus(body: Body, old: Body | None) -> list[str]:
    """Return why a BusNamespace cannot be so; nothing if it can."""
    if _same_spec(body, old):
        return []
    view = bus_view(body)
    found = bus_problems(view)
    before = bus_view(old).manifest if old is not None else None
    if before is not None and view.manifest is not None:
        found += _bus_changes(view.key.name, before, view.manifest)
    if view.manifest is not None:
        kept = set(before.spec.frontend.host_names) if before is not None else set()
        found += [
            f"spec.frontend.hostNames: {name!r} is a name inside a cluster. Give names with a "
            "domain that clients outside reach; those of its own Service are in the certificate."
            for name in view.manifest.spec.frontend.host_names
            if name not in kept and names.is_of_a_cluster(name)
        ]
        image = view.manifest.spec.image
        known = before is not None and before.spec.image == image
        if image and not known and not _IMAGE.match(image):
            found.append(
                f"spec.image: {image!r} is not an image name. Write it as REGISTRY/NAME:TAG, or "
                "leave it out for the operator's own."
            )
    return found


def _same_spec(body: Body, old: Body | None) -> bool:
    """Whether an update changes only labels, annotations or finalizers; these are admitted."""
    return old is not None and body.get("spec") == old.get("spec")


def bus_problems(view: BusView) -> list[str]:
    """Return why a BusNamespace cannot run, whatever it was before; also for the reconciler."""
    if view.manifest is None:
        return list(view.problems)
    name = view.key.name
    found: list[str] = []
    if len(name) > BUS_NAME_CHARS_MAX or not _BUS_NAME.match(name):
        found.append(
            f"metadata.name: {name!r} must start with a letter, have only lower-case letters, "
            f"digits and -, and no more than {BUS_NAME_CHARS_MAX} characters."
        )
    rules = [rule.name.lower() for rule in view.manifest.spec.authorization_rules]
    if names.ROOT_RULE.lower() in rules:
        found.append(
            f"spec.authorizationRules: {names.ROOT_RULE} is there by itself. Leave it out."
        )
    if len(set(rules)) != len(rules):
        found.append("spec.authorizationRules: two names differ in case only. Rename one.")
    for rule in sorted({*rules} & names.RULES_TAKEN):
        found.append(
            f"spec.authorizationRules: {rule!r} would need the name of a Secret that the bus has "
            "already. Rename it."
        )
    return found


def _bus_changes(name: str, before: BusNamespace, now: BusNamespace) -> list[str]:
    found = []
    try:
        descriptions.check_namespace_unchanged(
            name,
            tier=before.tier,
            partition_count=before.partition_count,
            wanted_tier=now.tier,
            wanted_count=now.partition_count,
        )
    except BusError as error:
        found.append(error.message)
    old, new = before.spec.storage, now.spec.storage
    if old.storage_class_name != new.storage_class_name:
        found.append(
            "spec.storage.storageClassName cannot be changed after creation. Create another "
            "BusNamespace."
        )
    if amount(new.size) < amount(old.size):
        found.append(
            f"spec.storage.size: volumes cannot shrink from {old.size} to {new.size}. Leave it, or "
            "make a BusNamespace of another name."
        )
    return found


def check_entity(
    body: Body, old: Body | None, bus: BusView | None, *, compiled_max: int = RULES_COMPILED_MAX
) -> list[str]:
    """Return why an entity cannot be so; nothing if it can, or if its bus does not exist yet."""
    if _same_spec(body, old):
        return []
    view = entity_view(body)
    if view.manifest is None:
        return list(view.problems)
    found = []
    before = entity_view(old) if old is not None else None
    if before is not None and before.manifest is not None:
        found += _entity_changes(before, view)
    try:
        if old is None:
            view.manifest.check_name()
        _check_rules(view, before, compiled_max)
        if bus is not None and bus.manifest is not None:
            refusal = plan.check_place(view, bus)
            if refusal is not None:
                found.append(refusal.message)
            wanted = plan.wanted_description(view, bus)
            plan.check_new(wanted, bus, _described(before, bus))
    except InvalidArgument as error:
        found.append(f"spec.{error.message}")
    except BusError as error:
        found.append(error.message)
    return found


def _described(before: EntityView | None, bus: BusView) -> Description | None:
    """Return what the manifest asked for before; None: nothing that a bus can have."""
    if before is None or before.manifest is None:
        return None
    try:
        return plan.wanted_description(before, bus)
    except BusError:
        return None


def _check_rules(view: EntityView, before: EntityView | None, compiled_max: int) -> None:
    """Raise BusError for rules that no subscription can have; those that were there are known.

    More than a webhook has time to compile are left to the bus: status says what is wrong.
    """
    known: tuple[Rule, ...] = ()
    if before is not None and before.manifest is not None:
        described = entity_manifest.to_description(before.manifest)
        known = described.rules if isinstance(described, SubscriptionDescription) else ()
    assert view.manifest is not None
    entity_manifest.check_rules(view.manifest, known, compiled_max=compiled_max)


def _entity_changes(before: EntityView, now: EntityView) -> list[str]:
    assert before.manifest is not None
    assert now.manifest is not None
    found = []
    for field, old, new in (
        ("namespaceRef", str(before.bus), str(now.bus)),
        ("topicName", before.topic_name, now.topic_name),
        ("entityName", _own_name(before), _own_name(now)),
    ):
        if old != new:
            found.append(
                f"spec.{field} cannot be changed after creation (is {old!r}, got {new!r}). Create "
                f"another {now.object_kind}."
            )
    try:
        descriptions.check_unchanged(
            now.entity_name,
            entity_manifest.to_description(before.manifest),
            entity_manifest.to_description(now.manifest),
        )
    except BusError as error:
        found.append(error.message)
    return found


def _own_name(view: EntityView) -> str:
    """Return the name as the manifest has it: of a subscription, within its topic."""
    assert view.manifest is not None
    return view.manifest.spec.entity_name or view.key.name


def guards(body: Body) -> bool:
    """Whether a deletion must be checked: it would delete messages without permission."""
    spec = body.get("spec") or {}
    annotations = body["metadata"].get("annotations") or {}
    return (
        spec.get("deletionPolicy") == DeletionPolicy.DELETE.value
        and annotations.get(names.ALLOW_DELETION_ANNOTATION) != "true"
    )


def data_uids(body: Body) -> frozenset[str]:
    """Return the UIDs that an entity's data may have: after an adoption another than its own."""
    found = {(body.get("status") or {}).get("entityUid"), body["metadata"].get("uid")}
    return frozenset(uid for uid in found if uid)


def partitions_to_ask(view: BusView) -> int:
    """Return how many partitions may hold messages of a bus.

    What runs counts, too: a manifest that cannot be read, or that was changed past all guards,
    does not say how many there are. None known is taken for the most.
    """
    wanted = view.manifest.partition_count if view.manifest is not None else 0
    running = view.status.get("partitions")
    known = max(wanted, running if isinstance(running, int) else 0)
    return min(known or PARTITIONS_MAX, PARTITIONS_MAX)


def check_deletion(what: str, held: Held) -> list[str]:
    """Return why something that `guards` cannot be deleted now; nothing if it can."""
    allow = (
        f"Annotate it with {names.ALLOW_DELETION_ANNOTATION}=true to delete it all the same, or "
        "set spec.deletionPolicy to Retain to keep the messages."
    )
    if held.messages:
        return [
            f"{what} holds {held.messages} message(s), and its deletionPolicy is Delete. {allow}"
        ]
    if held.unknown:
        missing = ", ".join(map(str, held.unknown))
        return [f"{what}: partition(s) {missing} cannot say whether they hold messages. {allow}"]
    return []


def annotation_notes(body: Body) -> list[str]:
    """Return warnings for annotations whose values have no effect."""
    annotations = body["metadata"].get("annotations") or {}
    return [
        f"{name}: {annotations[name]!r} has no effect; write {' or '.join(values)}"
        for name, values in _VALUES.items()
        if name in annotations and annotations[name] not in values
    ]


def notes(body: Body, bus: BusView | None) -> list[str]:
    """Return warnings for an entity that is taken."""
    found = annotation_notes(body)
    if bus is not None:
        return found
    view = entity_view(body)
    return [
        *found,
        f"there is no BusNamespace {view.bus} yet; the {view.kind} is created when that exists",
    ]
