"""A cache of all manifests, filled by events and lists, with the indexes that controllers need."""

from collections.abc import Iterable, Mapping
from typing import Any

from bendybus.operator.decisions.manifests import BusView, QueueView
from bendybus.operator.kubernetes.names import ObjectKey


class ManifestCache:
    """All manifests, with the queues of each bus at hand."""

    def __init__(self) -> None:
        self.buses: dict[ObjectKey, BusView] = {}
        self._queues: dict[ObjectKey, QueueView] = {}
        self._by_bus: dict[ObjectKey, dict[ObjectKey, QueueView]] = {}
        self._by_uid: dict[str, QueueView] = {}
        self._by_name: dict[tuple[ObjectKey, str], dict[ObjectKey, QueueView]] = {}

    def put_bus(self, view: BusView) -> None:
        """Take a BusNamespace."""
        self.buses[view.key] = view

    def drop_bus(self, key: ObjectKey) -> BusView | None:
        """Forget a BusNamespace that was deleted; return what was known."""
        return self.buses.pop(key, None)

    def put_queue(self, view: QueueView) -> QueueView | None:
        """Take a Queue; return what was known before."""
        before = self.drop_queue(view.key)
        self._queues[view.key] = view
        self._by_bus.setdefault(view.bus, {})[view.key] = view
        self._by_name.setdefault(_name(view), {})[view.key] = view
        self._by_uid[view.uid] = view
        return before

    def drop_queue(self, key: ObjectKey) -> QueueView | None:
        """Forget a Queue that was deleted; return what was known."""
        view = self._queues.pop(key, None)
        if view is not None:
            self._by_uid.pop(view.uid, None)
            _discard(self._by_bus, view.bus, key)
            _discard(self._by_name, _name(view), key)
        return view

    def queue(self, key: ObjectKey) -> QueueView | None:
        """Return a Queue, None if there is none."""
        return self._queues.get(key)

    def queues(self) -> Iterable[QueueView]:
        """Return all Queues."""
        return self._queues.values()

    def queue_by_uid(self, uid: str) -> QueueView | None:
        """Return the Queue with this UID, None if there is none."""
        return self._by_uid.get(uid)

    def named(self, bus: ObjectKey, entity_key: str) -> list[QueueView]:
        """Return the Queues that want a name (in lower case) on a bus; more than one may."""
        return list(self._by_name.get((bus, entity_key), {}).values())

    def queues_of(self, bus: ObjectKey) -> Mapping[ObjectKey, QueueView]:
        """Return the Queues that name a bus, whether it exists or not."""
        return self._by_bus.get(bus, {})

    def bus_keys(self) -> set[ObjectKey]:
        """Return every bus that exists or is named by a Queue."""
        return set(self.buses) | set(self._by_bus)

    def replace(self, buses: Iterable[BusView], queues: Iterable[QueueView]) -> None:
        """Take complete lists in place of all that is known.

        Queues that are not in them were deleted unnoticed, and so was their deletionPolicy: what
        they leave is found by the search for orphans.
        """
        self.buses = {view.key: view for view in buses}
        self._queues, self._by_bus, self._by_name, self._by_uid = {}, {}, {}, {}
        for view in queues:
            self.put_queue(view)


def _name(view: QueueView) -> tuple[ObjectKey, str]:
    return view.bus, view.entity_name.lower()


def _discard(index: dict[Any, dict[ObjectKey, QueueView]], group: Any, key: ObjectKey) -> None:
    members = index[group]
    del members[key]
    if not members:
        del index[group]
