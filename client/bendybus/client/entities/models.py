"""The models of administration clients, with the attribute names of azure-servicebus."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from bendybus.client.mapping import MappingMixin


class AccessRights(str, Enum):
    """A right that a key gives."""

    MANAGE = "Manage"
    SEND = "Send"
    LISTEN = "Listen"


class ApiVersion(str, Enum):
    """Accepted for compatibility; Bendybus has one version."""

    V2024_05 = "2024-05"
    V2021_05 = "2021-05"
    V2017_04 = "2017-04"


class EntityAvailabilityStatus(str, Enum):
    """Whether all partitions of an entity answer."""

    AVAILABLE = "Available"
    LIMITED = "Limited"
    RENAMING = "Renaming"
    RESTORING = "Restoring"
    UNKNOWN = "Unknown"


class EntityStatus(str, Enum):
    """Whether an entity can be sent to and received from."""

    ACTIVE = "Active"
    CREATING = "Creating"
    DELETING = "Deleting"
    DISABLED = "Disabled"
    RECEIVE_DISABLED = "ReceiveDisabled"
    RENAMING = "Renaming"
    RESTORING = "Restoring"
    SEND_DISABLED = "SendDisabled"
    UNKNOWN = "Unknown"


class MessagingSku(str, Enum):
    """Tier of a namespace."""

    BASIC = "Basic"
    STANDARD = "Standard"
    PREMIUM = "Premium"


class NamespaceType(str, Enum):
    """The kind of a namespace."""

    MESSAGING = "Messaging"
    NOTIFICATION_HUB = "NotificationHub"
    MIXED = "Mixed"
    EVENT_HUB = "EventHub"
    RELAY = "Relay"


class AuthorizationRule:
    """A policy on a queue or topic: its keys and their rights. Keys that are None are made."""

    def __init__(
        self,
        *,
        type: str | None = None,
        claim_type: str | None = None,
        claim_value: str | None = None,
        rights: list[str | AccessRights] | None = None,
        created_at_utc: datetime | None = None,
        modified_at_utc: datetime | None = None,
        key_name: str | None = None,
        primary_key: str | None = None,
        secondary_key: str | None = None,
    ) -> None:
        self.type = type
        self.claim_type = claim_type
        self.claim_value = claim_value
        self.rights = rights
        self.created_at_utc = created_at_utc
        self.modified_at_utc = modified_at_utc
        self.key_name = key_name
        self.primary_key = primary_key
        self.secondary_key = secondary_key


class MessageCountDetails:
    """Message counts by state."""

    def __init__(
        self,
        *,
        active_message_count: int | None = None,
        dead_letter_message_count: int | None = None,
        scheduled_message_count: int | None = None,
        transfer_dead_letter_message_count: int | None = None,
        transfer_message_count: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.active_message_count = active_message_count
        self.dead_letter_message_count = dead_letter_message_count
        self.scheduled_message_count = scheduled_message_count
        self.transfer_dead_letter_message_count = transfer_dead_letter_message_count
        self.transfer_message_count = transfer_message_count

    def __str__(self) -> str:
        return str(self.__dict__)


class SqlRuleFilter:
    """A filter in the SQL rule language."""

    def __init__(
        self, sql_expression: str | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        self.sql_expression = sql_expression
        self.parameters = parameters
        self.requires_preprocessing = True


class TrueRuleFilter(SqlRuleFilter):
    """A filter that matches every message."""

    def __init__(self) -> None:
        super().__init__("1=1")


class FalseRuleFilter(SqlRuleFilter):
    """A filter that matches no message."""

    def __init__(self) -> None:
        super().__init__("1>1")


class SqlRuleAction:
    """An action in the SQL rule language."""

    def __init__(
        self, sql_expression: str | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        self.sql_expression = sql_expression
        self.parameters = parameters
        self.requires_preprocessing = True


class CorrelationRuleFilter:
    """A filter by equal properties."""

    def __init__(
        self,
        *,
        correlation_id: str | None = None,
        message_id: str | None = None,
        to: str | None = None,
        reply_to: str | None = None,
        label: str | None = None,
        session_id: str | None = None,
        reply_to_session_id: str | None = None,
        content_type: str | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.correlation_id = correlation_id
        self.message_id = message_id
        self.to = to
        self.reply_to = reply_to
        self.label = label
        self.session_id = session_id
        self.reply_to_session_id = reply_to_session_id
        self.content_type = content_type
        self.properties = properties


@dataclass(eq=False, repr=False, kw_only=True)
class QueueProperties(MappingMixin):
    """The properties of a queue. Durations are timedelta or ISO-8601 text."""

    name: str = field(kw_only=False)
    authorization_rules: list[AuthorizationRule] | None
    auto_delete_on_idle: timedelta | str | None
    dead_lettering_on_message_expiration: bool | None
    default_message_time_to_live: timedelta | str | None
    duplicate_detection_history_time_window: timedelta | str | None
    availability_status: str | None
    enable_batched_operations: bool | None
    enable_express: bool | None
    enable_partitioning: bool | None
    lock_duration: timedelta | str | None
    max_delivery_count: int | None
    max_size_in_megabytes: int | None
    requires_duplicate_detection: bool | None
    requires_session: bool | None
    status: str | None
    forward_to: str | None
    user_metadata: str | None
    forward_dead_lettered_messages_to: str | None
    max_message_size_in_kilobytes: int | None


@dataclass(eq=False, repr=False, kw_only=True)
class TopicProperties(MappingMixin):
    """The properties of a topic. Durations are timedelta or ISO-8601 text."""

    name: str = field(kw_only=False)
    default_message_time_to_live: timedelta | str | None
    max_size_in_megabytes: int | None
    requires_duplicate_detection: bool | None
    duplicate_detection_history_time_window: timedelta | str | None
    enable_batched_operations: bool | None
    size_in_bytes: int | None
    filtering_messages_before_publishing: bool | None
    authorization_rules: list[AuthorizationRule] | None
    status: str | None
    support_ordering: bool | None
    auto_delete_on_idle: timedelta | str | None
    enable_partitioning: bool | None
    availability_status: str | None
    enable_express: bool | None
    user_metadata: str | None
    max_message_size_in_kilobytes: int | None


@dataclass(eq=False, repr=False, kw_only=True)
class SubscriptionProperties(MappingMixin):
    """The properties of a subscription. Durations are timedelta or ISO-8601 text."""

    name: str = field(kw_only=False)
    lock_duration: timedelta | str | None
    requires_session: bool | None
    default_message_time_to_live: timedelta | str | None
    dead_lettering_on_message_expiration: bool | None
    dead_lettering_on_filter_evaluation_exceptions: bool | None
    max_delivery_count: int | None
    enable_batched_operations: bool | None
    status: str | None
    forward_to: str | None
    user_metadata: str | None
    forward_dead_lettered_messages_to: str | None
    auto_delete_on_idle: timedelta | str | None
    availability_status: str | None


@dataclass(eq=False, repr=False, kw_only=True)
class RuleProperties(MappingMixin):
    """A rule of a subscription."""

    name: str = field(kw_only=False)
    filter: CorrelationRuleFilter | SqlRuleFilter | None
    action: SqlRuleAction | None
    created_at_utc: datetime | None


@dataclass(eq=False, repr=False, kw_only=True)
class NamespaceProperties(MappingMixin):
    """The properties of a namespace."""

    name: str = field(kw_only=False)
    alias: str | None
    created_at_utc: datetime | None
    messaging_sku: str | None
    messaging_units: int | None
    modified_at_utc: datetime | None
    namespace_type: str | None
