"""What a topic is to be; the limits of its settings are in `descriptions`."""

from dataclasses import dataclass
from typing import ClassVar

from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_status import EntityStatus


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """What a topic is to be. Durations in milliseconds, None is without end."""

    enable_partitioning: bool = False
    # Of the messages of all its subscriptions together.
    max_size_in_megabytes: int = limits.QUEUE_SIZE_MB_DEFAULT
    # 0: the default of the tier.
    max_message_size_in_kilobytes: int = 0
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_ms: int = limits.DUPLICATE_WINDOW_MS_DEFAULT
    # Of a message in a subscription, the shorter of both counts.
    default_message_time_to_live_ms: int | None = None
    auto_delete_on_idle_ms: int | None = None
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str = ""

    kind: ClassVar = EntityKind.TOPIC
    statuses: ClassVar = (EntityStatus.ACTIVE, EntityStatus.DISABLED)

    # What rules of messages read of every entity, and what a topic has no setting for: messages
    # wait in it only until they are due, and are received from its subscriptions.
    lock_duration_ms: ClassVar[int] = limits.LOCK_DURATION_MS_DEFAULT
    requires_session: ClassVar[bool] = False
    dead_lettering_on_message_expiration: ClassVar[bool] = False
    max_delivery_count: ClassVar[int] = limits.MAX_DELIVERY_COUNT_DEFAULT
    forward_to: ClassVar[str] = ""
    forward_dead_lettered_messages_to: ClassVar[str] = ""
