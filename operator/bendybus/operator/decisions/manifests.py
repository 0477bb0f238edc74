"""The manifests of the cluster as the operator knows them: what events and lists brought. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.crds import loading
from bendybus.crds.manifest import DeletionPolicy
from bendybus.crds.namespace_manifest import BusNamespace
from bendybus.crds.queue_manifest import Queue
from bendybus.operator.kubernetes.names import ObjectKey

Body = Mapping[str, Any]
_EMPTY: Final[Mapping[str, Any]] = {}
_NOWHERE: Final = ObjectKey("", "")


@dataclass(frozen=True, slots=True)
class View:
    """What every kind of manifest has. `problems`: sentences, when it is no valid manifest."""

    key: ObjectKey
    uid: str
    generation: int
    annotations: Mapping[str, str]
    deleting: bool
    problems: tuple[str, ...]
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class BusView(View):
    """A BusNamespace."""

    manifest: BusNamespace | None = None


@dataclass(frozen=True, slots=True)
class QueueView(View):
    """A Queue, and the bus it names, which may not exist."""

    manifest: Queue | None = None
    bus: ObjectKey = _NOWHERE

    @property
    def entity_name(self) -> str:
        """The name on the bus; metadata.name when the spec cannot be read."""
        return self.manifest.entity_name if self.manifest else self.key.name

    @property
    def deletion_policy(self) -> DeletionPolicy:
        """What becomes of the messages; Retain when the spec cannot be read."""
        return self.manifest.spec.deletion_policy if self.manifest else DeletionPolicy.RETAIN


def key_of(body: Body) -> ObjectKey:
    """Return namespace and name of an object."""
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _common(body: Body) -> dict[str, Any]:
    metadata = body["metadata"]
    return {
        "key": key_of(body),
        "uid": metadata.get("uid", ""),
        "generation": metadata.get("generation", 0),
        "annotations": dict(metadata.get("annotations") or _EMPTY),
        "deleting": "deletionTimestamp" in metadata,
        "status": body.get("status") or {},
    }


def _parsed(body: Body) -> tuple[Any, tuple[str, ...]]:
    # The status is the operator's own; a field that a later version wrote must not matter.
    document = {name: value for name, value in body.items() if name != "status"}
    result = loading.parse("", document)
    if isinstance(result, loading.Loaded):
        return result.manifest, ()
    return None, tuple(f"{problem.field}: {problem.sentence}" for problem in result)


def bus_view(body: Body) -> BusView:
    """Return what a BusNamespace object says."""
    manifest, problems = _parsed(body)
    return BusView(**_common(body), problems=problems, manifest=manifest)


def queue_view(body: Body) -> QueueView:
    """Return what a Queue object says."""
    manifest, problems = _parsed(body)
    namespace = body["metadata"].get("namespace", "")
    spec = body.get("spec")
    found = spec.get("namespaceRef") if isinstance(spec, Mapping) else None
    reference = found if isinstance(found, Mapping) else _EMPTY
    place, name = reference.get("namespace") or namespace, reference.get("name") or "default"
    bus = ObjectKey(str(place), str(name))
    return QueueView(**_common(body), problems=problems, manifest=manifest, bus=bus)


class World:
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

        Queues that are not in them left while nobody looked: their deletionPolicy was not seen in
        force, and what they leave is found as orphans.
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
