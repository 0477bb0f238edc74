"""An API server in memory: what the operator relies on, with the same refusals.

Server-side apply keeps what each manager applied: a field that its manager leaves out goes, unless
another applied it, too. Lists are replaced whole, but for those with a `name` in each item.
"""

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from bendybus.operator.decisions.storage import amount
from bendybus.operator.kubernetes.api import KINDS, ApiError, Changes
from bendybus.operator.kubernetes.names import MANAGER

Body = dict[str, Any]
Key = tuple[str, str, str]
_FIXED: Final = ("volumeClaimTemplates", "serviceName", "podManagementPolicy", "selector")


class MemoryKubernetesApi:
    """Objects by kind, namespace and name. `changed` is called as a watch would."""

    def __init__(self) -> None:
        self.objects: dict[Key, Body] = {}
        self.watchers: list[Callable[[str, Body], None]] = []
        self.calls: list[tuple[str, str, str]] = []
        # (verb, kind) → what is raised; kind "" is every kind.
        self.refusals: dict[tuple[str, str], ApiError] = {}
        self.expandable = True
        # How often a StatefulSet deleted without its pods is still seen.
        self.lingers = 0
        self._applied: dict[Key, dict[str, Body]] = {}
        self._versions = itertools.count(1)
        self._lingering: dict[Key, int] = {}

    # KubernetesApi

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Return an object, None if there is none."""
        self._called("get", kind, name)
        key = (kind, namespace, name)
        if self._lingering.get(key, 0) > 0:
            self._lingering[key] -= 1
            if not self._lingering[key]:
                self._drop(key, orphan=True)
        return copy.deepcopy(self.objects.get(key))

    async def list(self, kind: str, namespace: str = "", *, labels: str = "") -> list[Body]:
        """Return all objects of a kind that have the labels."""
        self._called("list", kind, "")
        wanted = dict(part.split("=") for part in labels.split(",") if part)
        return [
            copy.deepcopy(body)
            for (of_kind, place, _), body in self.objects.items()
            if of_kind == kind
            and namespace in ("", place)
            and wanted.items() <= (body["metadata"].get("labels") or {}).items()
        ]

    async def statuses(
        self, kind: str, namespace: str, *, labels: str, most: int
    ) -> Sequence[Body]:
        """Return name and status of up to `most` objects that have the labels."""
        found = await self.list(kind, namespace, labels=labels)
        return [
            {"metadata": {"name": body["metadata"]["name"]}, "status": body.get("status") or {}}
            for body in found[:most]
        ]

    async def watch(self, kind: str, namespace: str, *, labels: str, version: str) -> Changes:
        """Refuse: what changes here is told to `watchers`."""
        raise ApiError(405, f"{kind}s are not watched here")

    async def apply(self, body: Body, *, subresource: str = "", manager: str = MANAGER) -> Body:
        """Apply an object server-side."""
        key = _key(body)
        verb = f"apply-{subresource}" if subresource else "apply"
        self._called(verb, *key[::2])
        body = copy.deepcopy(body)
        precondition = {
            name: body["metadata"].pop(name)
            for name in ("uid", "resourceVersion")
            if name in body["metadata"]
        }
        old = self.objects.get(key)
        if old is None and subresource:
            raise ApiError(404, f"{key[0]} {key[2]!r} not found")
        metadata = (old or {"metadata": {}})["metadata"]
        if old is not None and any(metadata[n] != value for n, value in precondition.items()):
            raise ApiError(409, "the object has been modified")
        new = copy.deepcopy(old) if old is not None else {}
        applied = self._applied.setdefault(key, {})
        applied[manager], before = body, applied.get(manager, {})
        others = [each for name, each in applied.items() if name != manager]
        _remove(new, before, body, others)
        _merge(new, body)
        if not subresource:
            _check(key, old, new)
        return self._store(key, old, new)

    async def create(self, body: Body) -> Body:
        """Make an object; 409 if it exists."""
        key = _key(body)
        self._called("create", *key[::2])
        if key in self.objects:
            raise ApiError(409, f"{key[0]} {key[2]!r} already exists")
        return self._store(key, None, copy.deepcopy(body))

    async def merge(self, kind: str, namespace: str, name: str, patch: Body) -> Body:
        """Merge a patch into an object."""
        self._called("merge", kind, name)
        old = self.objects.get((kind, namespace, name))
        if old is None:
            raise ApiError(404, f"{kind} {name!r} not found")
        new = copy.deepcopy(old)
        _merge(new, patch)
        if kind == "PersistentVolumeClaim" and not self.expandable:
            sizes = [
                amount(each["spec"]["resources"]["requests"]["storage"]) for each in (old, new)
            ]
            if sizes[0] != sizes[1]:
                raise ApiError(403, "only dynamically provisioned pvc can be resized")
        return self._store((kind, namespace, name), old, new)

    async def delete(self, kind: str, namespace: str, name: str, *, orphan: bool = False) -> None:
        """Delete an object and, unless `orphan`, what it owns; none is fine."""
        self._called("delete", kind, name)
        key = (kind, namespace, name)
        if key not in self.objects:
            return
        if orphan and self.lingers:
            self._lingering.setdefault(key, self.lingers)
            return
        self._drop(key, orphan=orphan)

    # What others do

    def put(self, body: Body) -> Body:
        """Write an object as a user with kubectl would: whole, with a generation."""
        key = _key(body)
        old = self.objects.get(key)
        new = copy.deepcopy(body)
        if old is not None:
            for name in ("uid", "generation"):
                new["metadata"][name] = old["metadata"][name]
            if "status" in old:
                new["status"] = old["status"]
        return self._store(key, old, new)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object as a user would."""
        self._drop((kind, namespace, name))

    def one(self, kind: str, name: str, namespace: str = "shop") -> Body:
        """Return an object that must be there."""
        return copy.deepcopy(self.objects[kind, namespace, name])

    def of_kind(self, kind: str) -> set[str]:
        """Return the names of the objects of a kind."""
        return {name for of_kind, _, name in self.objects if of_kind == kind}

    # Inside

    def _called(self, verb: str, kind: str, name: str) -> None:
        assert kind in KINDS
        self.calls.append((verb, kind, name))
        for key in ((verb, kind), (verb, ""), ("", kind), ("", "")):
            if key in self.refusals:
                raise self.refusals[key]

    def _store(self, key: Key, old: Body | None, new: Body) -> Body:
        metadata = new["metadata"]
        if old is not None and _content(old) == _content(new):
            return copy.deepcopy(old)
        if old is None:
            if key[1] and key[0] != "Namespace" and ("Namespace", "", key[1]) not in self.objects:
                raise ApiError(404, f"namespaces {key[1]!r} not found")
            if "generateName" in metadata:
                metadata["name"] = metadata["generateName"] + str(len(self.objects))
                key = (key[0], key[1], metadata["name"])
            metadata.setdefault("uid", f"uid-{next(self._versions)}")
            metadata["generation"] = metadata.get("generation", 1)
        elif {**old.get("spec", {}), **_data(old)} != {**new.get("spec", {}), **_data(new)}:
            metadata["generation"] = old["metadata"].get("generation", 1) + 1
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[key] = new
        self._tell("MODIFIED" if old is not None else "ADDED", new)
        return copy.deepcopy(new)

    def _drop(self, key: Key, *, orphan: bool = False) -> None:
        body = self.objects.pop(key, None)
        if body is None:
            return
        self._applied.pop(key, None)
        self._tell("DELETED-ORPHANING" if orphan else "DELETED", body)
        for other, owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences") or []
            if not orphan and any(o["uid"] == body["metadata"]["uid"] for o in owners):
                self._drop(other)

    def _tell(self, change: str, body: Body) -> None:
        for watcher in list(self.watchers):
            watcher(change, copy.deepcopy(body))


def _key(body: Body) -> Key:
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata.get("name", "")


def _content(body: Body) -> Body:
    metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
    return {**body, "metadata": metadata}


def _data(body: Body) -> Body:
    return {f"data.{name}": value for name, value in (body.get("data") or {}).items()}


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, dict) and "name" in v for v in value)


def _merge(into: Body, patch: Body) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        elif name == "webhooks" and _named(value):
            known = {each["name"]: each for each in into.setdefault(name, [])}
            for each in value:
                _merge(known[each["name"]], each)
        else:
            into[name] = copy.deepcopy(value)


def _remove(target: Body, before: Body, now: Body, others: list[Body]) -> None:
    """Remove what the manager applied before and does not now, if nobody else applied it."""
    for name, value in before.items():
        rest = [each[name] for each in others if name in each]
        if name not in now:
            if not rest:
                target.pop(name, None)
        elif isinstance(value, dict) and isinstance(now[name], dict) and name in target:
            maps = [each for each in rest if isinstance(each, dict)]
            _remove(target[name], value, now[name], maps)


def _check(key: Key, old: Body | None, new: Body) -> None:
    if key[0] == "StatefulSet" and old is not None:
        for name in _FIXED:
            if old["spec"].get(name) != new["spec"].get(name):
                raise ApiError(422, f"StatefulSet {key[2]!r} is invalid: spec.{name}: Forbidden")
    if key[0] == "Secret" and old is not None and old.get("type") != new.get("type"):
        raise ApiError(422, f"Secret {key[2]!r} is invalid: type: field is immutable")
