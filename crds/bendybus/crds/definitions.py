"""The CustomResourceDefinitions: names, columns and rules around the generated schemas.

Immutability is written as CEL transition rules on `spec`, not on the field: a rule on a field is
not evaluated when the field is added or removed.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from bendybus.crds import manifest, schema
from bendybus.crds.entity_manifest import (
    SPECS,
    Queue,
    QueueStatus,
    Subscription,
    SubscriptionStatus,
    Topic,
    TopicStatus,
)
from bendybus.crds.namespace_manifest import BusNamespace, BusNamespaceSpec, BusNamespaceStatus
from bendybus.domain import entity_settings
from bendybus.domain.entity_kind import EntityKind

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


def _immutable(kind: EntityKind) -> tuple[Rule, ...]:
    """Return the rules that a kind's immutable settings keep their values."""
    return tuple(
        _fixed(f"self.{each.manifest_name}", always=True)
        for each in entity_settings.BY_KIND[kind]
        if each.fixed
    )


def _placed(field: str) -> Rule:
    """Return the rule that the name of a queue or a topic is not that of a subscription."""
    return {
        "rule": f"!has(self.{field}) || !(self.{field}.contains('//') || "
        f"self.{field}.matches('(?i)/subscriptions(/|$)'))",
        "message": f"{field} must not contain // or /Subscriptions/.",
    }


_TAIL: Final = (
    _column("Ready", _condition("status")),
    _column("Reason", _condition("reason")),
)
_SIZE: Final = _column("Size", ".status.sizeInBytes", "integer", wide=True)
_COUNTS: Final = (
    _column("Active", ".status.countDetails.activeMessageCount", "integer"),
    _column("DeadLetter", ".status.countDetails.deadLetterMessageCount", "integer"),
    _SIZE,
)
_MAX_SIZE: Final = _column("MaxSizeMB", ".status.maxSizeInMegabytesTotal", "integer", wide=True)
_SCHEDULED: Final = _column(
    "Scheduled", ".status.countDetails.scheduledMessageCount", "integer", wide=True
)
_FORWARDED: Final = (
    _column(
        "TransferDead",
        ".status.countDetails.transferDeadLetterMessageCount",
        "integer",
        wide=True,
    ),
    _column("ForwardTo", ".spec.forwardTo", wide=True),
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
        _column("Topics", ".status.topics", "integer", wide=True),
        *_COUNTS,
        _column("Orphaned", ".status.orphanedCount", "integer", wide=True),
        _column("Secret", ".status.connectionSecret", wide=True),
        _AGE,
    ),
)
_IN_A_BUS: Final = (
    _fixed("self.namespaceRef.name", always=True),
    _fixed("self.namespaceRef.namespace", always=False),
)
QUEUE: Final = Definition(
    model=Queue,
    spec=SPECS[EntityKind.QUEUE],
    status=QueueStatus,
    kind="Queue",
    plural="queues",
    short_name="bq",
    categories=("bendybus", "entities"),
    rules=(
        *_IN_A_BUS,
        _fixed("self.entityName", always=False),
        *_immutable(EntityKind.QUEUE),
        {
            "rule": "!has(self.entityName) || !(self.entityName.contains('//') || "
            "self.entityName.matches('(?i)/subscriptions/'))",
            "message": "entityName must not contain // or /Subscriptions/.",
        },
    ),
    columns=(
        # Not "Namespace": with -A kubectl puts a column of that name in front.
        _column("Bus", ".spec.namespaceRef.name"),
        _column("Partitions", ".status.partitions", "integer"),
        *_TAIL,
        *_COUNTS,
        _MAX_SIZE,
        _SCHEDULED,
        *_FORWARDED,
        _AGE,
    ),
)
TOPIC: Final = Definition(
    model=Topic,
    spec=SPECS[EntityKind.TOPIC],
    status=TopicStatus,
    kind="Topic",
    plural="topics",
    short_name="bt",
    categories=("bendybus", "entities"),
    rules=(
        *_IN_A_BUS,
        _fixed("self.entityName", always=False),
        *_immutable(EntityKind.TOPIC),
        _placed("entityName"),
    ),
    columns=(
        _column("Bus", ".spec.namespaceRef.name"),
        _column("Partitions", ".status.partitions", "integer"),
        *_TAIL,
        _column("Subscriptions", ".status.subscriptionCount", "integer"),
        _SCHEDULED,
        _SIZE,
        _MAX_SIZE,
        _AGE,
    ),
)
SUBSCRIPTION: Final = Definition(
    model=Subscription,
    spec=SPECS[EntityKind.SUBSCRIPTION],
    status=SubscriptionStatus,
    kind="Subscription",
    plural="subscriptions",
    short_name="bsub",
    categories=("bendybus", "entities"),
    rules=(
        *_IN_A_BUS,
        _fixed("self.topicName", always=True),
        _fixed("self.entityName", always=False),
        *_immutable(EntityKind.SUBSCRIPTION),
        _placed("topicName"),
    ),
    columns=(
        _column("Bus", ".spec.namespaceRef.name"),
        _column("Topic", ".spec.topicName"),
        *_TAIL,
        *_COUNTS,
        *_FORWARDED,
        _column("Partitions", ".status.partitions", "integer", wide=True),
        _AGE,
    ),
)
ALL: Final = (BUS_NAMESPACE, QUEUE, TOPIC, SUBSCRIPTION)


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
    # Without a default, a manifest without spec would get past the rules, which stand on it.
    required = {} if "default" in spec else {"required": ["spec"]}
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
                **required,
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
