from bendybus.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetSendLimitsRequest(_message.Message):
    __slots__ = ("entity_path",)
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    def __init__(self, entity_path: _Optional[str] = ...) -> None: ...

class GetSendLimitsResponse(_message.Message):
    __slots__ = ("max_message_size", "max_batch_size")
    MAX_MESSAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    max_message_size: int
    max_batch_size: int
    def __init__(self, max_message_size: _Optional[int] = ..., max_batch_size: _Optional[int] = ...) -> None: ...

class OutgoingMessage(_message.Message):
    __slots__ = ("message", "message_id", "partition_key", "session_id", "time_to_live_ms", "scheduled_enqueue_time_ms")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_KEY_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_ENQUEUE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    message: _message_pb2.Message
    message_id: str
    partition_key: str
    session_id: str
    time_to_live_ms: int
    scheduled_enqueue_time_ms: int
    def __init__(self, message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., message_id: _Optional[str] = ..., partition_key: _Optional[str] = ..., session_id: _Optional[str] = ..., time_to_live_ms: _Optional[int] = ..., scheduled_enqueue_time_ms: _Optional[int] = ...) -> None: ...

class SendRequest(_message.Message):
    __slots__ = ("entity_path", "messages", "split_by_partition_key", "producer_id", "frame_id", "age_ms")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SPLIT_BY_PARTITION_KEY_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    messages: _containers.RepeatedCompositeFieldContainer[OutgoingMessage]
    split_by_partition_key: bool
    producer_id: bytes
    frame_id: int
    age_ms: int
    def __init__(self, entity_path: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[OutgoingMessage, _Mapping]]] = ..., split_by_partition_key: bool = ..., producer_id: _Optional[bytes] = ..., frame_id: _Optional[int] = ..., age_ms: _Optional[int] = ...) -> None: ...

class SendResponse(_message.Message):
    __slots__ = ("sequence_numbers", "partitions", "duplicates", "possible_duplicate")
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    POSSIBLE_DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    duplicates: _containers.RepeatedScalarFieldContainer[bool]
    possible_duplicate: bool
    def __init__(self, sequence_numbers: _Optional[_Iterable[int]] = ..., partitions: _Optional[_Iterable[int]] = ..., duplicates: _Optional[_Iterable[bool]] = ..., possible_duplicate: bool = ...) -> None: ...

class SendStreamRequest(_message.Message):
    __slots__ = ("frame_id", "producer_id", "entity_path", "batch", "group_sizes", "timeout_ms", "age_ms", "split_by_partition_key", "lane", "positions", "run")
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    SPLIT_BY_PARTITION_KEY_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    frame_id: int
    producer_id: bytes
    entity_path: str
    batch: _message_pb2.MessageBatch
    group_sizes: _containers.RepeatedScalarFieldContainer[int]
    timeout_ms: int
    age_ms: int
    split_by_partition_key: bool
    lane: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    run: int
    def __init__(self, frame_id: _Optional[int] = ..., producer_id: _Optional[bytes] = ..., entity_path: _Optional[str] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., group_sizes: _Optional[_Iterable[int]] = ..., timeout_ms: _Optional[int] = ..., age_ms: _Optional[int] = ..., split_by_partition_key: bool = ..., lane: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., run: _Optional[int] = ...) -> None: ...

class SendStreamResponse(_message.Message):
    __slots__ = ("frame_id", "sequence_numbers", "duplicates", "failures", "error", "moving", "possible_duplicates")
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    POSSIBLE_DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    frame_id: int
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    duplicates: _containers.RepeatedScalarFieldContainer[bool]
    failures: _containers.RepeatedCompositeFieldContainer[GroupFailure]
    error: _message_pb2.Error
    moving: bool
    possible_duplicates: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, frame_id: _Optional[int] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., duplicates: _Optional[_Iterable[bool]] = ..., failures: _Optional[_Iterable[_Union[GroupFailure, _Mapping]]] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., moving: bool = ..., possible_duplicates: _Optional[_Iterable[int]] = ...) -> None: ...

class GroupFailure(_message.Message):
    __slots__ = ("group", "error")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    group: int
    error: _message_pb2.Error
    def __init__(self, group: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class CancelScheduledMessagesRequest(_message.Message):
    __slots__ = ("entity_path", "sequence_numbers", "operation_id", "age_ms")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    operation_id: bytes
    age_ms: int
    def __init__(self, entity_path: _Optional[str] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., operation_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ...) -> None: ...

class CancelScheduledMessagesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
