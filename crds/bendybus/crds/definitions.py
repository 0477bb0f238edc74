"""The CustomResourceDefinitions: names, columns and rules around the generated schemas.

Immutability is written as CEL transition rules on `spec`, not on the field: a rule on a field is
not evaluated when the field is added or removed.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from bendybus.crds import manifest, schema
from bendybus.crds.namespace_manifest import BusNamespace, BusNamespaceSpec, BusNamespaceStatus
from bendybus.crds.queue_manifest import Queue, QueueSpec, QueueStatus
from bendybus.domain import descriptions
from bendybus.domain.queue_description import QueueDescription

Rule = dict[str, str]
Column = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind and all that its CRD says beside the schema."""

    model: type[BaseModel]
    spec: type[BaseModel]
    status: type[BaseModel]
    kind: str
    plural: str
    short_name: str
    categories: tuple[str, ...]
    rules: tuple[Rule, ...]
    columns: tuple[Column, ...]


def _fixed(path: str, *, always: bool) -> Rule:
    """Return the rule that `path` keeps its value; `always`: the schema gives it one."""
    field = path.removeprefix("self.")
    # `namespace` is a word of CEL itself; Kubernetes spells such fields with underscores.
    path = re.sub(r"\.namespace$", ".__namespace__", path)
    old = path.replace("self.", "oldSelf.", 1)
    same = f"{path} == {old}"
    if not always:
        same = f"has({path}) == has({old}) && (!has({path}) || {same})"
    return {
        "rule": same,
        "message": f"{field} cannot change after creation. Make a new one of another name.",
    }


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Column:
    column: Column = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": 1} if wide else column


def _condition(field: str) -> str:
    return f".status.conditions[?(@.type=='Ready')].{field}"


def _not_yet() -> tuple[Rule, ...]:
    """Return the rules that refuse fields whose behaviour does not exist, as the domain does."""
    rules = []
    for name in descriptions.NOT_YET:
        field = descriptions.manifest_names(QueueDescription)[name]
        is_flag = isinstance(getattr(QueueDescription(), name), bool)
        unset = f"!self.{field}" if is_flag else f"self.{field} == ''"
        rules.append(
            {
                "rule": f"!has(self.{field}) || {unset}",
                "message": f"{field} is not supported yet. Omit it.",
            }
        )
    return tuple(rules)


_TAIL: Final = (
    _column("Ready", _condition("status")),
    _column("Reason", _condition("reason")),
)
_COUNTS: Final = (
    _column("Active", ".status.countDetails.activeMessageCount", "integer"),
    _column("DeadLetter", ".status.countDetails.deadLetterMessageCount", "integer"),
    _column("Size", ".status.sizeInBytes", "integer", wide=True),
)
_AGE: Final = _column("Age", ".metadata.creationTimestamp", "date")

BUS_NAMESPACE: Final = Definition(
    model=BusNamespace,
    spec=BusNamespaceSpec,
    status=BusNamespaceStatus,
    kind="BusNamespace",
    plural="busnamespaces",
    short_name="bns",
    categories=("bendybus",),
    rules=(
        _fixed("self.sku.tier", always=True),
        _fixed("self.premiumMessagingPartitions", always=False),
        _fixed("self.storage.storageClassName", always=False),
        {
            "rule": "!has(self.premiumMessagingPartitions) || self.sku.tier == 'Premium'",
            "message": "premiumMessagingPartitions can be set only with sku.tier Premium.",
        },
    ),
    columns=(
        _column("Tier", ".spec.sku.tier"),
        _column("Partitions", ".status.partitions", "integer"),
        *_TAIL,
        _column("Queues", ".status.queues", "integer"),
        *_COUNTS,
        _column("Orphaned", ".status.orphanedCount", "integer", wide=True),
        _column("Secret", ".status.connectionSecret", wide=True),
        _AGE,
    ),
)
QUEUE: Final = Definition(
    model=Queue,
    spec=QueueSpec,
    status=QueueStatus,
    kind="Queue",
    plural="queues",
    short_name="bq",
    categories=("bendybus", "entities"),
    rules=(
        _fixed("self.namespaceRef.name", always=True),
        _fixed("self.namespaceRef.namespace", always=False),
        _fixed("self.entityName", always=False),
        _fixed("self.enablePartitioning", always=True),
        _fixed("self.requiresDuplicateDetection", always=True),
        _fixed("self.requiresSession", always=True),
        {
            "rule": "!has(self.entityName) || !(self.entityName.contains('//') || "
            "self.entityName.matches('(?i)/subscriptions/'))",
            "message": "entityName must not contain // or /Subscriptions/.",
        },
        *_not_yet(),
    ),
    columns=(
        # Not "Namespace": with -A kubectl puts a column of that name in front.
        _column("Bus", ".spec.namespaceRef.name"),
        _column("Partitions", ".status.partitions", "integer"),
        *_TAIL,
        *_COUNTS,
        _AGE,
    ),
)
ALL: Final = (BUS_NAMESPACE, QUEUE)


def crd(definition: Definition) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{manifest.GROUP}"},
        "spec": {
            "group": manifest.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.kind.lower(),
                "shortNames": [definition.short_name],
                "categories": list(definition.categories),
            },
            "versions": [_version(definition)],
        },
    }


def _version(definition: Definition) -> dict[str, Any]:
    spec = schema.structural(definition.spec)
    spec["x-kubernetes-validations"] = list(definition.rules)
    return {
        "name": manifest.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(definition.columns),
        "schema": {
            "openAPIV3Schema": {
                "description": (definition.model.__doc__ or "").strip(),
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": spec,
                    "status": schema.structural(definition.status, defaults=False),
                },
            }
        },
    }
