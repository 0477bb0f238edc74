"""Manifests of Azure Service Operator → resources of Service Bus. Pure.

    kind Namespace                          namespaces
    NamespacesQueue, NamespacesTopic        …/queues, …/topics, of the owner
    NamespacesTopicsSubscription(sRule)     …/subscriptions(/rules)
    …AuthorizationRule                      …/authorizationRules

Settings are in `spec`, by the names that templates have. An owner is another object of the file, by
its name in Kubernetes, or a resource of Azure by its id; `azureName` is the name in Azure.

Source: the custom resources of the operator, versions 2021-01-01-preview to 2024-01-01.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import forms, json_text
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.imports import arm_id
from bendybus.crds.imports.arm_template import Resource

GROUP: Final = "servicebus.azure.com/"
_VERSION: Final = re.compile(
    r"v(1(alpha1|beta|api|alpha1api))?(20210101preview|20211101|20221001preview|20240101)"
)
_POLICIES: Final = "authorizationrules"
# Kinds, by the types of what they make.
KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Namespace": ("namespaces",),
        "NamespacesQueue": ("namespaces", "queues"),
        "NamespacesTopic": ("namespaces", "topics"),
        "NamespacesTopicsSubscription": ("namespaces", "topics", "subscriptions"),
        "NamespacesTopicsSubscriptionsRule": ("namespaces", "topics", "subscriptions", "rules"),
        "NamespacesAuthorizationRule": ("namespaces", _POLICIES),
        "QueueAuthorizationRule": ("namespaces", "queues", _POLICIES),
        "TopicAuthorizationRule": ("namespaces", "topics", _POLICIES),
    }
)
_BY_TYPES: Final = {types: kind for kind, types in KINDS.items()}
_SECRETS: Final = "a bus makes Secrets with its keys itself."
# Fields of `spec` that are no settings.
_ABOUT: Final = ("azureName", "owner", "location", "tags", "operatorSpec", "identity")
_OBJECT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
Document = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of the file."""

    place: str
    types: tuple[str, ...]
    # Kubernetes namespace and name.
    key: tuple[str, str]
    spec: Field

    @property
    def azure_name(self) -> str:
        """The name in Azure."""
        given = self.spec[1].get("azureName") if isinstance(self.spec[1], dict) else None
        return arm_id.entity_name(given) if isinstance(given, str) and given else self.key[1]


def objects(documents: Sequence[Document]) -> list[Document]:
    """Return the objects of documents, those of lists one by one."""
    found: list[Document] = []
    for place, each in documents:
        items = each.get("items") if isinstance(each, dict) else None
        if isinstance(items, list) and str(each.get("kind", "")).endswith("List"):
            found += [(_below(place, f"items[{at}]"), item) for at, item in enumerate(items)]
        else:
            found.append((place, each))
    return found


def _below(place: str, path: str) -> str:
    """Return the place of a path within a document, which is "" for one in JSON."""
    return f"{place}.{path}" if place else path


def is_one(documents: Sequence[Document]) -> bool:
    """Whether there are manifests of the operator among documents."""
    return any(
        isinstance(each, dict) and str(each.get("apiVersion", "")).startswith(GROUP)
        for _, each in objects(documents)
    )


def read(reader: FieldReader, documents: Sequence[Document]) -> list[Resource]:
    """Return the resources. Errors become problems of the reader."""
    return list(_Reader(reader, list(_known(reader, objects(documents)))).resources())


def _known(reader: FieldReader, documents: Sequence[Document]) -> Iterator[_Object]:
    for place, each in documents:
        if not isinstance(each, dict):
            reader.wrong(place, "an object, { … }", each)
            continue
        group, _, version = str(each.get("apiVersion", "")).partition("/")
        kind, at = str(each.get("kind", "")), _below(place, "kind")
        if f"{group}/" != GROUP:
            reader.left_out(place, forms.other(kind or "a document"))
            continue
        if kind not in KINDS:
            reader.not_supported(at, f"{kind!r:.100} is not known here.")
            continue
        _about(reader, place, each)
        if _VERSION.fullmatch(version):
            reader.taken(_below(place, "apiVersion"))
        else:
            reader.changed(
                _below(place, "apiVersion"),
                f"{version!r:.60} is not known here: it is read as v1api20240101.",
            )
        metadata = each.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
            reader.problem(_below(place, "metadata.name"), "is missing. It is required.")
            continue
        spec = each.get("spec")
        if not isinstance(spec, dict):
            reader.wrong(json_text.step(place, "spec"), "an object, { … }", spec)
            continue
        key = str(metadata.get("namespace") or "default"), name
        yield _Object(place, KINDS[kind], key, (json_text.step(place, "spec"), spec))


def _about(reader: FieldReader, place: str, value: Mapping[str, Any]) -> None:
    """Note what an object has beside its settings."""
    for name in value:
        at = json_text.step(place, name)
        if name not in _OBJECT:
            reader.unknown(at, name, _OBJECT)
        elif name == "kind":
            reader.taken(at)
        elif name == "metadata":
            reader.taken(at, "says which object of Kubernetes it is.")
        elif name == "status":
            reader.taken(at, "is what the operator reports.")


class _Reader:
    """One reading."""

    def __init__(self, reader: FieldReader, found: list[_Object]) -> None:
        self._reader = reader
        self._found = found
        self._by_key: dict[tuple[tuple[str, ...], tuple[str, str]], _Object] = {}
        for each in found:
            other = self._by_key.setdefault((each.types, each.key), each)
            if other is not each:
                reader.problem(
                    _below(each.place, "metadata.name"),
                    f"{each.key[1]!r} is already the name of {other.place}. Remove one of them.",
                )

    def resources(self) -> Iterator[Resource]:
        """Yield what the objects make."""
        for each in self._found:
            names = self._names(each)
            at, spec = each.spec
            given = json_text.step(at, "azureName") if "azureName" in spec else ""
            self._reader.written[f"{at}.name"] = given or _below(each.place, "metadata.name")
            self._reader.written[f"{at}.properties"] = at
            if names is not None:
                yield Resource(each.types, names, each.spec[0], self._fields(each))

    def _names(self, found: _Object) -> tuple[str, ...] | None:
        """Return the names from the namespace on; None, with a problem, if one is not known."""
        given = found.spec[1].get("azureName")
        if given is not None and not isinstance(given, str):
            self._reader.wrong(json_text.step(found.spec[0], "azureName"), "text", given)
            return None
        if len(found.types) == 1:
            return (found.azure_name,)
        at, spec = found.spec
        owner, at = spec.get("owner"), json_text.step(at, "owner")
        owner = owner if isinstance(owner, dict) else {}
        by_id, name = owner.get("armId"), owner.get("name")
        if isinstance(by_id, str):
            parsed = arm_id.parse(by_id)
            if parsed is None or parsed[0] != found.types[:-1]:
                self._reader.problem(
                    json_text.step(at, "armId"),
                    f"must be the id of a {_BY_TYPES[found.types[:-1]]} in Azure.",
                )
                return None
            self._reader.taken(at)
            return (*parsed[1], found.azure_name)
        if not isinstance(name, str) or not name:
            self._reader.problem(at, "must have a name, or an armId.")
            return None
        types = found.types[:-1]
        other = self._by_key.get((types, (found.key[0], name)))
        if other is None and len(types) > 1:
            self._reader.problem(
                json_text.step(at, "name"),
                f"is {name!r}, and the file has no {_BY_TYPES[types]} of that name in namespace "
                f"{found.key[0]!r}. Add its manifest.",
            )
            return None
        above = (arm_id.entity_name(name),) if other is None else self._names_of(other)
        if above is None:
            return None
        self._reader.taken(at)
        return (*above, found.azure_name)

    def _names_of(self, other: _Object) -> tuple[str, ...] | None:
        """Return the names of an owner, whose own problems and findings are its own."""
        kept, self._reader = self._reader, FieldReader(self._reader.source)
        try:
            return self._names(other)
        finally:
            self._reader = kept

    def _fields(self, found: _Object) -> dict[str, Field]:
        made: dict[str, Field] = {}
        properties: dict[str, Any] = {}
        at, spec = found.spec
        for name, value in spec.items():
            place = json_text.step(at, name)
            if name == "sku" and len(found.types) == 1:
                made["sku"] = place, value
            elif name not in _ABOUT:
                properties[name] = value
            elif name == "operatorSpec":
                self._reader.not_supported(place, _SECRETS)
            elif name == "azureName":
                if len(found.types) == 1 or found.types[-1] == "rules":
                    # The check of the name notes it.
                    continue
                self._reader.taken(place)
            elif name == "owner":
                if len(found.types) == 1:
                    self._reader.taken(place)
            else:
                self._reader.left_out(place, forms.OF_RESOURCES[name])
        made["properties"] = at, properties
        return made
