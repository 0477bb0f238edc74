from bendybus.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReceiveMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECEIVE_MODE_UNSPECIFIED: _ClassVar[ReceiveMode]
    RECEIVE_MODE_PEEK_LOCK: _ClassVar[ReceiveMode]
    RECEIVE_MODE_RECEIVE_AND_DELETE: _ClassVar[ReceiveMode]

class Disposition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISPOSITION_UNSPECIFIED: _ClassVar[Disposition]
    DISPOSITION_COMPLETE: _ClassVar[Disposition]
    DISPOSITION_ABANDON: _ClassVar[Disposition]
    DISPOSITION_DEFER: _ClassVar[Disposition]
    DISPOSITION_DEAD_LETTER: _ClassVar[Disposition]
    DISPOSITION_RENEW_LOCK: _ClassVar[Disposition]
    DISPOSITION_RELEASE: _ClassVar[Disposition]
RECEIVE_MODE_UNSPECIFIED: ReceiveMode
RECEIVE_MODE_PEEK_LOCK: ReceiveMode
RECEIVE_MODE_RECEIVE_AND_DELETE: ReceiveMode
DISPOSITION_UNSPECIFIED: Disposition
DISPOSITION_COMPLETE: Disposition
DISPOSITION_ABANDON: Disposition
DISPOSITION_DEFER: Disposition
DISPOSITION_DEAD_LETTER: Disposition
DISPOSITION_RENEW_LOCK: Disposition
DISPOSITION_RELEASE: Disposition

class ReceiveRequest(_message.Message):
    __slots__ = ("entity_path", "receive_mode", "max_messages", "max_wait_ms", "client_id")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_MODE_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    receive_mode: ReceiveMode
    max_messages: int
    max_wait_ms: int
    client_id: str
    def __init__(self, entity_path: _Optional[str] = ..., receive_mode: _Optional[_Union[ReceiveMode, str]] = ..., max_messages: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., client_id: _Optional[str] = ...) -> None: ...

class ReceiveResponse(_message.Message):
    __slots__ = ("batches",)
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredBatch]
    def __init__(self, batches: _Optional[_Iterable[_Union[_message_pb2.DeliveredBatch, _Mapping]]] = ...) -> None: ...

class ReceiveStreamRequest(_message.Message):
    __slots__ = ("open", "ask", "cancel_ask", "settle", "close_session", "further")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_ASK_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_SESSION_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    open: OpenReceiver
    ask: Ask
    cancel_ask: CancelAsk
    settle: SettleFrame
    close_session: CloseSession
    further: _containers.RepeatedCompositeFieldContainer[ReceiveStreamRequest]
    def __init__(self, open: _Optional[_Union[OpenReceiver, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., cancel_ask: _Optional[_Union[CancelAsk, _Mapping]] = ..., settle: _Optional[_Union[SettleFrame, _Mapping]] = ..., close_session: _Optional[_Union[CloseSession, _Mapping]] = ..., further: _Optional[_Iterable[_Union[ReceiveStreamRequest, _Mapping]]] = ...) -> None: ...

class OpenReceiver(_message.Message):
    __slots__ = ("entity_path", "receive_mode", "client_id", "settler_id", "session")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_MODE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SETTLER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    receive_mode: ReceiveMode
    client_id: str
    settler_id: bytes
    session: AcceptSession
    def __init__(self, entity_path: _Optional[str] = ..., receive_mode: _Optional[_Union[ReceiveMode, str]] = ..., client_id: _Optional[str] = ..., settler_id: _Optional[bytes] = ..., session: _Optional[_Union[AcceptSession, _Mapping]] = ...) -> None: ...

class AcceptSession(_message.Message):
    __slots__ = ("session_id", "next_available", "session_token", "max_wait_ms", "held_lock_tokens")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    HELD_LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    next_available: bool
    session_token: bytes
    max_wait_ms: int
    held_lock_tokens: bytes
    def __init__(self, session_id: _Optional[str] = ..., next_available: bool = ..., session_token: _Optional[bytes] = ..., max_wait_ms: _Optional[int] = ..., held_lock_tokens: _Optional[bytes] = ...) -> None: ...

class CloseSession(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ask(_message.Message):
    __slots__ = ("ask_id", "max_messages", "max_bytes", "max_wait_ms", "with_settle_frame_id")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    WITH_SETTLE_FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    max_messages: int
    max_bytes: int
    max_wait_ms: int
    with_settle_frame_id: int
    def __init__(self, ask_id: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., with_settle_frame_id: _Optional[int] = ...) -> None: ...

class CancelAsk(_message.Message):
    __slots__ = ("ask_id",)
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    def __init__(self, ask_id: _Optional[int] = ...) -> None: ...

class SettleFrame(_message.Message):
    __slots__ = ("frame_id", "disposition", "lock_tokens", "changed_properties", "dead_letter_reason", "dead_letter_error_description", "repeat", "delay_ms")
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    frame_id: int
    disposition: Disposition
    lock_tokens: bytes
    changed_properties: _message_pb2.ValueMap
    dead_letter_reason: str
    dead_letter_error_description: str
    repeat: bool
    delay_ms: int
    def __init__(self, frame_id: _Optional[int] = ..., disposition: _Optional[_Union[Disposition, str]] = ..., lock_tokens: _Optional[bytes] = ..., changed_properties: _Optional[_Union[_message_pb2.ValueMap, _Mapping]] = ..., dead_letter_reason: _Optional[str] = ..., dead_letter_error_description: _Optional[str] = ..., repeat: bool = ..., delay_ms: _Optional[int] = ...) -> None: ...

class ReceiveStreamResponse(_message.Message):
    __slots__ = ("opened", "delivery", "settle_result", "error", "session_closed", "moving", "further")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    SETTLE_RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SESSION_CLOSED_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    opened: ReceiverOpened
    delivery: Delivery
    settle_result: SettleResult
    error: _message_pb2.Error
    session_closed: SessionClosed
    moving: bool
    further: _containers.RepeatedCompositeFieldContainer[ReceiveStreamResponse]
    def __init__(self, opened: _Optional[_Union[ReceiverOpened, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, _Mapping]] = ..., settle_result: _Optional[_Union[SettleResult, _Mapping]] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., session_closed: _Optional[_Union[SessionClosed, _Mapping]] = ..., moving: bool = ..., further: _Optional[_Iterable[_Union[ReceiveStreamResponse, _Mapping]]] = ...) -> None: ...

class ReceiverOpened(_message.Message):
    __slots__ = ("lock_duration_ms", "session", "sent_ms")
    LOCK_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SENT_MS_FIELD_NUMBER: _ClassVar[int]
    lock_duration_ms: int
    session: OpenedSession
    sent_ms: int
    def __init__(self, lock_duration_ms: _Optional[int] = ..., session: _Optional[_Union[OpenedSession, _Mapping]] = ..., sent_ms: _Optional[int] = ...) -> None: ...

class OpenedSession(_message.Message):
    __slots__ = ("session_id", "session_token", "locked_until_ms", "lock_remaining_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    session_token: bytes
    locked_until_ms: int
    lock_remaining_ms: int
    def __init__(self, session_id: _Optional[str] = ..., session_token: _Optional[bytes] = ..., locked_until_ms: _Optional[int] = ..., lock_remaining_ms: _Optional[int] = ...) -> None: ...

class SessionClosed(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _message_pb2.Error
    def __init__(self, error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("ask_id", "batches", "error", "sent_ms")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SENT_MS_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    batches: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredBatch]
    error: _message_pb2.Error
    sent_ms: int
    def __init__(self, ask_id: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[_message_pb2.DeliveredBatch, _Mapping]]] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., sent_ms: _Optional[int] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("frame_id", "failures", "locked_until_ms", "lock_remaining_ms")
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    frame_id: int
    failures: _containers.RepeatedCompositeFieldContainer[SettleFailure]
    locked_until_ms: int
    lock_remaining_ms: int
    def __init__(self, frame_id: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[SettleFailure, _Mapping]]] = ..., locked_until_ms: _Optional[int] = ..., lock_remaining_ms: _Optional[int] = ...) -> None: ...

class SettleFailure(_message.Message):
    __slots__ = ("error", "indexes")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    error: _message_pb2.Error
    indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("entity_path", "disposition", "lock_tokens", "changed_properties", "dead_letter_reason", "dead_letter_error_description", "delay_ms")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    disposition: Disposition
    lock_tokens: _containers.RepeatedScalarFieldContainer[str]
    changed_properties: _message_pb2.ValueMap
    dead_letter_reason: str
    dead_letter_error_description: str
    delay_ms: int
    def __init__(self, entity_path: _Optional[str] = ..., disposition: _Optional[_Union[Disposition, str]] = ..., lock_tokens: _Optional[_Iterable[str]] = ..., changed_properties: _Optional[_Union[_message_pb2.ValueMap, _Mapping]] = ..., dead_letter_reason: _Optional[str] = ..., dead_letter_error_description: _Optional[str] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class SettleResponse(_message.Message):
    __slots__ = ("failures", "locked_until_ms")
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedCompositeFieldContainer[SettleFailure]
    locked_until_ms: int
    def __init__(self, failures: _Optional[_Iterable[_Union[SettleFailure, _Mapping]]] = ..., locked_until_ms: _Optional[int] = ...) -> None: ...

class ReceiveDeferredRequest(_message.Message):
    __slots__ = ("entity_path", "receive_mode", "sequence_numbers", "operation_id", "age_ms", "session_token")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_MODE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    receive_mode: ReceiveMode
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    operation_id: bytes
    age_ms: int
    session_token: bytes
    def __init__(self, entity_path: _Optional[str] = ..., receive_mode: _Optional[_Union[ReceiveMode, str]] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., operation_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class ReceiveDeferredResponse(_message.Message):
    __slots__ = ("batches",)
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredBatch]
    def __init__(self, batches: _Optional[_Iterable[_Union[_message_pb2.DeliveredBatch, _Mapping]]] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("entity_path", "max_messages", "from_sequence_number", "cursor", "session_id")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    max_messages: int
    from_sequence_number: int
    cursor: bytes
    session_id: str
    def __init__(self, entity_path: _Optional[str] = ..., max_messages: _Optional[int] = ..., from_sequence_number: _Optional[int] = ..., cursor: _Optional[bytes] = ..., session_id: _Optional[str] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("batches", "cursor")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredBatch]
    cursor: bytes
    def __init__(self, batches: _Optional[_Iterable[_Union[_message_pb2.DeliveredBatch, _Mapping]]] = ..., cursor: _Optional[bytes] = ...) -> None: ...

class DeleteMessagesRequest(_message.Message):
    __slots__ = ("entity_path", "max_messages", "enqueued_before_ms", "include_deferred_and_scheduled", "operation_id", "age_ms", "states")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DEFERRED_AND_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    max_messages: int
    enqueued_before_ms: int
    include_deferred_and_scheduled: bool
    operation_id: bytes
    age_ms: int
    states: _containers.RepeatedScalarFieldContainer[_message_pb2.MessageState]
    def __init__(self, entity_path: _Optional[str] = ..., max_messages: _Optional[int] = ..., enqueued_before_ms: _Optional[int] = ..., include_deferred_and_scheduled: bool = ..., operation_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ..., states: _Optional[_Iterable[_Union[_message_pb2.MessageState, str]]] = ...) -> None: ...

class DeleteMessagesResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class RenewSessionLockRequest(_message.Message):
    __slots__ = ("entity_path", "session_token")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    session_token: bytes
    def __init__(self, entity_path: _Optional[str] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class RenewSessionLockResponse(_message.Message):
    __slots__ = ("locked_until_ms", "lock_remaining_ms")
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    locked_until_ms: int
    lock_remaining_ms: int
    def __init__(self, locked_until_ms: _Optional[int] = ..., lock_remaining_ms: _Optional[int] = ...) -> None: ...

class GetSessionStateRequest(_message.Message):
    __slots__ = ("entity_path", "session_token")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    session_token: bytes
    def __init__(self, entity_path: _Optional[str] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class GetSessionStateResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: bytes
    def __init__(self, state: _Optional[bytes] = ...) -> None: ...

class SetSessionStateRequest(_message.Message):
    __slots__ = ("entity_path", "session_token", "state")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    session_token: bytes
    state: bytes
    def __init__(self, entity_path: _Optional[str] = ..., session_token: _Optional[bytes] = ..., state: _Optional[bytes] = ...) -> None: ...

class SetSessionStateResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("entity_path", "page_size", "page_token", "state_updated_after_ms")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_UPDATED_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    page_size: int
    page_token: bytes
    state_updated_after_ms: int
    def __init__(self, entity_path: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[bytes] = ..., state_updated_after_ms: _Optional[int] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("session_ids", "next_page_token")
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: bytes
    def __init__(self, session_ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[bytes] = ...) -> None: ...

class ListSessionCountsRequest(_message.Message):
    __slots__ = ("entity_path", "page_size", "page_token")
    ENTITY_PATH_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entity_path: str
    page_size: int
    page_token: bytes
    def __init__(self, entity_path: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[bytes] = ...) -> None: ...

class ListSessionCountsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionCounts]
    next_page_token: bytes
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionCounts, _Mapping]]] = ..., next_page_token: _Optional[bytes] = ...) -> None: ...

class SessionCounts(_message.Message):
    __slots__ = ("session_id", "active_message_count", "deferred_message_count", "scheduled_message_count", "locked_message_count", "state_size_in_bytes", "locked_until_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOCKED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATE_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    active_message_count: int
    deferred_message_count: int
    scheduled_message_count: int
    locked_message_count: int
    state_size_in_bytes: int
    locked_until_ms: int
    def __init__(self, session_id: _Optional[str] = ..., active_message_count: _Optional[int] = ..., deferred_message_count: _Optional[int] = ..., scheduled_message_count: _Optional[int] = ..., locked_message_count: _Optional[int] = ..., state_size_in_bytes: _Optional[int] = ..., locked_until_ms: _Optional[int] = ...) -> None: ...
