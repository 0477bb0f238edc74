"""Manifests of one bus put together: its namespace and its entities, checked against each other.

Pure: loading is done before, sending to the bus after. The rules of entities are the domain's.
"""

import graphlib
from collections import Counter
from collections.abc import Mapping, Sequence

from bendybus.crds import entity_manifest, ordering
from bendybus.crds.bundle import Bundle, EntityWish, NamespaceSettings
from bendybus.crds.entity_manifest import EntityManifest
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.loading import Loaded
from bendybus.crds.manifest import DEFAULT_NAMESPACE
from bendybus.crds.namespace_manifest import BusNamespace
from bendybus.domain import descriptions, forwarding, limits, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError, InvalidArgument, InvalidOperation, QuotaExceeded
from bendybus.domain.limits import Tier


def bundle(loaded: Sequence[Loaded], *, running: NamespaceSettings | None = None) -> Bundle:
    """Return the one bus that the manifests describe.

    Without a BusNamespace the entities join `running`, or a Standard one called `default`.
    Raises ManifestError with every problem.
    """
    spaces = [item for item in loaded if isinstance(item.manifest, BusNamespace)]
    if len(spaces) > 1:
        raise ManifestError(
            spaces[1].problem(
                "kind",
                f"is a second BusNamespace beside {spaces[0].manifest.metadata.name!r}. "
                "Give the files of one bus at a time.",
            )
        )
    namespace = (
        _namespace_of(spaces[0]) if spaces else running or NamespaceSettings(DEFAULT_NAMESPACE)
    )
    problems: list[Problem] = []
    wishes: dict[str, EntityWish] = {}
    for item in loaded:
        if isinstance(item.manifest, EntityManifest):
            problems.extend(_check(item, item.manifest, namespace, wishes))
    problems.extend(_check_number(wishes))
    problems.extend(_check_partitioned_number(namespace, wishes))
    problems.extend(_check_cycles(wishes))
    if problems:
        raise ManifestError(*problems)
    return Bundle(namespace, not spaces, tuple(_in_order(wishes)))


def _in_order(wishes: Mapping[str, EntityWish]) -> list[EntityWish]:
    """Return entities in the order in which they can be made. The bus refuses what has none."""
    topics_first = sorted(wishes, key=lambda key: wishes[key].kind is EntityKind.SUBSCRIPTION)
    keys = ordering.in_order(
        topics_first, lambda key: forwarding.destinations_of(wishes[key].description)
    )
    return [wishes[key] for key in keys]


def _namespace_of(item: Loaded) -> NamespaceSettings:
    space = item.manifest
    assert isinstance(space, BusNamespace)
    return NamespaceSettings(space.metadata.name, space.tier, space.partition_count)


def _check(
    item: Loaded,
    manifest: EntityManifest,
    namespace: NamespaceSettings,
    wishes: dict[str, EntityWish],
) -> list[Problem]:
    """Add the entity to `wishes`, or return what is wrong with it."""
    wanted_space = manifest.spec.namespace_ref.name
    if wanted_space != namespace.name:
        return [
            item.problem(
                "spec.namespaceRef.name",
                f"{wanted_space!r} is not the bus of this run, {namespace.name!r}. Add the "
                f"manifest of BusNamespace {wanted_space!r}, or refer to {namespace.name!r}.",
            )
        ]
    name = manifest.entity_name
    if name.lower() in wishes:
        other = wishes[name.lower()]
        return [
            item.problem(
                "spec.entityName",
                f"{name!r} is already the name of the {other.kind} in {other.source}; case does "
                "not count. Choose another name.",
            )
        ]
    try:
        manifest.check_name()
        entity_manifest.check_rules(manifest)
        description = entity_manifest.to_description(manifest)
        descriptions.check(
            description, tier=namespace.tier, partition_count=namespace.partition_count
        )
        forwarding.check_names(description)
    except InvalidArgument as error:
        return [_of_domain(item, error)]
    except InvalidOperation as error:
        return [item.problem("kind", error.message)]
    except QuotaExceeded as error:
        return [item.problem("spec.rules", error.message)]
    wishes[name.lower()] = EntityWish(
        name, manifest.metadata.uid, description, item.source, manifest.left_out()
    )
    return []


def _of_domain(item: Loaded, error: InvalidArgument) -> Problem:
    return item.problem(f"spec.{error.field}", error.message.removeprefix(f"{error.field}: "))


def _check_number(wishes: Mapping[str, EntityWish]) -> list[Problem]:
    """Return the first entity that is one too many, whatever the bus has already."""
    counts: Counter[str] = Counter()
    for key, wish in wishes.items():
        if wish.kind is EntityKind.SUBSCRIPTION:
            family, what, most = (
                subscription_name.family(key),
                "subscriptions of a topic",
                limits.SUBSCRIPTIONS_PER_TOPIC,
            )
        else:
            family, what, most = (
                "",
                "queues and topics of a namespace",
                limits.ENTITIES_PER_NAMESPACE,
            )
        counts[family] += 1
        if counts[family] > most:
            sentence = f"there are more than {most:,} {what}. Remove some."
            return [Problem(wish.source, "", "kind", sentence)]
    return []


def _check_partitioned_number(
    namespace: NamespaceSettings, wishes: Mapping[str, EntityWish]
) -> list[Problem]:
    spread = [
        wish for wish in wishes.values() if getattr(wish.description, "enable_partitioning", False)
    ]
    most = limits.PARTITIONED_ENTITIES_PER_NAMESPACE
    if namespace.tier is not Tier.PREMIUM and len(spread) > most:
        sentence = (
            f"{len(spread)} partitioned entities are more than the {most} of {namespace.tier}."
        )
        return [Problem(spread[-1].source, "", "spec.enablePartitioning", sentence)]
    return []


def _check_cycles(wishes: Mapping[str, EntityWish]) -> list[Problem]:
    """Return a cycle of forwarding within the manifests; the bus looks for one with all it has."""
    onward: dict[str, set[str]] = {}
    forwards: dict[tuple[str, str], EntityWish] = {}
    for wish in wishes.values():
        destination = getattr(wish.description, "forward_to", "").lower()
        if destination:
            # What comes to a topic comes to its subscriptions.
            source = subscription_name.family(wish.name.lower())
            if destination == source != wish.name.lower():
                # A subscription to its own topic: hops bound it.
                continue
            onward.setdefault(source, set()).add(destination)
            forwards[source, destination] = wish
    try:
        graphlib.TopologicalSorter(onward).prepare()
    except graphlib.CycleError as error:
        # From the last to the first: what is forwarded to comes first in the order.
        cycle: list[str] = error.args[1][::-1]
        path = " to ".join(map(repr, cycle))
        sentence = f"messages would come back: they go from {path}. Remove one of these forwards."
        return [Problem(forwards[cycle[0], cycle[1]].source, "", "spec.forwardTo", sentence)]
    return []


def check_against(namespace: NamespaceSettings, wanted: Bundle) -> None:
    """Raise BusError unless `wanted` can be applied to the running bus `namespace`."""
    if wanted.namespace.name != namespace.name:
        raise BusError(
            f"The manifests are of BusNamespace {wanted.namespace.name!r}, but the bus that "
            f"answers is {namespace.name!r}. Choose the bus with --connection-string."
        )
    descriptions.check_namespace_unchanged(
        namespace.name,
        tier=namespace.tier,
        partition_count=namespace.partition_count,
        wanted_tier=wanted.namespace.tier,
        wanted_count=wanted.namespace.partition_count,
    )
