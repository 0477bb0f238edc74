"""A cache of all manifests, filled by events and lists, with the indexes that controllers need."""

from collections.abc import Iterable, Mapping
from typing import Any

from bendybus.domain.entity_kind import EntityKind
from bendybus.operator.decisions.manifests import BusView, EntityId, EntityView
from bendybus.operator.kubernetes.names import ObjectKey


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
