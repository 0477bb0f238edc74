"""Typed views of the manifests that the API server holds. Deterministic; does no I/O."""

from collections.abc import Mapping
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
    """What every kind of manifest has. `problems`: sentences, if it is invalid."""

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
        """What happens to the messages; Retain if the spec cannot be read."""
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
    # The status is the operator's own; unknown fields of later versions in it are ignored.
    document = {name: value for name, value in body.items() if name != "status"}
    result = loading.parse("", document)
    if isinstance(result, loading.Loaded):
        return result.manifest, ()
    return None, tuple(f"{problem.field}: {problem.sentence}" for problem in result)


def bus_view(body: Body) -> BusView:
    """Return the view of a BusNamespace object."""
    manifest, problems = _parsed(body)
    return BusView(**_common(body), problems=problems, manifest=manifest)


def queue_view(body: Body) -> QueueView:
    """Return the view of a Queue object."""
    manifest, problems = _parsed(body)
    namespace = body["metadata"].get("namespace", "")
    spec = body.get("spec")
    found = spec.get("namespaceRef") if isinstance(spec, Mapping) else None
    reference = found if isinstance(found, Mapping) else _EMPTY
    place, name = reference.get("namespace") or namespace, reference.get("name") or "default"
    bus = ObjectKey(str(place), str(name))
    return QueueView(**_common(body), problems=problems, manifest=manifest, bus=bus)
