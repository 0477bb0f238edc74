from bendybus.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribePartitionsRequest(_message.Message):
    __slots__ = ("entity_path",)
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    def __init__(self, entity_path: _Optional[str] = ...) -> None: ...

class DescribePartitionsResponse(_message.Message):
    __slots__ = ("entity_uid", "partitions", "max_message_size", "detects_duplicates", "requires_session")
    ENTITY_UID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    DETECTS_DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_SESSION_FIELD_NUMBER: _ClassVar[int]
    entity_uid: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRange]
    max_message_size: int
    detects_duplicates: bool
    requires_session: bool
    def __init__(self, entity_uid: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionRange, _Mapping]]] = ..., max_message_size: _Optional[int] = ..., detects_duplicates: bool = ..., requires_session: bool = ...) -> None: ...

class PartitionRange(_message.Message):
    __slots__ = ("partition", "incarnation", "low_watermark", "stable_tail", "first_number", "active_message_count", "size_in_bytes", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LOW_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    STABLE_TAIL_FIELD_NUMBER: _ClassVar[int]
    FIRST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    incarnation: str
    low_watermark: int
    stable_tail: int
    first_number: int
    active_message_count: int
    size_in_bytes: int
    error: _message_pb2.Error
    def __init__(self, partition: _Optional[int] = ..., incarnation: _Optional[str] = ..., low_watermark: _Optional[int] = ..., stable_tail: _Optional[int] = ..., first_number: _Optional[int] = ..., active_message_count: _Optional[int] = ..., size_in_bytes: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class BrowsePartitionRequest(_message.Message):
    __slots__ = ("entity_path", "partition", "after", "upto", "max_messages", "max_bytes", "states", "without_bodies")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_BODIES_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    partition: int
    after: int
    upto: int
    max_messages: int
    max_bytes: int
    states: _containers.RepeatedScalarFieldContainer[_message_pb2.MessageState]
    without_bodies: bool
    def __init__(self, entity_path: _Optional[str] = ..., partition: _Optional[int] = ..., after: _Optional[int] = ..., upto: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., states: _Optional[_Iterable[_Union[_message_pb2.MessageState, str]]] = ..., without_bodies: bool = ...) -> None: ...

class BrowsePartitionResponse(_message.Message):
    __slots__ = ("batch", "next_after", "complete", "incarnation", "low_watermark", "stable_tail")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LOW_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    STABLE_TAIL_FIELD_NUMBER: _ClassVar[int]
    batch: _message_pb2.DeliveredBatch
    next_after: int
    complete: bool
    incarnation: str
    low_watermark: int
    stable_tail: int
    def __init__(self, batch: _Optional[_Union[_message_pb2.DeliveredBatch, _Mapping]] = ..., next_after: _Optional[int] = ..., complete: bool = ..., incarnation: _Optional[str] = ..., low_watermark: _Optional[int] = ..., stable_tail: _Optional[int] = ...) -> None: ...

class GetSequenceNumberAtRequest(_message.Message):
    __slots__ = ("entity_path", "partition", "enqueued_time_ms")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    partition: int
    enqueued_time_ms: int
    def __init__(self, entity_path: _Optional[str] = ..., partition: _Optional[int] = ..., enqueued_time_ms: _Optional[int] = ...) -> None: ...

class GetSequenceNumberAtResponse(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class AcquireDrainLeaseRequest(_message.Message):
    __slots__ = ("entity_path", "owner", "duration_ms", "epoch")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    owner: str
    duration_ms: int
    epoch: int
    def __init__(self, entity_path: _Optional[str] = ..., owner: _Optional[str] = ..., duration_ms: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class AcquireDrainLeaseResponse(_message.Message):
    __slots__ = ("epoch", "ready", "waiting")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ready: _containers.RepeatedScalarFieldContainer[int]
    waiting: _containers.RepeatedCompositeFieldContainer[PartitionWait]
    def __init__(self, epoch: _Optional[int] = ..., ready: _Optional[_Iterable[int]] = ..., waiting: _Optional[_Iterable[_Union[PartitionWait, _Mapping]]] = ...) -> None: ...

class PartitionWait(_message.Message):
    __slots__ = ("partition", "locked_message_count", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOCKED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    locked_message_count: int
    error: _message_pb2.Error
    def __init__(self, partition: _Optional[int] = ..., locked_message_count: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class ReleaseDrainLeaseRequest(_message.Message):
    __slots__ = ("entity_path", "owner", "epoch")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    owner: str
    epoch: int
    def __init__(self, entity_path: _Optional[str] = ..., owner: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class ReleaseDrainLeaseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SettleRangeRequest(_message.Message):
    __slots__ = ("entity_path", "partition", "epoch", "upto", "numbers", "incarnation")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    partition: int
    epoch: int
    upto: int
    numbers: SequenceNumbers
    incarnation: str
    def __init__(self, entity_path: _Optional[str] = ..., partition: _Optional[int] = ..., epoch: _Optional[int] = ..., upto: _Optional[int] = ..., numbers: _Optional[_Union[SequenceNumbers, _Mapping]] = ..., incarnation: _Optional[str] = ...) -> None: ...

class SequenceNumbers(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class SettleRangeResponse(_message.Message):
    __slots__ = ("deleted", "more")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    more: bool
    def __init__(self, deleted: _Optional[int] = ..., more: bool = ...) -> None: ...

class SendFencedRequest(_message.Message):
    __slots__ = ("entity_path", "partition", "producer_id", "epoch", "ordinals", "batch", "mark", "replace")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    partition: int
    producer_id: bytes
    epoch: int
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    batch: _message_pb2.MessageBatch
    mark: bytes
    replace: bool
    def __init__(self, entity_path: _Optional[str] = ..., partition: _Optional[int] = ..., producer_id: _Optional[bytes] = ..., epoch: _Optional[int] = ..., ordinals: _Optional[_Iterable[int]] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., mark: _Optional[bytes] = ..., replace: bool = ...) -> None: ...

class SendFencedResponse(_message.Message):
    __slots__ = ("stored", "repeated_messages", "duplicates")
    STORED_FIELD_NUMBER: _ClassVar[int]
    REPEATED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    stored: int
    repeated_messages: int
    duplicates: int
    def __init__(self, stored: _Optional[int] = ..., repeated_messages: _Optional[int] = ..., duplicates: _Optional[int] = ...) -> None: ...

class GetProducerFenceRequest(_message.Message):
    __slots__ = ("entity_path", "partition", "producer_id")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    partition: int
    producer_id: bytes
    def __init__(self, entity_path: _Optional[str] = ..., partition: _Optional[int] = ..., producer_id: _Optional[bytes] = ...) -> None: ...

class GetProducerFenceResponse(_message.Message):
    __slots__ = ("epoch", "ordinal", "mark")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ordinal: int
    mark: bytes
    def __init__(self, epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., mark: _Optional[bytes] = ...) -> None: ...
