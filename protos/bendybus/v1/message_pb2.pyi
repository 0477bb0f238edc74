from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MessageState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_STATE_UNSPECIFIED: _ClassVar[MessageState]
    MESSAGE_STATE_ACTIVE: _ClassVar[MessageState]
    MESSAGE_STATE_DEFERRED: _ClassVar[MessageState]
    MESSAGE_STATE_SCHEDULED: _ClassVar[MessageState]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_NOT_DONE: _ClassVar[Outcome]
    OUTCOME_UNKNOWN: _ClassVar[Outcome]
MESSAGE_STATE_UNSPECIFIED: MessageState
MESSAGE_STATE_ACTIVE: MessageState
MESSAGE_STATE_DEFERRED: MessageState
MESSAGE_STATE_SCHEDULED: MessageState
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_NOT_DONE: Outcome
OUTCOME_UNKNOWN: Outcome

class Value(_message.Message):
    __slots__ = ("null_value", "bool_value", "ubyte_value", "ushort_value", "uint_value", "ulong_value", "byte_value", "short_value", "int_value", "long_value", "float_value", "double_value", "char_value", "timestamp_ms_value", "uuid_value", "binary_value", "string_value", "symbol_value", "list_value", "map_value", "encoded_value", "written")
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    UBYTE_VALUE_FIELD_NUMBER: _ClassVar[int]
    USHORT_VALUE_FIELD_NUMBER: _ClassVar[int]
    UINT_VALUE_FIELD_NUMBER: _ClassVar[int]
    ULONG_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTE_VALUE_FIELD_NUMBER: _ClassVar[int]
    SHORT_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    LONG_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    CHAR_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_VALUE_FIELD_NUMBER: _ClassVar[int]
    UUID_VALUE_FIELD_NUMBER: _ClassVar[int]
    BINARY_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
    MAP_VALUE_FIELD_NUMBER: _ClassVar[int]
    ENCODED_VALUE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    null_value: bool
    bool_value: bool
    ubyte_value: int
    ushort_value: int
    uint_value: int
    ulong_value: int
    byte_value: int
    short_value: int
    int_value: int
    long_value: int
    float_value: float
    double_value: float
    char_value: int
    timestamp_ms_value: int
    uuid_value: bytes
    binary_value: bytes
    string_value: str
    symbol_value: str
    list_value: ValueList
    map_value: ValueMap
    encoded_value: bytes
    written: str
    def __init__(self, null_value: bool = ..., bool_value: bool = ..., ubyte_value: _Optional[int] = ..., ushort_value: _Optional[int] = ..., uint_value: _Optional[int] = ..., ulong_value: _Optional[int] = ..., byte_value: _Optional[int] = ..., short_value: _Optional[int] = ..., int_value: _Optional[int] = ..., long_value: _Optional[int] = ..., float_value: _Optional[float] = ..., double_value: _Optional[float] = ..., char_value: _Optional[int] = ..., timestamp_ms_value: _Optional[int] = ..., uuid_value: _Optional[bytes] = ..., binary_value: _Optional[bytes] = ..., string_value: _Optional[str] = ..., symbol_value: _Optional[str] = ..., list_value: _Optional[_Union[ValueList, _Mapping]] = ..., map_value: _Optional[_Union[ValueMap, _Mapping]] = ..., encoded_value: _Optional[bytes] = ..., written: _Optional[str] = ...) -> None: ...

class ValueList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class ValueMap(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.MessageMap[str, Value]
    def __init__(self, entries: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("data", "value", "sequences", "content_type", "correlation_id", "subject", "to", "reply_to", "reply_to_session_id", "application_properties", "content_encoding", "user_id", "priority", "annotations", "footer", "group_sequence", "creation_time_ms", "absolute_expiry_time_ms", "amqp_escapes")
    class ApplicationPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    class FooterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    DATA_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ENCODING_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    FOOTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ABSOLUTE_EXPIRY_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    AMQP_ESCAPES_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedScalarFieldContainer[bytes]
    value: Value
    sequences: _containers.RepeatedCompositeFieldContainer[ValueList]
    content_type: str
    correlation_id: str
    subject: str
    to: str
    reply_to: str
    reply_to_session_id: str
    application_properties: _containers.MessageMap[str, Value]
    content_encoding: str
    user_id: bytes
    priority: int
    annotations: _containers.MessageMap[str, Value]
    footer: _containers.MessageMap[str, Value]
    group_sequence: int
    creation_time_ms: int
    absolute_expiry_time_ms: int
    amqp_escapes: bytes
    def __init__(self, data: _Optional[_Iterable[bytes]] = ..., value: _Optional[_Union[Value, _Mapping]] = ..., sequences: _Optional[_Iterable[_Union[ValueList, _Mapping]]] = ..., content_type: _Optional[str] = ..., correlation_id: _Optional[str] = ..., subject: _Optional[str] = ..., to: _Optional[str] = ..., reply_to: _Optional[str] = ..., reply_to_session_id: _Optional[str] = ..., application_properties: _Optional[_Mapping[str, Value]] = ..., content_encoding: _Optional[str] = ..., user_id: _Optional[bytes] = ..., priority: _Optional[int] = ..., annotations: _Optional[_Mapping[str, Value]] = ..., footer: _Optional[_Mapping[str, Value]] = ..., group_sequence: _Optional[int] = ..., creation_time_ms: _Optional[int] = ..., absolute_expiry_time_ms: _Optional[int] = ..., amqp_escapes: _Optional[bytes] = ...) -> None: ...

class MessageBatch(_message.Message):
    __slots__ = ("messages", "message_ids", "partition_keys", "session_ids", "session_present", "time_to_live_ms", "scheduled_enqueue_time_ms", "heads", "formats")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_KEYS_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_PRESENT_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_ENQUEUE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    partition_keys: _containers.RepeatedScalarFieldContainer[str]
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    session_present: _containers.RepeatedScalarFieldContainer[bool]
    time_to_live_ms: _containers.RepeatedScalarFieldContainer[int]
    scheduled_enqueue_time_ms: _containers.RepeatedScalarFieldContainer[int]
    heads: _containers.RepeatedScalarFieldContainer[bytes]
    formats: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, messages: _Optional[_Iterable[bytes]] = ..., message_ids: _Optional[_Iterable[str]] = ..., partition_keys: _Optional[_Iterable[str]] = ..., session_ids: _Optional[_Iterable[str]] = ..., session_present: _Optional[_Iterable[bool]] = ..., time_to_live_ms: _Optional[_Iterable[int]] = ..., scheduled_enqueue_time_ms: _Optional[_Iterable[int]] = ..., heads: _Optional[_Iterable[bytes]] = ..., formats: _Optional[_Iterable[int]] = ...) -> None: ...

class DeliveredBatch(_message.Message):
    __slots__ = ("partition", "messages", "sequence_numbers", "enqueued_time_ms", "lock_tokens", "locked_until_ms", "message_ids", "partition_keys", "session_ids", "session_present", "time_to_live_ms", "scheduled_enqueue_time_ms", "delivery_counts", "states", "changed_properties", "dead_letter_reasons", "dead_letter_error_descriptions", "dead_letter_sources", "enqueued_sequence_numbers", "lock_remaining_ms", "heads", "formats")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_KEYS_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_PRESENT_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_ENQUEUE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASONS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_SOURCES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    enqueued_time_ms: _containers.RepeatedScalarFieldContainer[int]
    lock_tokens: bytes
    locked_until_ms: int
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    partition_keys: _containers.RepeatedScalarFieldContainer[str]
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    session_present: _containers.RepeatedScalarFieldContainer[bool]
    time_to_live_ms: _containers.RepeatedScalarFieldContainer[int]
    scheduled_enqueue_time_ms: _containers.RepeatedScalarFieldContainer[int]
    delivery_counts: _containers.RepeatedScalarFieldContainer[int]
    states: _containers.RepeatedScalarFieldContainer[MessageState]
    changed_properties: _containers.RepeatedScalarFieldContainer[bytes]
    dead_letter_reasons: _containers.RepeatedScalarFieldContainer[str]
    dead_letter_error_descriptions: _containers.RepeatedScalarFieldContainer[str]
    dead_letter_sources: _containers.RepeatedScalarFieldContainer[str]
    enqueued_sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    lock_remaining_ms: int
    heads: _containers.RepeatedScalarFieldContainer[bytes]
    formats: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., messages: _Optional[_Iterable[bytes]] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., enqueued_time_ms: _Optional[_Iterable[int]] = ..., lock_tokens: _Optional[bytes] = ..., locked_until_ms: _Optional[int] = ..., message_ids: _Optional[_Iterable[str]] = ..., partition_keys: _Optional[_Iterable[str]] = ..., session_ids: _Optional[_Iterable[str]] = ..., session_present: _Optional[_Iterable[bool]] = ..., time_to_live_ms: _Optional[_Iterable[int]] = ..., scheduled_enqueue_time_ms: _Optional[_Iterable[int]] = ..., delivery_counts: _Optional[_Iterable[int]] = ..., states: _Optional[_Iterable[_Union[MessageState, str]]] = ..., changed_properties: _Optional[_Iterable[bytes]] = ..., dead_letter_reasons: _Optional[_Iterable[str]] = ..., dead_letter_error_descriptions: _Optional[_Iterable[str]] = ..., dead_letter_sources: _Optional[_Iterable[str]] = ..., enqueued_sequence_numbers: _Optional[_Iterable[int]] = ..., lock_remaining_ms: _Optional[int] = ..., heads: _Optional[_Iterable[bytes]] = ..., formats: _Optional[_Iterable[int]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("reason", "message", "metadata", "retry_after_ms", "outcome")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    retry_after_ms: int
    outcome: Outcome
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_after_ms: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ...) -> None: ...
