"""BusNamespace: a bus; its number of partitions is fixed when it is created."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from bendybus.crds.manifest import (
    API_VERSION,
    DeletionPolicy,
    KubernetesName,
    ManifestModel,
    Metadata,
    NamespaceName,
    Quantity,
    Status,
)
from bendybus.domain import limits, partitioning
from bendybus.domain.limits import Tier

_COUNTS: Final = ", ".join(str(count) for count in limits.PREMIUM_PARTITION_COUNTS)


def _check_partitions(value: Any) -> Any:
    if value is not None and (
        isinstance(value, bool) or value not in limits.PREMIUM_PARTITION_COUNTS
    ):
        raise ValueError(f"{value!r} is not one of {_COUNTS}.")
    return value


class Sku(ManifestModel):
    """The messaging tier."""

    tier: Tier = Field(Tier.STANDARD, description="Basic and Standard have 16 partitions.")


class Storage(ManifestModel):
    """The volume of each partition."""

    size: Quantity = Field("10Gi", description="Of each partition's volume.")
    storage_class_name: KubernetesName | None = Field(
        None, description="Default: that of the cluster. Cannot change."
    )


class Resources(ManifestModel):
    """Resource requests and limits of a container."""

    requests: dict[str, Quantity] = Field(default_factory=dict, description="Requested amounts.")
    limits: dict[str, Quantity] = Field(default_factory=dict, description="Upper limits.")


class Right(StrEnum):
    """What the holder of a key may do; Manage includes the others."""

    LISTEN = "Listen"
    SEND = "Send"
    MANAGE = "Manage"


class AuthorizationRule(ManifestModel):
    """A shared access policy; its two keys are in the Secret <bus>-<name in lower case>."""

    name: Annotated[
        StrictStr,
        Field(min_length=1, max_length=50, pattern=r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$"),
    ] = Field(description="SharedAccessKeyName in connection strings.")
    rights: list[Right] = Field(
        min_length=1, max_length=3, description="Listen, Send, Manage (which includes both)."
    )
    entity: StrictStr | None = Field(
        None,
        min_length=1,
        max_length=260,
        description="Only this queue or topic; default: the whole bus.",
    )


class Autoscaling(ManifestModel):
    """Autoscaling of front ends by load; needs a metrics-server in the cluster."""

    min_replicas: StrictInt = Field(2, ge=1, le=100, description="Minimum number of pods.")
    max_replicas: StrictInt = Field(10, ge=1, le=100, description="Maximum number of pods.")
    target_cpu_utilization: StrictInt = Field(
        70, ge=1, le=100, description="Target usage in percent of the requested CPU."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Autoscaling":
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"minReplicas {self.min_replicas} is more than maxReplicas {self.max_replicas}."
            )
        return self


class Frontend(ManifestModel):
    """The stateless gateways in front of the partitions."""

    replicas: StrictInt = Field(2, ge=1, le=100, description="Number of pods.")
    resources: Resources = Field(default_factory=Resources, description="Of each pod.")
    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        "ClusterIP", description="Type of the Service for clients."
    )
    autoscaling: Autoscaling | None = Field(
        None, description="Scale the number of pods by load; replicas is then ignored."
    )
    host_names: list[KubernetesName] = Field(
        default_factory=list,
        max_length=20,
        description="Additional host names for clients; added to its certificate. If there are "
        "any, access tokens must be for one of them, or for a name of the Service.",
    )
    amqp_idle_limits: StrictBool = Field(
        False,
        description="Detach AMQP links after 10 idle minutes, and close connections after 5 "
        "minutes without a link, as Azure does. Otherwise both stay.",
    )


class Partitions(ManifestModel):
    """The pods that store messages; their number follows from the tier."""

    resources: Resources = Field(default_factory=Resources, description="Of each pod.")


class BusNamespaceSpec(ManifestModel):
    """The desired state of a bus."""

    sku: Sku = Field(default_factory=Sku, description="Messaging tier. Cannot change.")
    premium_messaging_partitions: Annotated[
        StrictInt | None, BeforeValidator(_check_partitions)
    ] = Field(
        None,
        description="Number of partitions of every entity; Premium only; default 1 (none). "
        "Cannot change.",
        json_schema_extra={"enum": list(limits.PREMIUM_PARTITION_COUNTS)},
    )
    storage: Storage = Field(default_factory=Storage, description="Volume of each partition.")
    frontend: Frontend = Field(default_factory=Frontend, description="Gateways.")
    partitions: Partitions = Field(default_factory=Partitions, description="Partition servers.")
    image: StrictStr | None = Field(
        None, max_length=1024, description="Container image; default: the operator's own."
    )
    allowed_namespaces: list[NamespaceName] = Field(
        default_factory=list,
        max_length=1000,
        description="Kubernetes namespaces whose queues, topics and subscriptions it accepts, "
        "also subscriptions of other namespaces' topics; default: its own.",
    )
    authorization_rules: list[AuthorizationRule] = Field(
        default_factory=list,
        max_length=limits.AUTHORIZATION_RULES_MAX,
        description="Shared access policies in addition to RootManageSharedAccessKey.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.RETAIN,
        description="Whether the data is retained when the manifest is deleted.",
    )

    @model_validator(mode="after")
    def _only_premium_chooses(self) -> "BusNamespaceSpec":
        if self.premium_messaging_partitions is not None and self.sku.tier is not Tier.PREMIUM:
            raise ValueError(
                f"premiumMessagingPartitions can be set only with sku.tier Premium; {self.sku.tier}"
                f" always has {limits.STANDARD_PARTITION_COUNT} partitions. Leave it out."
            )
        return self


class BusNamespaceStatus(Status):
    """The observed state of a bus."""

    ready_partitions: int | None = Field(None, description="Number of partitions that answer.")
    endpoint: StrictStr | None = Field(None, description="Endpoint for clients.")
    connection_secret: StrictStr | None = Field(
        None, description="Secret with the connection string of RootManageSharedAccessKey."
    )
    queues: int | None = Field(None, description="Number of queues.")
    topics: int | None = Field(None, description="Number of topics.")
    subscriptions: int | None = Field(None, description="Number of subscriptions of all topics.")
    orphaned_count: int | None = Field(
        None, description="Number of orphaned entities: without a manifest, messages retained."
    )
    orphaned: list[StrictStr] = Field(
        default_factory=list, description="Names of the first 20 of them: adopt or purge each."
    )


class BusNamespace(ManifestModel):
    """A bus: front ends, and partitions that each store their share of every entity."""

    KIND: ClassVar[str] = "BusNamespace"

    api_version: Literal["bendybus.io/v1alpha1"] = API_VERSION
    kind: Literal["BusNamespace"] = "BusNamespace"
    metadata: Metadata
    spec: BusNamespaceSpec = Field(
        default_factory=BusNamespaceSpec, description="Desired state of the bus."
    )
    status: BusNamespaceStatus | None = Field(None, description="Observed state.")

    @property
    def tier(self) -> Tier:
        """The messaging tier."""
        return self.spec.sku.tier

    @property
    def partition_count(self) -> int:
        """How many partitions the bus runs."""
        return partitioning.namespace_partition_count(
            self.tier, self.spec.premium_messaging_partitions
        )
