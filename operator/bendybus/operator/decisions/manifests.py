"""Typed views of the manifests that the API server holds, and a cache of all of them.

Deterministic; does no I/O. Events and lists fill the cache, which has the indexes that controllers
need.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bendybus.crds import loading
from bendybus.crds.entity_manifest import EntityManifest
from bendybus.crds.manifest import DeletionPolicy
from bendybus.crds.namespace_manifest import BusNamespace
from bendybus.domain import forwarding, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.operator.kubernetes.names import ObjectKey

Body = Mapping[str, Any]
_EMPTY: Final[Mapping[str, Any]] = {}
_NOWHERE: Final = ObjectKey("", "")
# Of an invalid manifest: what status and webhook tell.
PROBLEMS_MAX: Final = 10
PROBLEM_CHARS_MAX: Final = 1_000
_KINDS: Final = {kind.KIND: kind.ENTITY_KIND for kind in loading.ENTITIES.values()}


class EntityId(NamedTuple):
    """What an entity's manifest is known by: objects of different kinds may share a name."""

    kind: EntityKind
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class View:
    """What every kind of manifest has. `problems`: sentences, if it is invalid.

    `version`: grows with each change of any object; 0 if the API server does not say it so.
    """

    key: ObjectKey
    uid: str
    version: int
    generation: int
    annotations: Mapping[str, str]
    deleting: bool
    problems: tuple[str, ...]
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    # As the API server writes it, "" if it does not.
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class BusView(View):
    """A BusNamespace."""

    manifest: BusNamespace | None = None


@dataclass(frozen=True, slots=True)
class EntityView(View):
    """A manifest of an entity, and the bus it names, which may not exist."""

    kind: EntityKind = EntityKind.QUEUE
    manifest: EntityManifest | None = None
    bus: ObjectKey = _NOWHERE
    # Of a subscription: its topic's name as the spec has it, also if that is invalid otherwise.
    topic_name: str = ""

    @property
    def id(self) -> EntityId:
        """What it is known by."""
        return EntityId(self.kind, self.key)

    @property
    def object_kind(self) -> str:
        """The kind of the Kubernetes object."""
        return loading.ENTITIES[self.kind].KIND

    @property
    def entity_name(self) -> str:
        """The name as an entity; made of metadata.name when the spec cannot be read."""
        if self.manifest is not None:
            return self.manifest.entity_name
        if self.kind is EntityKind.SUBSCRIPTION:
            return subscription_name.compose(self.topic_name, self.key.name)
        return self.key.name

    @property
    def topic_key(self) -> str:
        """Of a subscription: its topic's name in lower case; "" of other kinds."""
        return self.topic_name.lower()

    @property
    def destination_keys(self) -> frozenset[str]:
        """The names, in lower case, that it forwards to; none if the spec cannot be read."""
        spec = self.manifest.spec if self.manifest is not None else None
        found = (getattr(spec, field, None) for field in forwarding.FIELDS)
        return frozenset(name.lower() for name in found if name)

    @property
    def deletion_policy(self) -> DeletionPolicy:
        """What happens to the messages; Retain if the spec cannot be read."""
        if self.manifest is None:
            return DeletionPolicy.RETAIN
        return DeletionPolicy(self.manifest.spec.deletion_policy)


def key_of(body: Body) -> ObjectKey:
    """Return namespace and name of an object."""
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _common(body: Body) -> dict[str, Any]:
    metadata = body["metadata"]
    return {
        "key": key_of(body),
        "uid": metadata.get("uid", ""),
        "version": _version(metadata.get("resourceVersion")),
        "generation": metadata.get("generation", 0),
        "annotations": dict(metadata.get("annotations") or _EMPTY),
        "deleting": "deletionTimestamp" in metadata,
        "status": body.get("status") or {},
        "created_at": metadata.get("creationTimestamp", ""),
    }


def _version(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


def succeeded_by(view: View, other: View) -> bool:
    """Whether `view` is an object that was gone when `other`, of the same name, was created.

    Events of one UID come in order, those of two may not.
    """
    return view.uid != other.uid and 0 < view.version < other.version


def _parsed(body: Body) -> tuple[Any, tuple[str, ...]]:
    # The status is the operator's own; unknown fields of later versions in it are ignored.
    document = {name: value for name, value in body.items() if name != "status"}
    result = loading.parse("", document)
    if isinstance(result, loading.Loaded):
        return result.manifest, ()
    return None, tuple(
        _shortened(f"{problem.field}: {problem.sentence}") for problem in result[:PROBLEMS_MAX]
    )


def _shortened(sentence: str) -> str:
    """Return a sentence that a status can hold: it quotes the manifest, of whatever length."""
    return sentence if len(sentence) <= PROBLEM_CHARS_MAX else f"{sentence[:PROBLEM_CHARS_MAX]}…"


def bus_view(body: Body) -> BusView:
    """Return the view of a BusNamespace object."""
    manifest, problems = _parsed(body)
    return BusView(**_common(body), problems=problems, manifest=manifest)


def entity_view(body: Body) -> EntityView:
    """Return the view of an entity's object."""
    manifest, problems = _parsed(body)
    namespace = body["metadata"].get("namespace", "")
    found = body.get("spec")
    spec = found if isinstance(found, Mapping) else _EMPTY
    reference = spec.get("namespaceRef")
    if not isinstance(reference, Mapping):
        reference = _EMPTY
    place, name = reference.get("namespace") or namespace, reference.get("name") or "default"
    return EntityView(
        **_common(body),
        kind=_KINDS[body["kind"]],
        problems=problems,
        manifest=manifest,
        bus=ObjectKey(str(place), str(name)),
        topic_name=str(spec.get("topicName") or ""),
    )


class ManifestCache:
    """All manifests, with the entities of each bus at hand."""

    def __init__(self) -> None:
        self.buses: dict[ObjectKey, BusView] = {}
        # The kinds of entities whose manifests could be listed.
        self.kinds: frozenset[EntityKind] = frozenset()
        self._clear()

    def _clear(self) -> None:
        self._entities: dict[EntityId, EntityView] = {}
        self._by_bus: dict[ObjectKey, dict[EntityId, EntityView]] = {}
        self._by_uid: dict[str, EntityView] = {}
        self._by_name: dict[tuple[ObjectKey, str], dict[EntityId, EntityView]] = {}
        self._by_topic: dict[tuple[ObjectKey, str], dict[EntityId, EntityView]] = {}
        self._by_destination: dict[tuple[ObjectKey, str], dict[EntityId, EntityView]] = {}

    def put_bus(self, view: BusView) -> None:
        """Take a BusNamespace."""
        self.buses[view.key] = view

    def drop_bus(self, key: ObjectKey) -> BusView | None:
        """Forget a BusNamespace that was deleted; return what was known."""
        return self.buses.pop(key, None)

    def put_entity(self, view: EntityView) -> EntityView | None:
        """Take an entity's manifest; return what was known before."""
        before = self.drop_entity(view.id)
        self._entities[view.id] = view
        for index, group in self._indexes(view):
            index.setdefault(group, {})[view.id] = view
        self._by_uid[view.uid] = view
        return before

    def drop_entity(self, known_as: EntityId) -> EntityView | None:
        """Forget a manifest that was deleted; return what was known."""
        view = self._entities.pop(known_as, None)
        if view is not None:
            self._by_uid.pop(view.uid, None)
            for index, group in self._indexes(view):
                members = index[group]
                del members[known_as]
                if not members:
                    del index[group]
        return view

    def _indexes(self, view: EntityView) -> Iterable[tuple[dict[Any, Any], Any]]:
        yield self._by_bus, view.bus
        yield self._by_name, (view.bus, view.entity_name.lower())
        if view.kind is EntityKind.SUBSCRIPTION:
            yield self._by_topic, (view.bus, view.topic_key)
        for key in view.destination_keys:
            yield self._by_destination, (view.bus, key)

    def entity(self, known_as: EntityId) -> EntityView | None:
        """Return an entity's manifest, None if there is none."""
        return self._entities.get(known_as)

    def entities(self) -> Iterable[EntityView]:
        """Return the manifests of all entities."""
        return self._entities.values()

    def by_uid(self, uid: str) -> EntityView | None:
        """Return the manifest with this UID, None if there is none."""
        return self._by_uid.get(uid)

    def named(self, bus: ObjectKey, entity_key: str) -> list[EntityView]:
        """Return the manifests that want a name (in lower case) on a bus; more than one may."""
        return list(self._by_name.get((bus, entity_key), {}).values())

    def subscriptions_of(self, bus: ObjectKey, topic_key: str) -> list[EntityView]:
        """Return the manifests of a topic's subscriptions, whether it exists or not."""
        return list(self._by_topic.get((bus, topic_key), {}).values())

    def forwarding_to(self, bus: ObjectKey, entity_key: str) -> list[EntityView]:
        """Return the manifests that forward to a name, whether it exists or not."""
        return list(self._by_destination.get((bus, entity_key), {}).values())

    def entities_of(self, bus: ObjectKey) -> Mapping[EntityId, EntityView]:
        """Return the manifests that name a bus, whether it exists or not."""
        return self._by_bus.get(bus, {})

    def bus_keys(self) -> set[ObjectKey]:
        """Return every bus that exists or is named by an entity's manifest."""
        return set(self.buses) | set(self._by_bus)

    def replace(
        self,
        buses: Iterable[BusView],
        entities: Iterable[EntityView],
        kinds: Iterable[EntityKind] = tuple(EntityKind),
    ) -> None:
        """Take complete lists, of these kinds of entities, in place of all that is known.

        Manifests that are not in them were deleted unnoticed, and so was their deletionPolicy:
        what they leave is found by the search for orphans.
        """
        self.buses = {view.key: view for view in buses}
        self.kinds = frozenset(kinds)
        self._clear()
        for view in entities:
            self.put_entity(view)
