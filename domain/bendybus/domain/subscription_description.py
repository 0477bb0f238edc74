"""What a subscription of a topic is to be; the limits of its settings are in `descriptions`."""

from dataclasses import dataclass
from typing import ClassVar

from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_status import EntityStatus
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule


@dataclass(frozen=True, slots=True)
class SubscriptionDescription:
    """What a subscription is to be. Durations in milliseconds, None is without end."""

    lock_duration_ms: int = limits.LOCK_DURATION_MS_DEFAULT
    requires_session: bool = False
    # The shorter of this and its topic's counts.
    default_message_time_to_live_ms: int | None = None
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = limits.MAX_DELIVERY_COUNT_DEFAULT
    auto_delete_on_idle_ms: int | None = None
    status: EntityStatus = EntityStatus.ACTIVE
    forward_to: str = ""
    forward_dead_lettered_messages_to: str = ""
    user_metadata: str = ""
    # Which messages of its topic it takes. None: no message.
    rules: tuple[Rule, ...] = rule_set.DEFAULT

    kind: ClassVar = EntityKind.SUBSCRIPTION
    statuses: ClassVar = (EntityStatus.ACTIVE, EntityStatus.DISABLED)

    # What rules of messages read of every entity, and what is the topic's: it looks for duplicates
    # once for all subscriptions, and what they hold counts to its size.
    requires_duplicate_detection: ClassVar[bool] = False
    duplicate_detection_history_time_window_ms: ClassVar[int] = 0
    max_size_in_megabytes: ClassVar[int] = 0
    max_message_size_in_kilobytes: ClassVar[int] = 0
