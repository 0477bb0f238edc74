"""What a queue is to be; the limits of its settings are in `descriptions`."""

from dataclasses import dataclass
from typing import ClassVar

from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_status import EntityStatus


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """What a queue is to be. Durations in milliseconds, None is without end."""

    enable_partitioning: bool = False
    lock_duration_ms: int = limits.LOCK_DURATION_MS_DEFAULT
    max_size_in_megabytes: int = limits.QUEUE_SIZE_MB_DEFAULT
    # 0: the default of the tier.
    max_message_size_in_kilobytes: int = 0
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_ms: int = limits.DUPLICATE_WINDOW_MS_DEFAULT
    requires_session: bool = False
    default_message_time_to_live_ms: int | None = None
    dead_lettering_on_message_expiration: bool = False
    max_delivery_count: int = limits.MAX_DELIVERY_COUNT_DEFAULT
    auto_delete_on_idle_ms: int | None = None
    status: EntityStatus = EntityStatus.ACTIVE
    forward_to: str = ""
    forward_dead_lettered_messages_to: str = ""
    user_metadata: str = ""

    kind: ClassVar = EntityKind.QUEUE
    statuses: ClassVar = tuple(EntityStatus)
