from bendybus.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EntityStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTITY_STATUS_UNSPECIFIED: _ClassVar[EntityStatus]
    ENTITY_STATUS_ACTIVE: _ClassVar[EntityStatus]
    ENTITY_STATUS_DISABLED: _ClassVar[EntityStatus]
    ENTITY_STATUS_SEND_DISABLED: _ClassVar[EntityStatus]
    ENTITY_STATUS_RECEIVE_DISABLED: _ClassVar[EntityStatus]

class EntityAvailabilityStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTITY_AVAILABILITY_STATUS_UNSPECIFIED: _ClassVar[EntityAvailabilityStatus]
    ENTITY_AVAILABILITY_STATUS_AVAILABLE: _ClassVar[EntityAvailabilityStatus]
    ENTITY_AVAILABILITY_STATUS_LIMITED: _ClassVar[EntityAvailabilityStatus]

class EntityOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTITY_ORIGIN_UNSPECIFIED: _ClassVar[EntityOrigin]
    ENTITY_ORIGIN_CLIENT: _ClassVar[EntityOrigin]
    ENTITY_ORIGIN_MANIFEST: _ClassVar[EntityOrigin]
ENTITY_STATUS_UNSPECIFIED: EntityStatus
ENTITY_STATUS_ACTIVE: EntityStatus
ENTITY_STATUS_DISABLED: EntityStatus
ENTITY_STATUS_SEND_DISABLED: EntityStatus
ENTITY_STATUS_RECEIVE_DISABLED: EntityStatus
ENTITY_AVAILABILITY_STATUS_UNSPECIFIED: EntityAvailabilityStatus
ENTITY_AVAILABILITY_STATUS_AVAILABLE: EntityAvailabilityStatus
ENTITY_AVAILABILITY_STATUS_LIMITED: EntityAvailabilityStatus
ENTITY_ORIGIN_UNSPECIFIED: EntityOrigin
ENTITY_ORIGIN_CLIENT: EntityOrigin
ENTITY_ORIGIN_MANIFEST: EntityOrigin

class QueueDescription(_message.Message):
    __slots__ = ("enable_partitioning", "lock_duration_ms", "max_size_in_megabytes", "max_message_size_in_kilobytes", "requires_duplicate_detection", "duplicate_detection_history_time_window_ms", "requires_session", "default_message_time_to_live_ms", "dead_lettering_on_message_expiration", "max_delivery_count", "auto_delete_on_idle_ms", "status", "forward_to", "forward_dead_lettered_messages_to", "user_metadata", "enable_batched_operations", "support_ordering", "authorization_rules", "enable_express")
    ENABLE_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    LOCK_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_IN_MEGABYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_SIZE_IN_KILOBYTES_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_DUPLICATE_DETECTION_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_DETECTION_HISTORY_TIME_WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_SESSION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MESSAGE_TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERING_ON_MESSAGE_EXPIRATION_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_ON_IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_TO_FIELD_NUMBER: _ClassVar[int]
    FORWARD_DEAD_LETTERED_MESSAGES_TO_FIELD_NUMBER: _ClassVar[int]
    USER_METADATA_FIELD_NUMBER: _ClassVar[int]
    ENABLE_BATCHED_OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_ORDERING_FIELD_NUMBER: _ClassVar[int]
    AUTHORIZATION_RULES_FIELD_NUMBER: _ClassVar[int]
    ENABLE_EXPRESS_FIELD_NUMBER: _ClassVar[int]
    enable_partitioning: bool
    lock_duration_ms: int
    max_size_in_megabytes: int
    max_message_size_in_kilobytes: int
    requires_duplicate_detection: bool
    duplicate_detection_history_time_window_ms: int
    requires_session: bool
    default_message_time_to_live_ms: int
    dead_lettering_on_message_expiration: bool
    max_delivery_count: int
    auto_delete_on_idle_ms: int
    status: EntityStatus
    forward_to: str
    forward_dead_lettered_messages_to: str
    user_metadata: str
    enable_batched_operations: bool
    support_ordering: bool
    authorization_rules: AuthorizationRuleSet
    enable_express: bool
    def __init__(self, enable_partitioning: bool = ..., lock_duration_ms: _Optional[int] = ..., max_size_in_megabytes: _Optional[int] = ..., max_message_size_in_kilobytes: _Optional[int] = ..., requires_duplicate_detection: bool = ..., duplicate_detection_history_time_window_ms: _Optional[int] = ..., requires_session: bool = ..., default_message_time_to_live_ms: _Optional[int] = ..., dead_lettering_on_message_expiration: bool = ..., max_delivery_count: _Optional[int] = ..., auto_delete_on_idle_ms: _Optional[int] = ..., status: _Optional[_Union[EntityStatus, str]] = ..., forward_to: _Optional[str] = ..., forward_dead_lettered_messages_to: _Optional[str] = ..., user_metadata: _Optional[str] = ..., enable_batched_operations: bool = ..., support_ordering: bool = ..., authorization_rules: _Optional[_Union[AuthorizationRuleSet, _Mapping]] = ..., enable_express: bool = ...) -> None: ...

class AuthorizationRuleSet(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[AuthorizationRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[AuthorizationRule, _Mapping]]] = ...) -> None: ...

class AuthorizationRule(_message.Message):
    __slots__ = ("name", "rights", "primary_key", "secondary_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEY_FIELD_NUMBER: _ClassVar[int]
    SECONDARY_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    rights: _containers.RepeatedScalarFieldContainer[str]
    primary_key: str
    secondary_key: str
    def __init__(self, name: _Optional[str] = ..., rights: _Optional[_Iterable[str]] = ..., primary_key: _Optional[str] = ..., secondary_key: _Optional[str] = ...) -> None: ...

class MessageCountDetails(_message.Message):
    __slots__ = ("active_message_count", "dead_letter_message_count", "scheduled_message_count", "transfer_message_count", "transfer_dead_letter_message_count", "deferred_message_count", "locked_message_count")
    ACTIVE_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_DEAD_LETTER_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOCKED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    active_message_count: int
    dead_letter_message_count: int
    scheduled_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    deferred_message_count: int
    locked_message_count: int
    def __init__(self, active_message_count: _Optional[int] = ..., dead_letter_message_count: _Optional[int] = ..., scheduled_message_count: _Optional[int] = ..., transfer_message_count: _Optional[int] = ..., transfer_dead_letter_message_count: _Optional[int] = ..., deferred_message_count: _Optional[int] = ..., locked_message_count: _Optional[int] = ...) -> None: ...

class PartitionRuntime(_message.Message):
    __slots__ = ("partition", "reachable", "count_details", "size_in_bytes")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    COUNT_DETAILS_FIELD_NUMBER: _ClassVar[int]
    SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    reachable: bool
    count_details: MessageCountDetails
    size_in_bytes: int
    def __init__(self, partition: _Optional[int] = ..., reachable: bool = ..., count_details: _Optional[_Union[MessageCountDetails, _Mapping]] = ..., size_in_bytes: _Optional[int] = ...) -> None: ...

class QueueRuntime(_message.Message):
    __slots__ = ("availability_status", "count_details", "size_in_bytes", "max_size_in_megabytes_total", "created_at_ms", "updated_at_ms", "accessed_at_ms", "partitions")
    AVAILABILITY_STATUS_FIELD_NUMBER: _ClassVar[int]
    COUNT_DETAILS_FIELD_NUMBER: _ClassVar[int]
    SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_IN_MEGABYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ACCESSED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    availability_status: EntityAvailabilityStatus
    count_details: MessageCountDetails
    size_in_bytes: int
    max_size_in_megabytes_total: int
    created_at_ms: int
    updated_at_ms: int
    accessed_at_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRuntime]
    def __init__(self, availability_status: _Optional[_Union[EntityAvailabilityStatus, str]] = ..., count_details: _Optional[_Union[MessageCountDetails, _Mapping]] = ..., size_in_bytes: _Optional[int] = ..., max_size_in_megabytes_total: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ..., accessed_at_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionRuntime, _Mapping]]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("name", "uid", "generation", "origin", "description", "partition_count", "home_partition", "runtime", "orphaned", "reported_size_in_megabytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOME_PARTITION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    ORPHANED_FIELD_NUMBER: _ClassVar[int]
    REPORTED_SIZE_IN_MEGABYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    generation: int
    origin: EntityOrigin
    description: QueueDescription
    partition_count: int
    home_partition: int
    runtime: QueueRuntime
    orphaned: bool
    reported_size_in_megabytes: int
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., generation: _Optional[int] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., description: _Optional[_Union[QueueDescription, _Mapping]] = ..., partition_count: _Optional[int] = ..., home_partition: _Optional[int] = ..., runtime: _Optional[_Union[QueueRuntime, _Mapping]] = ..., orphaned: bool = ..., reported_size_in_megabytes: _Optional[int] = ...) -> None: ...

class PartitionOutcome(_message.Message):
    __slots__ = ("partition", "done", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    done: bool
    error: _message_pb2.Error
    def __init__(self, partition: _Optional[int] = ..., done: bool = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class GetNamespaceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetNamespaceResponse(_message.Message):
    __slots__ = ("name", "uid", "tier", "partition_count", "partitions", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    tier: str
    partition_count: int
    partitions: _containers.RepeatedCompositeFieldContainer[NamespacePartition]
    version: str
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., tier: _Optional[str] = ..., partition_count: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[NamespacePartition, _Mapping]]] = ..., version: _Optional[str] = ...) -> None: ...

class NamespacePartition(_message.Message):
    __slots__ = ("partition", "available", "address", "conditions")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    available: bool
    address: str
    conditions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partition: _Optional[int] = ..., available: bool = ..., address: _Optional[str] = ..., conditions: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateQueueRequest(_message.Message):
    __slots__ = ("name", "description", "origin", "uid", "migrated")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    MIGRATED_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: QueueDescription
    origin: EntityOrigin
    uid: str
    migrated: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[_Union[QueueDescription, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., uid: _Optional[str] = ..., migrated: bool = ...) -> None: ...

class CreateQueueResponse(_message.Message):
    __slots__ = ("queue", "outcomes")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class UpdateQueueRequest(_message.Message):
    __slots__ = ("name", "description", "origin", "if_generation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    IF_GENERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: QueueDescription
    origin: EntityOrigin
    if_generation: int
    def __init__(self, name: _Optional[str] = ..., description: _Optional[_Union[QueueDescription, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., if_generation: _Optional[int] = ...) -> None: ...

class UpdateQueueResponse(_message.Message):
    __slots__ = ("queue", "outcomes")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class DeleteQueueRequest(_message.Message):
    __slots__ = ("name", "origin")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    origin: EntityOrigin
    def __init__(self, name: _Optional[str] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ...) -> None: ...

class DeleteQueueResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("name", "include_runtime")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    include_runtime: bool
    def __init__(self, name: _Optional[str] = ..., include_runtime: bool = ...) -> None: ...

class GetQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("include_runtime", "page_size", "page_token", "include_orphaned")
    INCLUDE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ORPHANED_FIELD_NUMBER: _ClassVar[int]
    include_runtime: bool
    page_size: int
    page_token: str
    include_orphaned: bool
    def __init__(self, include_runtime: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_orphaned: bool = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TopicDescription(_message.Message):
    __slots__ = ("enable_partitioning", "max_size_in_megabytes", "max_message_size_in_kilobytes", "requires_duplicate_detection", "duplicate_detection_history_time_window_ms", "default_message_time_to_live_ms", "auto_delete_on_idle_ms", "status", "user_metadata", "enable_batched_operations", "support_ordering", "authorization_rules", "enable_express")
    ENABLE_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_IN_MEGABYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_SIZE_IN_KILOBYTES_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_DUPLICATE_DETECTION_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_DETECTION_HISTORY_TIME_WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MESSAGE_TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_ON_IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    USER_METADATA_FIELD_NUMBER: _ClassVar[int]
    ENABLE_BATCHED_OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_ORDERING_FIELD_NUMBER: _ClassVar[int]
    AUTHORIZATION_RULES_FIELD_NUMBER: _ClassVar[int]
    ENABLE_EXPRESS_FIELD_NUMBER: _ClassVar[int]
    enable_partitioning: bool
    max_size_in_megabytes: int
    max_message_size_in_kilobytes: int
    requires_duplicate_detection: bool
    duplicate_detection_history_time_window_ms: int
    default_message_time_to_live_ms: int
    auto_delete_on_idle_ms: int
    status: EntityStatus
    user_metadata: str
    enable_batched_operations: bool
    support_ordering: bool
    authorization_rules: AuthorizationRuleSet
    enable_express: bool
    def __init__(self, enable_partitioning: bool = ..., max_size_in_megabytes: _Optional[int] = ..., max_message_size_in_kilobytes: _Optional[int] = ..., requires_duplicate_detection: bool = ..., duplicate_detection_history_time_window_ms: _Optional[int] = ..., default_message_time_to_live_ms: _Optional[int] = ..., auto_delete_on_idle_ms: _Optional[int] = ..., status: _Optional[_Union[EntityStatus, str]] = ..., user_metadata: _Optional[str] = ..., enable_batched_operations: bool = ..., support_ordering: bool = ..., authorization_rules: _Optional[_Union[AuthorizationRuleSet, _Mapping]] = ..., enable_express: bool = ...) -> None: ...

class SubscriptionDescription(_message.Message):
    __slots__ = ("lock_duration_ms", "requires_session", "default_message_time_to_live_ms", "dead_lettering_on_message_expiration", "dead_lettering_on_filter_evaluation_exceptions", "max_delivery_count", "auto_delete_on_idle_ms", "status", "forward_to", "forward_dead_lettered_messages_to", "user_metadata", "rules", "enable_batched_operations")
    LOCK_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_SESSION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MESSAGE_TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERING_ON_MESSAGE_EXPIRATION_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERING_ON_FILTER_EVALUATION_EXCEPTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_ON_IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_TO_FIELD_NUMBER: _ClassVar[int]
    FORWARD_DEAD_LETTERED_MESSAGES_TO_FIELD_NUMBER: _ClassVar[int]
    USER_METADATA_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    ENABLE_BATCHED_OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    lock_duration_ms: int
    requires_session: bool
    default_message_time_to_live_ms: int
    dead_lettering_on_message_expiration: bool
    dead_lettering_on_filter_evaluation_exceptions: bool
    max_delivery_count: int
    auto_delete_on_idle_ms: int
    status: EntityStatus
    forward_to: str
    forward_dead_lettered_messages_to: str
    user_metadata: str
    rules: RuleSet
    enable_batched_operations: bool
    def __init__(self, lock_duration_ms: _Optional[int] = ..., requires_session: bool = ..., default_message_time_to_live_ms: _Optional[int] = ..., dead_lettering_on_message_expiration: bool = ..., dead_lettering_on_filter_evaluation_exceptions: bool = ..., max_delivery_count: _Optional[int] = ..., auto_delete_on_idle_ms: _Optional[int] = ..., status: _Optional[_Union[EntityStatus, str]] = ..., forward_to: _Optional[str] = ..., forward_dead_lettered_messages_to: _Optional[str] = ..., user_metadata: _Optional[str] = ..., rules: _Optional[_Union[RuleSet, _Mapping]] = ..., enable_batched_operations: bool = ...) -> None: ...

class RuleSet(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[Rule]
    def __init__(self, rules: _Optional[_Iterable[_Union[Rule, _Mapping]]] = ...) -> None: ...

class Rule(_message.Message):
    __slots__ = ("name", "sql_filter", "correlation_filter", "boolean_filter", "action", "created_at_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SQL_FILTER_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_FILTER_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FILTER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    sql_filter: SqlFilter
    correlation_filter: CorrelationFilter
    boolean_filter: bool
    action: SqlAction
    created_at_ms: int
    def __init__(self, name: _Optional[str] = ..., sql_filter: _Optional[_Union[SqlFilter, _Mapping]] = ..., correlation_filter: _Optional[_Union[CorrelationFilter, _Mapping]] = ..., boolean_filter: bool = ..., action: _Optional[_Union[SqlAction, _Mapping]] = ..., created_at_ms: _Optional[int] = ...) -> None: ...

class SqlFilter(_message.Message):
    __slots__ = ("sql_expression", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _message_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_message_pb2.Value, _Mapping]] = ...) -> None: ...
    SQL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    sql_expression: str
    parameters: _containers.MessageMap[str, _message_pb2.Value]
    def __init__(self, sql_expression: _Optional[str] = ..., parameters: _Optional[_Mapping[str, _message_pb2.Value]] = ...) -> None: ...

class CorrelationFilter(_message.Message):
    __slots__ = ("correlation_id", "message_id", "to", "reply_to", "label", "session_id", "reply_to_session_id", "content_type", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _message_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_message_pb2.Value, _Mapping]] = ...) -> None: ...
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    correlation_id: str
    message_id: str
    to: str
    reply_to: str
    label: str
    session_id: str
    reply_to_session_id: str
    content_type: str
    properties: _containers.MessageMap[str, _message_pb2.Value]
    def __init__(self, correlation_id: _Optional[str] = ..., message_id: _Optional[str] = ..., to: _Optional[str] = ..., reply_to: _Optional[str] = ..., label: _Optional[str] = ..., session_id: _Optional[str] = ..., reply_to_session_id: _Optional[str] = ..., content_type: _Optional[str] = ..., properties: _Optional[_Mapping[str, _message_pb2.Value]] = ...) -> None: ...

class SqlAction(_message.Message):
    __slots__ = ("sql_expression", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _message_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_message_pb2.Value, _Mapping]] = ...) -> None: ...
    SQL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    sql_expression: str
    parameters: _containers.MessageMap[str, _message_pb2.Value]
    def __init__(self, sql_expression: _Optional[str] = ..., parameters: _Optional[_Mapping[str, _message_pb2.Value]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "uid", "generation", "origin", "description", "partition_count", "home_partition", "runtime", "orphaned", "subscription_count", "sql_filter_count", "correlation_filter_count", "reported_size_in_megabytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOME_PARTITION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    ORPHANED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SQL_FILTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_FILTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPORTED_SIZE_IN_MEGABYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    generation: int
    origin: EntityOrigin
    description: TopicDescription
    partition_count: int
    home_partition: int
    runtime: QueueRuntime
    orphaned: bool
    subscription_count: int
    sql_filter_count: int
    correlation_filter_count: int
    reported_size_in_megabytes: int
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., generation: _Optional[int] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., description: _Optional[_Union[TopicDescription, _Mapping]] = ..., partition_count: _Optional[int] = ..., home_partition: _Optional[int] = ..., runtime: _Optional[_Union[QueueRuntime, _Mapping]] = ..., orphaned: bool = ..., subscription_count: _Optional[int] = ..., sql_filter_count: _Optional[int] = ..., correlation_filter_count: _Optional[int] = ..., reported_size_in_megabytes: _Optional[int] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("topic_name", "name", "uid", "generation", "origin", "description", "partition_count", "home_partition", "runtime", "orphaned", "manifest_rules")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOME_PARTITION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    ORPHANED_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_RULES_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    name: str
    uid: str
    generation: int
    origin: EntityOrigin
    description: SubscriptionDescription
    partition_count: int
    home_partition: int
    runtime: QueueRuntime
    orphaned: bool
    manifest_rules: bool
    def __init__(self, topic_name: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., generation: _Optional[int] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., description: _Optional[_Union[SubscriptionDescription, _Mapping]] = ..., partition_count: _Optional[int] = ..., home_partition: _Optional[int] = ..., runtime: _Optional[_Union[QueueRuntime, _Mapping]] = ..., orphaned: bool = ..., manifest_rules: bool = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "description", "origin", "uid", "migrated")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    MIGRATED_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: TopicDescription
    origin: EntityOrigin
    uid: str
    migrated: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[_Union[TopicDescription, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., uid: _Optional[str] = ..., migrated: bool = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("topic", "outcomes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class UpdateTopicRequest(_message.Message):
    __slots__ = ("name", "description", "origin", "if_generation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    IF_GENERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: TopicDescription
    origin: EntityOrigin
    if_generation: int
    def __init__(self, name: _Optional[str] = ..., description: _Optional[_Union[TopicDescription, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., if_generation: _Optional[int] = ...) -> None: ...

class UpdateTopicResponse(_message.Message):
    __slots__ = ("topic", "outcomes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name", "origin")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    origin: EntityOrigin
    def __init__(self, name: _Optional[str] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class GetTopicRequest(_message.Message):
    __slots__ = ("name", "include_runtime")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    include_runtime: bool
    def __init__(self, name: _Optional[str] = ..., include_runtime: bool = ...) -> None: ...

class GetTopicResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("include_runtime", "page_size", "page_token", "include_orphaned")
    INCLUDE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ORPHANED_FIELD_NUMBER: _ClassVar[int]
    include_runtime: bool
    page_size: int
    page_token: str
    include_orphaned: bool
    def __init__(self, include_runtime: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_orphaned: bool = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics", "next_page_token")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    next_page_token: str
    def __init__(self, topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CreateSubscriptionRequest(_message.Message):
    __slots__ = ("topic_name", "name", "description", "origin", "uid")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    name: str
    description: SubscriptionDescription
    origin: EntityOrigin
    uid: str
    def __init__(self, topic_name: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[_Union[SubscriptionDescription, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., uid: _Optional[str] = ...) -> None: ...

class CreateSubscriptionResponse(_message.Message):
    __slots__ = ("subscription", "outcomes")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class UpdateSubscriptionRequest(_message.Message):
    __slots__ = ("topic_name", "name", "description", "origin", "if_generation")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    IF_GENERATION_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    name: str
    description: SubscriptionDescription
    origin: EntityOrigin
    if_generation: int
    def __init__(self, topic_name: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[_Union[SubscriptionDescription, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ..., if_generation: _Optional[int] = ...) -> None: ...

class UpdateSubscriptionResponse(_message.Message):
    __slots__ = ("subscription", "outcomes")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class DeleteSubscriptionRequest(_message.Message):
    __slots__ = ("topic_name", "name", "origin")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    name: str
    origin: EntityOrigin
    def __init__(self, topic_name: _Optional[str] = ..., name: _Optional[str] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ...) -> None: ...

class DeleteSubscriptionResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class GetSubscriptionRequest(_message.Message):
    __slots__ = ("topic_name", "name", "include_runtime")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    name: str
    include_runtime: bool
    def __init__(self, topic_name: _Optional[str] = ..., name: _Optional[str] = ..., include_runtime: bool = ...) -> None: ...

class GetSubscriptionResponse(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ...) -> None: ...

class ListSubscriptionsRequest(_message.Message):
    __slots__ = ("topic_name", "include_runtime", "page_size", "page_token", "include_orphaned")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ORPHANED_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    include_runtime: bool
    page_size: int
    page_token: str
    include_orphaned: bool
    def __init__(self, topic_name: _Optional[str] = ..., include_runtime: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_orphaned: bool = ...) -> None: ...

class ListSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions", "next_page_token")
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[Subscription]
    next_page_token: str
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CreateRuleRequest(_message.Message):
    __slots__ = ("topic_name", "subscription_name", "rule", "origin")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    subscription_name: str
    rule: Rule
    origin: EntityOrigin
    def __init__(self, topic_name: _Optional[str] = ..., subscription_name: _Optional[str] = ..., rule: _Optional[_Union[Rule, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ...) -> None: ...

class CreateRuleResponse(_message.Message):
    __slots__ = ("rule", "outcomes")
    RULE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    rule: Rule
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, rule: _Optional[_Union[Rule, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class UpdateRuleRequest(_message.Message):
    __slots__ = ("topic_name", "subscription_name", "rule", "origin")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    subscription_name: str
    rule: Rule
    origin: EntityOrigin
    def __init__(self, topic_name: _Optional[str] = ..., subscription_name: _Optional[str] = ..., rule: _Optional[_Union[Rule, _Mapping]] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ...) -> None: ...

class UpdateRuleResponse(_message.Message):
    __slots__ = ("rule", "outcomes")
    RULE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    rule: Rule
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, rule: _Optional[_Union[Rule, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class DeleteRuleRequest(_message.Message):
    __slots__ = ("topic_name", "subscription_name", "name", "origin")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    subscription_name: str
    name: str
    origin: EntityOrigin
    def __init__(self, topic_name: _Optional[str] = ..., subscription_name: _Optional[str] = ..., name: _Optional[str] = ..., origin: _Optional[_Union[EntityOrigin, str]] = ...) -> None: ...

class DeleteRuleResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class GetRuleRequest(_message.Message):
    __slots__ = ("topic_name", "subscription_name", "name")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    subscription_name: str
    name: str
    def __init__(self, topic_name: _Optional[str] = ..., subscription_name: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetRuleResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: Rule
    def __init__(self, rule: _Optional[_Union[Rule, _Mapping]] = ...) -> None: ...

class ListRulesRequest(_message.Message):
    __slots__ = ("topic_name", "subscription_name", "page_size", "page_token")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    subscription_name: str
    page_size: int
    page_token: str
    def __init__(self, topic_name: _Optional[str] = ..., subscription_name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRulesResponse(_message.Message):
    __slots__ = ("rules", "next_page_token")
    RULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[Rule]
    next_page_token: str
    def __init__(self, rules: _Optional[_Iterable[_Union[Rule, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
