"""Topic: the manifest's fields."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt

from bendybus.crds import entity_manifest
from bendybus.crds.bundle import KINDS
from bendybus.crds.entity_manifest import EntityManifest, EntityManifestStatus
from bendybus.crds.manifest import (
    API_VERSION,
    DeletionPolicy,
    Duration,
    ManifestModel,
    NamespaceRef,
)
from bendybus.domain import durations, limits
from bendybus.domain.entity_kind import EntityKind


class TopicSpec(ManifestModel):
    """The desired state of a topic."""

    namespace_ref: entity_manifest.Bus = Field(default_factory=NamespaceRef)
    entity_name: entity_manifest.OptionalName = None
    enable_partitioning: entity_manifest.Partitioning = False
    max_size_in_megabytes: Annotated[
        StrictInt,
        Field(
            ge=1,
            le=limits.PREMIUM_QUEUE_SIZE_MB_MAX,
            description="Of each partition, for all its subscriptions together. Standard: 1024, "
            "2048, 3072, 4096 or 5120.",
        ),
    ] = limits.QUEUE_SIZE_MB_DEFAULT
    max_message_size_in_kilobytes: Annotated[
        StrictInt | None,
        Field(
            ge=1,
            le=limits.PREMIUM_MESSAGE_KB_MAX,
            description="Premium only; default 1024. Standard always allows 256.",
        ),
    ] = None
    default_message_time_to_live: entity_manifest.TimeToLive = durations.FOREVER_ISO
    requires_duplicate_detection: entity_manifest.DuplicateDetection = False
    duplicate_detection_history_time_window: entity_manifest.DuplicateWindow = (
        entity_manifest.DUPLICATE_WINDOW
    )
    auto_delete_on_idle: Annotated[
        Duration,
        Field(
            description="Delete the topic with its subscriptions when none of them was used for "
            "so long; PT5M or more."
        ),
    ] = durations.FOREVER_ISO
    status: Annotated[
        Literal["Active", "Disabled"], Field(description="Whether the topic accepts messages.")
    ] = "Active"
    user_metadata: entity_manifest.UserMetadata = ""
    deletion_policy: Annotated[
        DeletionPolicy,
        Field(
            description="Whether the topic, its subscriptions and their messages are retained "
            "when the manifest is deleted."
        ),
    ] = DeletionPolicy.RETAIN


class TopicStatus(EntityManifestStatus):
    """The observed state of a topic."""

    max_size_in_megabytes_total: int | None = Field(None, description="Per partition × partitions.")
    subscription_count: int | None = Field(None, description="Number of subscriptions.")


class Topic(EntityManifest):
    """A topic of a bus: what is sent to it is received from its subscriptions."""

    ENTITY_KIND: ClassVar[EntityKind] = EntityKind.TOPIC
    KIND: ClassVar[str] = KINDS[ENTITY_KIND]

    api_version: Literal["bendybus.io/v1alpha1"] = API_VERSION
    kind: Literal["Topic"] = "Topic"
    spec: TopicSpec = Field(default_factory=TopicSpec, description="Desired state of the topic.")
    status: TopicStatus | None = Field(None, description="Observed state.")

    @property
    def entity_name(self) -> str:
        """The name on the bus."""
        return self.spec.entity_name or self.metadata.name
