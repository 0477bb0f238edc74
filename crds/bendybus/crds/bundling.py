"""Manifests of one bus put together: its namespace and its queues, checked against each other.

Pure: loading is done before, sending to the bus after. The rules of entities are the domain's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.loading import Loaded
from bendybus.crds.manifest import DEFAULT_NAMESPACE
from bendybus.crds.namespace_manifest import BusNamespace
from bendybus.crds.queue_manifest import Queue, to_description
from bendybus.domain import entity, immutable_fields, limits, queue_description
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.domain.limits import Tier
from bendybus.domain.queue_description import QueueDescription


@dataclass(frozen=True, slots=True)
class NamespaceSettings:
    """The bus that entities are checked against."""

    name: str
    tier: Tier = Tier.STANDARD
    partition_count: int = limits.STANDARD_PARTITION_COUNT


@dataclass(frozen=True, slots=True)
class QueueWish:
    """A queue that a manifest asks for."""

    name: str
    uid: str
    description: QueueDescription
    source: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the manifests of one bus ask for. `implicit`: no BusNamespace was among them."""

    namespace: NamespaceSettings
    implicit: bool
    queues: tuple[QueueWish, ...]


def bundle(loaded: Sequence[Loaded], *, running: NamespaceSettings | None = None) -> Bundle:
    """Return the one bus that the manifests describe.

    Without a BusNamespace the queues join `running`, or a Standard one called `default`.
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
    wishes: dict[str, QueueWish] = {}
    for item in loaded:
        if isinstance(item.manifest, Queue):
            problems.extend(_check(item, item.manifest, namespace, wishes))
    problems.extend(_check_number(namespace, wishes))
    if problems:
        raise ManifestError(*problems)
    return Bundle(namespace, not spaces, tuple(wishes.values()))


def _namespace_of(item: Loaded) -> NamespaceSettings:
    space = item.manifest
    assert isinstance(space, BusNamespace)
    return NamespaceSettings(space.metadata.name, space.tier, space.partition_count)


def _check(
    item: Loaded, queue: Queue, namespace: NamespaceSettings, wishes: dict[str, QueueWish]
) -> list[Problem]:
    """Add the queue to `wishes`, or return what is wrong with it."""
    wanted_space = queue.spec.namespace_ref.name
    if wanted_space != namespace.name:
        return [
            item.problem(
                "spec.namespaceRef.name",
                f"{wanted_space!r} is not the bus of this run, {namespace.name!r}. Add the "
                f"manifest of BusNamespace {wanted_space!r}, or refer to {namespace.name!r}.",
            )
        ]
    name = queue.entity_name
    if name.lower() in wishes:
        other = wishes[name.lower()]
        return [
            item.problem(
                "spec.entityName",
                f"{name!r} is already the name of the queue in {other.source}; case does not "
                "count. Choose another name.",
            )
        ]
    try:
        entity.check_new_name(name)
        description = to_description(queue.spec)
        queue_description.check(
            description, tier=namespace.tier, partition_count=namespace.partition_count
        )
    except InvalidArgument as error:
        return [_of_domain(item, error)]
    wishes[name.lower()] = QueueWish(name, queue.metadata.uid, description, item.source)
    return []


def _of_domain(item: Loaded, error: InvalidArgument) -> Problem:
    return item.problem(f"spec.{error.field}", error.message.removeprefix(f"{error.field}: "))


def _check_number(namespace: NamespaceSettings, wishes: dict[str, QueueWish]) -> list[Problem]:
    spread = [wish for wish in wishes.values() if wish.description.enable_partitioning]
    most = limits.PARTITIONED_ENTITIES_PER_NAMESPACE
    if namespace.tier is not Tier.PREMIUM and len(spread) > most:
        sentence = (
            f"{len(spread)} partitioned entities are more than the {most} of {namespace.tier}."
        )
        return [Problem(spread[-1].source, "", "spec.enablePartitioning", sentence)]
    return []


def check_against(namespace: NamespaceSettings, wanted: Bundle) -> None:
    """Raise BusError unless `wanted` can be applied to the running bus `namespace`."""
    if wanted.namespace.name != namespace.name:
        raise BusError(
            f"The manifests are of BusNamespace {wanted.namespace.name!r}, but the bus that "
            f"answers is {namespace.name!r}. Choose the bus with --connection-string."
        )
    immutable_fields.check_namespace(
        namespace.name,
        tier=namespace.tier,
        partition_count=namespace.partition_count,
        wanted_tier=wanted.namespace.tier,
        wanted_count=wanted.namespace.partition_count,
    )
