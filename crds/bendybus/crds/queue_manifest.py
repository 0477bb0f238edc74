"""Queue: the manifest's fields."""

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
from bendybus.domain.entity_status import EntityStatus


class QueueSpec(ManifestModel):
    """The desired state of a queue."""

    namespace_ref: entity_manifest.Bus = Field(default_factory=NamespaceRef)
    entity_name: entity_manifest.OptionalName = None
    enable_partitioning: entity_manifest.Partitioning = False
    max_size_in_megabytes: Annotated[
        StrictInt,
        Field(
            ge=1,
            le=limits.PREMIUM_QUEUE_SIZE_MB_MAX,
            description="Of each partition. Basic and Standard: 1024, 2048, 3072, 4096 or 5120.",
        ),
    ] = limits.QUEUE_SIZE_MB_DEFAULT
    max_message_size_in_kilobytes: entity_manifest.MessageSize = None
    lock_duration: entity_manifest.LockDuration = entity_manifest.LOCK_DURATION
    default_message_time_to_live: entity_manifest.TimeToLive = durations.FOREVER_ISO
    max_delivery_count: entity_manifest.DeliveryCount = limits.MAX_DELIVERY_COUNT_DEFAULT
    requires_duplicate_detection: entity_manifest.DuplicateDetection = False
    duplicate_detection_history_time_window: entity_manifest.DuplicateWindow = (
        entity_manifest.DUPLICATE_WINDOW
    )
    requires_session: entity_manifest.Sessions = False
    dead_lettering_on_message_expiration: entity_manifest.DeadLetterExpired = False
    forward_to: entity_manifest.Forwarding = None
    forward_dead_lettered_messages_to: entity_manifest.DeadLetterForwarding = None
    auto_delete_on_idle: Annotated[
        Duration,
        Field(description="Delete the queue when it was not used for so long; PT5M or more."),
    ] = durations.FOREVER_ISO
    status: Annotated[EntityStatus, Field(description="Which operations the queue accepts.")] = (
        EntityStatus.ACTIVE
    )
    user_metadata: entity_manifest.UserMetadata = ""
    deletion_policy: entity_manifest.Deletion = DeletionPolicy.RETAIN


class QueueStatus(EntityManifestStatus):
    """The observed state of a queue."""

    max_size_in_megabytes_total: int | None = Field(None, description="Per partition × partitions.")


class Queue(EntityManifest):
    """A queue of a bus."""

    ENTITY_KIND: ClassVar[EntityKind] = EntityKind.QUEUE
    KIND: ClassVar[str] = KINDS[ENTITY_KIND]

    api_version: Literal["bendybus.io/v1alpha1"] = API_VERSION
    kind: Literal["Queue"] = "Queue"
    spec: QueueSpec = Field(default_factory=QueueSpec, description="Desired state of the queue.")
    status: QueueStatus | None = Field(None, description="Observed state.")

    @property
    def entity_name(self) -> str:
        """The name on the bus."""
        return self.spec.entity_name or self.metadata.name
