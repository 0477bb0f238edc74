from bendybus.v1 import message_pb2 as _message_pb2
from bendybus.v1 import receiver_pb2 as _receiver_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TransactRequest(_message.Message):
    __slots__ = ("transaction_id", "age_ms", "operations", "commit", "rollback")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    transaction_id: bytes
    age_ms: int
    operations: _containers.RepeatedCompositeFieldContainer[TransactionOperation]
    commit: TransactionCommit
    rollback: TransactionRollback
    def __init__(self, transaction_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[TransactionOperation, _Mapping]]] = ..., commit: _Optional[_Union[TransactionCommit, _Mapping]] = ..., rollback: _Optional[_Union[TransactionRollback, _Mapping]] = ...) -> None: ...

class TransactionOperation(_message.Message):
    __slots__ = ("send", "settle")
    SEND_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    send: TransactionSend
    settle: TransactionSettle
    def __init__(self, send: _Optional[_Union[TransactionSend, _Mapping]] = ..., settle: _Optional[_Union[TransactionSettle, _Mapping]] = ...) -> None: ...

class TransactionSend(_message.Message):
    __slots__ = ("entity_path", "batch")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    batch: _message_pb2.MessageBatch
    def __init__(self, entity_path: _Optional[str] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ...) -> None: ...

class TransactionSettle(_message.Message):
    __slots__ = ("entity_path", "disposition", "lock_tokens", "changed_properties", "dead_letter_reason", "dead_letter_error_description", "session_token")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    disposition: _receiver_pb2.Disposition
    lock_tokens: bytes
    changed_properties: _message_pb2.ValueMap
    dead_letter_reason: str
    dead_letter_error_description: str
    session_token: bytes
    def __init__(self, entity_path: _Optional[str] = ..., disposition: _Optional[_Union[_receiver_pb2.Disposition, str]] = ..., lock_tokens: _Optional[bytes] = ..., changed_properties: _Optional[_Union[_message_pb2.ValueMap, _Mapping]] = ..., dead_letter_reason: _Optional[str] = ..., dead_letter_error_description: _Optional[str] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class TransactionCommit(_message.Message):
    __slots__ = ("timeout_ms", "age_ms")
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    timeout_ms: int
    age_ms: int
    def __init__(self, timeout_ms: _Optional[int] = ..., age_ms: _Optional[int] = ...) -> None: ...

class TransactionRollback(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransactResponse(_message.Message):
    __slots__ = ("error", "ended", "results")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    error: _message_pb2.Error
    ended: bool
    results: _containers.RepeatedCompositeFieldContainer[TransactionResult]
    def __init__(self, error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., ended: bool = ..., results: _Optional[_Iterable[_Union[TransactionResult, _Mapping]]] = ...) -> None: ...

class TransactionResult(_message.Message):
    __slots__ = ("sequence_numbers", "duplicates", "locked_until_ms", "lock_remaining_ms")
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    duplicates: _containers.RepeatedScalarFieldContainer[bool]
    locked_until_ms: int
    lock_remaining_ms: int
    def __init__(self, sequence_numbers: _Optional[_Iterable[int]] = ..., duplicates: _Optional[_Iterable[bool]] = ..., locked_until_ms: _Optional[int] = ..., lock_remaining_ms: _Optional[int] = ...) -> None: ...
