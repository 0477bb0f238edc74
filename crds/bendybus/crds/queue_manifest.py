"""Queue: the manifest's fields, and their conversion to the domain."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from bendybus.crds.manifest import (
    API_VERSION,
    DeletionPolicy,
    Duration,
    ManifestModel,
    Metadata,
    NamespaceRef,
    Status,
)
from bendybus.domain import descriptions, durations, limits
from bendybus.domain.entity_status import EntityStatus
from bendybus.domain.queue_description import QueueDescription

ENTITY_NAME_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9_])?$"
EntityName = Annotated[StrictStr, Field(max_length=limits.ENTITY_NAME_CHARS_MAX)]


def _iso(milliseconds: int | None) -> str:
    return durations.render(milliseconds)


class QueueSpec(ManifestModel):
    """The desired state of a queue."""

    namespace_ref: NamespaceRef = Field(
        default_factory=NamespaceRef, description="The bus it belongs to. Cannot change."
    )
    entity_name: EntityName | None = Field(
        None,
        min_length=1,
        description="Name on the bus, case-insensitive; default: metadata.name. Cannot change.",
        json_schema_extra={"pattern": ENTITY_NAME_PATTERN},
    )
    enable_partitioning: StrictBool = Field(
        False,
        description="Whether it is spread over all partitions or stored in one. Cannot change.",
    )
    max_size_in_megabytes: StrictInt = Field(
        limits.QUEUE_SIZE_MB_DEFAULT,
        ge=1,
        le=limits.PREMIUM_QUEUE_SIZE_MB_MAX,
        description="Of each partition. Basic and Standard: 1024, 2048, 3072, 4096 or 5120.",
    )
    max_message_size_in_kilobytes: StrictInt | None = Field(
        None,
        ge=1,
        le=limits.PREMIUM_MESSAGE_KB_MAX,
        description="Premium only; default 1024. Basic and Standard always allow 256.",
    )
    lock_duration: Duration = Field(
        _iso(limits.LOCK_DURATION_MS_DEFAULT),
        description="How long a received message stays locked: PT5S to PT5M.",
    )
    default_message_time_to_live: Duration = Field(
        durations.FOREVER_ISO, description="Maximum time to live of messages."
    )
    max_delivery_count: StrictInt = Field(
        limits.MAX_DELIVERY_COUNT_DEFAULT,
        ge=1,
        le=limits.MAX_DELIVERY_COUNT_MAX,
        description="Number of deliveries without settlement before a message is dead-lettered.",
    )
    requires_duplicate_detection: StrictBool = Field(
        False, description="Drop messages with a known MessageId. Cannot change."
    )
    duplicate_detection_history_time_window: Duration = Field(
        _iso(limits.DUPLICATE_WINDOW_MS_DEFAULT),
        description="How long MessageIds are remembered: PT20S to P7D.",
    )
    requires_session: StrictBool = Field(
        False, description="Receive messages by session, in order. Cannot change."
    )
    dead_lettering_on_message_expiration: StrictBool = Field(
        False, description="Whether expired messages are dead-lettered or dropped."
    )
    forward_to: EntityName | None = Field(None, description="Reserved until forwarding exists.")
    forward_dead_lettered_messages_to: EntityName | None = Field(
        None, description="Reserved until forwarding exists."
    )
    auto_delete_on_idle: Duration = Field(
        durations.FOREVER_ISO,
        description="Delete the queue when it was not used for so long; PT5M or more.",
    )
    status: EntityStatus = Field(
        EntityStatus.ACTIVE, description="Which operations the queue accepts."
    )
    user_metadata: StrictStr = Field(
        "", max_length=limits.USER_METADATA_CHARS_MAX, description="Free text."
    )
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.RETAIN,
        description="Whether messages are retained when the manifest is deleted.",
    )


class QueueStatus(Status):
    """The observed state of a queue."""

    entity_uid: StrictStr | None = Field(
        None, description="UID of the data; differs from metadata.uid if it was adopted."
    )
    home_partition: int | None = Field(None, description="Partition that stores a plain queue.")
    max_size_in_megabytes_total: int | None = Field(None, description="Per partition × partitions.")


class Queue(ManifestModel):
    """A queue of a bus."""

    KIND: ClassVar[str] = "Queue"

    api_version: Literal["bendybus.io/v1alpha1"] = API_VERSION
    kind: Literal["Queue"] = "Queue"
    metadata: Metadata
    spec: QueueSpec = Field(default_factory=QueueSpec, description="Desired state of the queue.")
    status: QueueStatus | None = Field(None, description="Observed state.")

    @property
    def entity_name(self) -> str:
        """The name on the bus."""
        return self.spec.entity_name or self.metadata.name


# Durations that may be without end.
_ENDLESS: Final = ("default_message_time_to_live_ms", "auto_delete_on_idle_ms")


def to_description(spec: QueueSpec) -> QueueDescription:
    """Return the domain's description of the queue; not validated yet."""
    values: dict[str, Any] = {}
    for field, manifest_name in descriptions.manifest_names(QueueDescription).items():
        value = getattr(spec, field.removesuffix("_ms"))
        if field.endswith("_ms"):
            value = durations.parse(manifest_name, value)
            if value is None and field not in _ENDLESS:
                value = limits.TIME_TO_LIVE_MS_MAX
        elif isinstance(value, StrEnum):
            value = EntityStatus(value)
        if value is not None or field.endswith("_ms"):
            values[field] = value
    return QueueDescription(**values)
