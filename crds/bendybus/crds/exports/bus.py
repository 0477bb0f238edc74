"""The bus that is written: what manifests say, in the order in which it can be made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from bendybus.crds import entity_manifest, ordering
from bendybus.crds.conversion import Document, Finding, Outcome
from bendybus.crds.entity_manifest import EntityManifest
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.loading import Loaded, parse
from bendybus.crds.namespace_manifest import BusNamespace, Right
from bendybus.domain import descriptions, forwarding, limits, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.domain.limits import Tier

# Fields of a BusNamespace that other programs have words for.
_WRITTEN = frozenset(("sku", "premium_messaging_partitions", "authorization_rules"))


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity. `topic`: of a subscription. `after`: what it forwards to, and must be there.

    `back`: the fields by which it forwards to what comes after it, since that forwards back.
    """

    kind: EntityKind
    name: str
    topic: str
    description: Description
    after: tuple[str, ...] = ()
    back: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The name as an entity of the bus."""
        return subscription_name.compose(self.topic, self.name) if self.topic else self.name

    @property
    def place(self) -> str:
        """The name of the entity in reports."""
        return f"{self.kind} {self.path}"


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """A shared access policy. `rights`: in Azure, Manage comes with the others."""

    name: str
    rights: tuple[str, ...]
    entity: Entity | None = None


@dataclass(frozen=True, slots=True)
class Bus:
    """A bus. `lost`: what no other program has a word for."""

    name: str
    tier: Tier
    partition_count: int
    policies: tuple[AccessPolicy, ...]
    entities: tuple[Entity, ...]
    lost: tuple[Finding, ...]

    def of_kind(self, kind: EntityKind, topic: str = "") -> Iterator[Entity]:
        """Yield the entities of a kind, of subscriptions those of a topic."""
        for each in self.entities:
            if each.kind is kind and each.topic.lower() == topic.lower():
                yield each


def of_documents(
    source: str, documents: Sequence[Document], policies: Mapping[str, str] = MappingProxyType({})
) -> Bus:
    """Return the bus of manifests. Raises ManifestError.

    `policies`: names of policies that are called otherwise in manifests, by their names there.
    """
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for each in documents:
        result = parse(source, each)
        if isinstance(result, Loaded):
            loaded.append(result)
        else:
            problems.extend(result)
    if problems:
        raise ManifestError(*problems)
    made = _of_loaded(loaded, [each for one in documents for each in _lost_of_object(one)])
    own = [replace(each, name=policies.get(each.name, each.name)) for each in made.policies]
    return replace(made, policies=tuple(own))


def _of_loaded(loaded: Sequence[Loaded], of_objects: Sequence[Finding]) -> Bus:
    spaces = [each.manifest for each in loaded if isinstance(each.manifest, BusNamespace)]
    space = spaces[0] if spaces else None
    tier = Tier.STANDARD if space is None else space.tier
    count = limits.STANDARD_PARTITION_COUNT if space is None else space.partition_count
    found = [
        _entity(each.manifest, tier, count)
        for each in loaded
        if isinstance(each.manifest, EntityManifest)
    ]
    topics = {each.path.lower() for each in found if each.kind is EntityKind.TOPIC}
    alone = [each for each in found if each.topic and each.topic.lower() not in topics]
    entities = _in_order([each for each in found if not each.topic or each.topic.lower() in topics])
    name = "default" if space is None else space.metadata.name
    policies, lost = _policies(space, entities)
    lost += [
        Finding(each.place, Outcome.NOT_SUPPORTED, "is left out: its topic is not there.")
        for each in alone
    ]
    return Bus(name, tier, count, policies, entities, (*_lost(space), *lost, *of_objects))


def _entity(manifest: EntityManifest, tier: Tier, count: int) -> Entity:
    description = descriptions.settled(
        entity_manifest.to_description(manifest), tier=tier, partition_count=count
    )
    kind = manifest.ENTITY_KIND
    topic = manifest.topic_name if kind is EntityKind.SUBSCRIPTION else ""
    return Entity(kind, manifest.name, topic, description)


def _in_order(found: Sequence[Entity]) -> tuple[Entity, ...]:
    """Return topics before subscriptions, and destinations before what forwards to them."""
    by_name = {each.path.lower(): each for each in found}
    topics_first = sorted(by_name, key=lambda key: by_name[key].kind is EntityKind.SUBSCRIPTION)

    def needs(key: str) -> list[str]:
        wanted = forwarding.destinations_of(by_name[key].description)
        return [each for each in wanted if each in by_name]

    made: dict[str, Entity] = {}
    for key in ordering.in_order(topics_first, needs):
        needed = dict.fromkeys(needs(key))
        mine = by_name[key]
        back = {each for each in needed if each not in made}
        fields = tuple(
            each for each in forwarding.FIELDS if getattr(mine.description, each).lower() in back
        )
        made[key] = replace(mine, after=tuple(each for each in needed if each in made), back=fields)
    return tuple(made.values())


def _policies(
    space: BusNamespace | None, entities: Sequence[Entity]
) -> tuple[tuple[AccessPolicy, ...], list[Finding]]:
    by_name = {each.path.lower(): each for each in entities}
    made: list[AccessPolicy] = []
    lost: list[Finding] = []
    for each in () if space is None else space.spec.authorization_rules:
        rights = tuple(right.value for right in Right)
        if Right.MANAGE not in each.rights:
            rights = tuple(right.value for right in Right if right in each.rights)
        entity = None if each.entity is None else by_name.get(each.entity.lower())
        if each.entity is not None and entity is None:
            lost.append(
                Finding(
                    f"policy {each.name}",
                    Outcome.NOT_SUPPORTED,
                    f"is on {each.entity!r}, which is not written.",
                )
            )
        elif entity is not None and entity.kind is EntityKind.SUBSCRIPTION:
            what = f"is on {entity.place}: subscriptions in Azure have no policies."
            lost.append(Finding(f"policy {each.name}", Outcome.NOT_SUPPORTED, what))
        else:
            made.append(AccessPolicy(each.name, rights, entity))
    return tuple(made), lost


def _lost_of_object(document: Document) -> Iterator[Finding]:
    """Yield what a manifest says of its object in Kubernetes alone."""
    metadata = document["metadata"]
    place = f"{document['kind']} {metadata['name']}"
    if document["kind"] != "BusNamespace" and "deletionPolicy" in (document.get("spec") or {}):
        detail = "is about the cluster."
        yield Finding(f"{place}.deletionPolicy", Outcome.NOT_SUPPORTED, detail)
    for name in ("labels", "annotations"):
        if metadata.get(name):
            detail = "are those of an object of Kubernetes."
            yield Finding(f"{place}.metadata.{name}", Outcome.NO_EFFECT, detail)


def _lost(space: BusNamespace | None) -> Iterator[Finding]:
    if space is None:
        return
    fields = type(space.spec).model_fields
    for name in sorted(space.spec.model_fields_set - _WRITTEN):
        yield Finding(
            f"BusNamespace {space.metadata.name}.{fields[name].alias or name}",
            Outcome.NOT_SUPPORTED,
            "is about the cluster.",
        )
