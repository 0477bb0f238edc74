from bendybus.v1 import message_pb2 as _message_pb2
from bendybus.v1 import pipeline_pb2 as _pipeline_pb2
from bendybus.v1 import receiver_pb2 as _receiver_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubQueue(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUB_QUEUE_UNSPECIFIED: _ClassVar[SubQueue]
    SUB_QUEUE_MAIN: _ClassVar[SubQueue]
    SUB_QUEUE_DEAD_LETTER: _ClassVar[SubQueue]
    SUB_QUEUE_TRANSFER: _ClassVar[SubQueue]
    SUB_QUEUE_TRANSFER_DEAD_LETTER: _ClassVar[SubQueue]
SUB_QUEUE_UNSPECIFIED: SubQueue
SUB_QUEUE_MAIN: SubQueue
SUB_QUEUE_DEAD_LETTER: SubQueue
SUB_QUEUE_TRANSFER: SubQueue
SUB_QUEUE_TRANSFER_DEAD_LETTER: SubQueue

class EntityRef(_message.Message):
    __slots__ = ("uid", "generation", "sub_queue")
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SUB_QUEUE_FIELD_NUMBER: _ClassVar[int]
    uid: str
    generation: int
    sub_queue: SubQueue
    def __init__(self, uid: _Optional[str] = ..., generation: _Optional[int] = ..., sub_queue: _Optional[_Union[SubQueue, str]] = ...) -> None: ...

class SendFramesRequest(_message.Message):
    __slots__ = ("partition", "frame_id", "entity", "batch", "group_sizes", "producer_id", "producer_sequence", "spans", "age_ms", "deadline_monotonic_ms", "measured", "further")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZES_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    frame_id: int
    entity: EntityRef
    batch: _message_pb2.MessageBatch
    group_sizes: _containers.RepeatedScalarFieldContainer[int]
    producer_id: bytes
    producer_sequence: int
    spans: _containers.RepeatedScalarFieldContainer[int]
    age_ms: int
    deadline_monotonic_ms: int
    measured: bool
    further: _containers.RepeatedCompositeFieldContainer[SendFramesRequest]
    def __init__(self, partition: _Optional[int] = ..., frame_id: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., group_sizes: _Optional[_Iterable[int]] = ..., producer_id: _Optional[bytes] = ..., producer_sequence: _Optional[int] = ..., spans: _Optional[_Iterable[int]] = ..., age_ms: _Optional[int] = ..., deadline_monotonic_ms: _Optional[int] = ..., measured: bool = ..., further: _Optional[_Iterable[_Union[SendFramesRequest, _Mapping]]] = ...) -> None: ...

class SendFramesResponse(_message.Message):
    __slots__ = ("frame_id", "sequence_numbers", "duplicates", "failures", "error", "moving", "further")
    FRAME_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    frame_id: int
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    duplicates: _containers.RepeatedScalarFieldContainer[bool]
    failures: _containers.RepeatedCompositeFieldContainer[GroupFailure]
    error: _message_pb2.Error
    moving: bool
    further: _containers.RepeatedCompositeFieldContainer[SendFramesResponse]
    def __init__(self, frame_id: _Optional[int] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., duplicates: _Optional[_Iterable[bool]] = ..., failures: _Optional[_Iterable[_Union[GroupFailure, _Mapping]]] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., moving: bool = ..., further: _Optional[_Iterable[_Union[SendFramesResponse, _Mapping]]] = ...) -> None: ...

class GroupFailure(_message.Message):
    __slots__ = ("group", "error")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    group: int
    error: _message_pb2.Error
    def __init__(self, group: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class TransactRequest(_message.Message):
    __slots__ = ("partition", "entity", "transaction_id", "parts", "age_ms", "deadline_monotonic_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    transaction_id: bytes
    parts: _containers.RepeatedCompositeFieldContainer[TransactionPart]
    age_ms: int
    deadline_monotonic_ms: int
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., transaction_id: _Optional[bytes] = ..., parts: _Optional[_Iterable[_Union[TransactionPart, _Mapping]]] = ..., age_ms: _Optional[int] = ..., deadline_monotonic_ms: _Optional[int] = ...) -> None: ...

class TransactionPart(_message.Message):
    __slots__ = ("send", "settle", "transfer", "cancel", "state")
    SEND_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    send: TransactionSend
    settle: TransactionSettle
    transfer: TransactionTransfer
    cancel: TransactionCancel
    state: TransactionState
    def __init__(self, send: _Optional[_Union[TransactionSend, _Mapping]] = ..., settle: _Optional[_Union[TransactionSettle, _Mapping]] = ..., transfer: _Optional[_Union[TransactionTransfer, _Mapping]] = ..., cancel: _Optional[_Union[TransactionCancel, _Mapping]] = ..., state: _Optional[_Union[TransactionState, _Mapping]] = ...) -> None: ...

class TransactionSend(_message.Message):
    __slots__ = ("batch", "group_sizes", "measured", "reserved_sequence_numbers")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZES_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    batch: _message_pb2.MessageBatch
    group_sizes: _containers.RepeatedScalarFieldContainer[int]
    measured: bool
    reserved_sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., group_sizes: _Optional[_Iterable[int]] = ..., measured: bool = ..., reserved_sequence_numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class TransactionTransfer(_message.Message):
    __slots__ = ("destination", "batch", "group_sizes", "measured", "reserved_sequence_numbers")
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZES_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    destination: EntityRef
    batch: _message_pb2.MessageBatch
    group_sizes: _containers.RepeatedScalarFieldContainer[int]
    measured: bool
    reserved_sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, destination: _Optional[_Union[EntityRef, _Mapping]] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., group_sizes: _Optional[_Iterable[int]] = ..., measured: bool = ..., reserved_sequence_numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class TransactionSettle(_message.Message):
    __slots__ = ("disposition", "lock_tokens", "changed_properties", "dead_letter_reason", "dead_letter_error_description", "session_token")
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    disposition: _receiver_pb2.Disposition
    lock_tokens: bytes
    changed_properties: _message_pb2.ValueMap
    dead_letter_reason: str
    dead_letter_error_description: str
    session_token: bytes
    def __init__(self, disposition: _Optional[_Union[_receiver_pb2.Disposition, str]] = ..., lock_tokens: _Optional[bytes] = ..., changed_properties: _Optional[_Union[_message_pb2.ValueMap, _Mapping]] = ..., dead_letter_reason: _Optional[str] = ..., dead_letter_error_description: _Optional[str] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class TransactionCancel(_message.Message):
    __slots__ = ("sequence_numbers",)
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequence_numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class TransactionState(_message.Message):
    __slots__ = ("session_token", "state")
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    session_token: bytes
    state: bytes
    def __init__(self, session_token: _Optional[bytes] = ..., state: _Optional[bytes] = ...) -> None: ...

class TransactResponse(_message.Message):
    __slots__ = ("outcomes", "refusal")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[TransactionOutcome]
    refusal: TransactionRefusal
    def __init__(self, outcomes: _Optional[_Iterable[_Union[TransactionOutcome, _Mapping]]] = ..., refusal: _Optional[_Union[TransactionRefusal, _Mapping]] = ...) -> None: ...

class TransactionOutcome(_message.Message):
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

class TransactionRefusal(_message.Message):
    __slots__ = ("part", "error")
    PART_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    part: int
    error: _message_pb2.Error
    def __init__(self, part: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class DeliverFramesRequest(_message.Message):
    __slots__ = ("partition", "ask", "withdraw", "deliver", "release", "settle", "accept_session", "confirm_session", "close_session", "renew_session", "attach_session", "told_session", "further")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    DELIVER_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_SESSION_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_SESSION_FIELD_NUMBER: _ClassVar[int]
    CLOSE_SESSION_FIELD_NUMBER: _ClassVar[int]
    RENEW_SESSION_FIELD_NUMBER: _ClassVar[int]
    ATTACH_SESSION_FIELD_NUMBER: _ClassVar[int]
    TOLD_SESSION_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    ask: Ask
    withdraw: Withdraw
    deliver: Deliver
    release: Release
    settle: Settle
    accept_session: AcceptSession
    confirm_session: SessionRequest
    close_session: SessionRequest
    renew_session: SessionRequest
    attach_session: SessionRequest
    told_session: ToldSession
    further: _containers.RepeatedCompositeFieldContainer[DeliverFramesRequest]
    def __init__(self, partition: _Optional[int] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., withdraw: _Optional[_Union[Withdraw, _Mapping]] = ..., deliver: _Optional[_Union[Deliver, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., accept_session: _Optional[_Union[AcceptSession, _Mapping]] = ..., confirm_session: _Optional[_Union[SessionRequest, _Mapping]] = ..., close_session: _Optional[_Union[SessionRequest, _Mapping]] = ..., renew_session: _Optional[_Union[SessionRequest, _Mapping]] = ..., attach_session: _Optional[_Union[SessionRequest, _Mapping]] = ..., told_session: _Optional[_Union[ToldSession, _Mapping]] = ..., further: _Optional[_Iterable[_Union[DeliverFramesRequest, _Mapping]]] = ...) -> None: ...

class AcceptSession(_message.Message):
    __slots__ = ("ask_id", "entity", "session_id", "receiver_id")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_ID_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    entity: EntityRef
    session_id: str
    receiver_id: bytes
    def __init__(self, ask_id: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., session_id: _Optional[str] = ..., receiver_id: _Optional[bytes] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("request_id", "session_token", "entity_uid", "release_others", "held_lock_tokens", "attachment", "receiver_id", "tells")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENTITY_UID_FIELD_NUMBER: _ClassVar[int]
    RELEASE_OTHERS_FIELD_NUMBER: _ClassVar[int]
    HELD_LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_ID_FIELD_NUMBER: _ClassVar[int]
    TELLS_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    session_token: bytes
    entity_uid: str
    release_others: bool
    held_lock_tokens: bytes
    attachment: int
    receiver_id: bytes
    tells: bool
    def __init__(self, request_id: _Optional[int] = ..., session_token: _Optional[bytes] = ..., entity_uid: _Optional[str] = ..., release_others: bool = ..., held_lock_tokens: _Optional[bytes] = ..., attachment: _Optional[int] = ..., receiver_id: _Optional[bytes] = ..., tells: bool = ...) -> None: ...

class ToldSession(_message.Message):
    __slots__ = ("session_token", "entity_uid")
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENTITY_UID_FIELD_NUMBER: _ClassVar[int]
    session_token: bytes
    entity_uid: str
    def __init__(self, session_token: _Optional[bytes] = ..., entity_uid: _Optional[str] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("ask_id", "entity", "receive_mode", "max_messages", "max_bytes", "session_token")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_MODE_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    entity: EntityRef
    receive_mode: _receiver_pb2.ReceiveMode
    max_messages: int
    max_bytes: int
    session_token: bytes
    def __init__(self, ask_id: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., receive_mode: _Optional[_Union[_receiver_pb2.ReceiveMode, str]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class Withdraw(_message.Message):
    __slots__ = ("ask_id",)
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    def __init__(self, ask_id: _Optional[int] = ...) -> None: ...

class Deliver(_message.Message):
    __slots__ = ("deliver_id", "lock_tokens")
    DELIVER_ID_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    deliver_id: int
    lock_tokens: bytes
    def __init__(self, deliver_id: _Optional[int] = ..., lock_tokens: _Optional[bytes] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("lock_tokens",)
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    lock_tokens: bytes
    def __init__(self, lock_tokens: _Optional[bytes] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("settle_id", "disposition", "lock_tokens", "changed_properties", "dead_letter_reason", "dead_letter_error_description", "entity_uid", "settler_id", "repeat", "session_token", "delay_ms", "sub_queue", "message_id")
    SETTLE_ID_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_UID_FIELD_NUMBER: _ClassVar[int]
    SETTLER_ID_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    SUB_QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    settle_id: int
    disposition: _receiver_pb2.Disposition
    lock_tokens: bytes
    changed_properties: _message_pb2.ValueMap
    dead_letter_reason: str
    dead_letter_error_description: str
    entity_uid: str
    settler_id: bytes
    repeat: bool
    session_token: bytes
    delay_ms: int
    sub_queue: int
    message_id: str
    def __init__(self, settle_id: _Optional[int] = ..., disposition: _Optional[_Union[_receiver_pb2.Disposition, str]] = ..., lock_tokens: _Optional[bytes] = ..., changed_properties: _Optional[_Union[_message_pb2.ValueMap, _Mapping]] = ..., dead_letter_reason: _Optional[str] = ..., dead_letter_error_description: _Optional[str] = ..., entity_uid: _Optional[str] = ..., settler_id: _Optional[bytes] = ..., repeat: bool = ..., session_token: _Optional[bytes] = ..., delay_ms: _Optional[int] = ..., sub_queue: _Optional[int] = ..., message_id: _Optional[str] = ...) -> None: ...

class DeliverFramesResponse(_message.Message):
    __slots__ = ("reserved", "delivered", "settled", "withdrawn", "ask_refused", "session_offered", "session_result", "recalled", "moving", "further")
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    ASK_REFUSED_FIELD_NUMBER: _ClassVar[int]
    SESSION_OFFERED_FIELD_NUMBER: _ClassVar[int]
    SESSION_RESULT_FIELD_NUMBER: _ClassVar[int]
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    reserved: Reserved
    delivered: Delivered
    settled: SettleResult
    withdrawn: Withdrawn
    ask_refused: AskRefused
    session_offered: SessionOffered
    session_result: SessionResult
    recalled: Recalled
    moving: bool
    further: _containers.RepeatedCompositeFieldContainer[DeliverFramesResponse]
    def __init__(self, reserved: _Optional[_Union[Reserved, _Mapping]] = ..., delivered: _Optional[_Union[Delivered, _Mapping]] = ..., settled: _Optional[_Union[SettleResult, _Mapping]] = ..., withdrawn: _Optional[_Union[Withdrawn, _Mapping]] = ..., ask_refused: _Optional[_Union[AskRefused, _Mapping]] = ..., session_offered: _Optional[_Union[SessionOffered, _Mapping]] = ..., session_result: _Optional[_Union[SessionResult, _Mapping]] = ..., recalled: _Optional[_Union[Recalled, _Mapping]] = ..., moving: bool = ..., further: _Optional[_Iterable[_Union[DeliverFramesResponse, _Mapping]]] = ...) -> None: ...

class SessionOffered(_message.Message):
    __slots__ = ("ask_id", "session_id", "session_token", "offer_remaining_ms")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OFFER_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    session_id: str
    session_token: bytes
    offer_remaining_ms: int
    def __init__(self, ask_id: _Optional[int] = ..., session_id: _Optional[str] = ..., session_token: _Optional[bytes] = ..., offer_remaining_ms: _Optional[int] = ...) -> None: ...

class SessionResult(_message.Message):
    __slots__ = ("request_id", "error", "locked_until_ms", "lock_remaining_ms", "locked_until_monotonic_ms", "attachment")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: _message_pb2.Error
    locked_until_ms: int
    lock_remaining_ms: int
    locked_until_monotonic_ms: int
    attachment: int
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ..., locked_until_ms: _Optional[int] = ..., lock_remaining_ms: _Optional[int] = ..., locked_until_monotonic_ms: _Optional[int] = ..., attachment: _Optional[int] = ...) -> None: ...

class Recalled(_message.Message):
    __slots__ = ("lock_tokens", "session_token")
    LOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    lock_tokens: bytes
    session_token: bytes
    def __init__(self, lock_tokens: _Optional[bytes] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class Reserved(_message.Message):
    __slots__ = ("ask_id", "batch", "lock_remaining_ms", "more", "locked_until_monotonic_ms")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    batch: _message_pb2.DeliveredBatch
    lock_remaining_ms: int
    more: bool
    locked_until_monotonic_ms: int
    def __init__(self, ask_id: _Optional[int] = ..., batch: _Optional[_Union[_message_pb2.DeliveredBatch, _Mapping]] = ..., lock_remaining_ms: _Optional[int] = ..., more: bool = ..., locked_until_monotonic_ms: _Optional[int] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ("deliver_id", "lost", "error")
    DELIVER_ID_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    deliver_id: int
    lost: _containers.RepeatedScalarFieldContainer[int]
    error: _message_pb2.Error
    def __init__(self, deliver_id: _Optional[int] = ..., lost: _Optional[_Iterable[int]] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("settle_id", "failures", "locked_until_ms", "lock_remaining_ms")
    SETTLE_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    settle_id: int
    failures: _containers.RepeatedCompositeFieldContainer[_receiver_pb2.SettleFailure]
    locked_until_ms: int
    lock_remaining_ms: int
    def __init__(self, settle_id: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[_receiver_pb2.SettleFailure, _Mapping]]] = ..., locked_until_ms: _Optional[int] = ..., lock_remaining_ms: _Optional[int] = ...) -> None: ...

class Withdrawn(_message.Message):
    __slots__ = ("ask_id",)
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    def __init__(self, ask_id: _Optional[int] = ...) -> None: ...

class AskRefused(_message.Message):
    __slots__ = ("ask_id", "error")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ask_id: int
    error: _message_pb2.Error
    def __init__(self, ask_id: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class EchoRequest(_message.Message):
    __slots__ = ("partition", "echo_id")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ECHO_ID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    echo_id: int
    def __init__(self, partition: _Optional[int] = ..., echo_id: _Optional[int] = ...) -> None: ...

class EchoResponse(_message.Message):
    __slots__ = ("echo_id", "monotonic_ms", "wall_ms", "serving", "conditions")
    ECHO_ID_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    echo_id: int
    monotonic_ms: int
    wall_ms: int
    serving: bool
    conditions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, echo_id: _Optional[int] = ..., monotonic_ms: _Optional[int] = ..., wall_ms: _Optional[int] = ..., serving: bool = ..., conditions: _Optional[_Iterable[str]] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("partition", "entity", "from_sequence_number", "max_messages", "max_bytes", "session_id")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    from_sequence_number: int
    max_messages: int
    max_bytes: int
    session_id: str
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., from_sequence_number: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., session_id: _Optional[str] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("batch", "next_sequence_number")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    batch: _message_pb2.DeliveredBatch
    next_sequence_number: int
    def __init__(self, batch: _Optional[_Union[_message_pb2.DeliveredBatch, _Mapping]] = ..., next_sequence_number: _Optional[int] = ...) -> None: ...

class ReceiveDeferredRequest(_message.Message):
    __slots__ = ("partition", "entity", "receive_mode", "sequence_numbers", "operation_id", "age_ms", "session_token")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_MODE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    receive_mode: _receiver_pb2.ReceiveMode
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    operation_id: bytes
    age_ms: int
    session_token: bytes
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., receive_mode: _Optional[_Union[_receiver_pb2.ReceiveMode, str]] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., operation_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class ReceiveDeferredResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: _message_pb2.DeliveredBatch
    def __init__(self, batch: _Optional[_Union[_message_pb2.DeliveredBatch, _Mapping]] = ...) -> None: ...

class CancelScheduledMessagesRequest(_message.Message):
    __slots__ = ("partition", "entity", "sequence_numbers", "operation_id", "age_ms", "only_check")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ONLY_CHECK_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    operation_id: bytes
    age_ms: int
    only_check: bool
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., sequence_numbers: _Optional[_Iterable[int]] = ..., operation_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ..., only_check: bool = ...) -> None: ...

class CancelScheduledMessagesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReserveNumbersRequest(_message.Message):
    __slots__ = ("partition", "entity", "count")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    count: int
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class ReserveNumbersResponse(_message.Message):
    __slots__ = ("first_sequence_number",)
    FIRST_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    first_sequence_number: int
    def __init__(self, first_sequence_number: _Optional[int] = ...) -> None: ...

class DeleteMessagesRequest(_message.Message):
    __slots__ = ("partition", "entity", "max_messages", "enqueued_before_ms", "include_deferred_and_scheduled", "operation_id", "age_ms", "only_known", "states")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DEFERRED_AND_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ONLY_KNOWN_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    max_messages: int
    enqueued_before_ms: int
    include_deferred_and_scheduled: bool
    operation_id: bytes
    age_ms: int
    only_known: bool
    states: _containers.RepeatedScalarFieldContainer[_message_pb2.MessageState]
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., max_messages: _Optional[int] = ..., enqueued_before_ms: _Optional[int] = ..., include_deferred_and_scheduled: bool = ..., operation_id: _Optional[bytes] = ..., age_ms: _Optional[int] = ..., only_known: bool = ..., states: _Optional[_Iterable[_Union[_message_pb2.MessageState, str]]] = ...) -> None: ...

class DeleteMessagesResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class GetCountsRequest(_message.Message):
    __slots__ = ("partition", "uids", "entities_max", "after_uid", "oldest")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    UIDS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_MAX_FIELD_NUMBER: _ClassVar[int]
    AFTER_UID_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    partition: int
    uids: _containers.RepeatedScalarFieldContainer[str]
    entities_max: int
    after_uid: str
    oldest: bool
    def __init__(self, partition: _Optional[int] = ..., uids: _Optional[_Iterable[str]] = ..., entities_max: _Optional[int] = ..., after_uid: _Optional[str] = ..., oldest: bool = ...) -> None: ...

class GetCountsResponse(_message.Message):
    __slots__ = ("entities", "conditions", "more")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedCompositeFieldContainer[EntityCounts]
    conditions: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    def __init__(self, entities: _Optional[_Iterable[_Union[EntityCounts, _Mapping]]] = ..., conditions: _Optional[_Iterable[str]] = ..., more: bool = ...) -> None: ...

class EntityCounts(_message.Message):
    __slots__ = ("uid", "generation", "active", "locked", "deferred", "scheduled", "dead_letter", "size_in_bytes", "idle_ms", "accessed_at_ms", "transfer_dead_letter", "transfer", "oldest_active_ms")
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    ACCESSED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    OLDEST_ACTIVE_MS_FIELD_NUMBER: _ClassVar[int]
    uid: str
    generation: int
    active: int
    locked: int
    deferred: int
    scheduled: int
    dead_letter: int
    size_in_bytes: int
    idle_ms: int
    accessed_at_ms: int
    transfer_dead_letter: int
    transfer: int
    oldest_active_ms: int
    def __init__(self, uid: _Optional[str] = ..., generation: _Optional[int] = ..., active: _Optional[int] = ..., locked: _Optional[int] = ..., deferred: _Optional[int] = ..., scheduled: _Optional[int] = ..., dead_letter: _Optional[int] = ..., size_in_bytes: _Optional[int] = ..., idle_ms: _Optional[int] = ..., accessed_at_ms: _Optional[int] = ..., transfer_dead_letter: _Optional[int] = ..., transfer: _Optional[int] = ..., oldest_active_ms: _Optional[int] = ...) -> None: ...

class SetSessionStateRequest(_message.Message):
    __slots__ = ("partition", "session_token", "state", "entity_uid")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_UID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    session_token: bytes
    state: bytes
    entity_uid: str
    def __init__(self, partition: _Optional[int] = ..., session_token: _Optional[bytes] = ..., state: _Optional[bytes] = ..., entity_uid: _Optional[str] = ...) -> None: ...

class SetSessionStateResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSessionStateRequest(_message.Message):
    __slots__ = ("partition", "session_token", "entity_uid")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENTITY_UID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    session_token: bytes
    entity_uid: str
    def __init__(self, partition: _Optional[int] = ..., session_token: _Optional[bytes] = ..., entity_uid: _Optional[str] = ...) -> None: ...

class GetSessionStateResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: bytes
    def __init__(self, state: _Optional[bytes] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("partition", "entity", "max_sessions", "after", "state_updated_after_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    STATE_UPDATED_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    max_sessions: int
    after: str
    state_updated_after_ms: int
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., max_sessions: _Optional[int] = ..., after: _Optional[str] = ..., state_updated_after_ms: _Optional[int] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("session_ids", "following")
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    following: str
    def __init__(self, session_ids: _Optional[_Iterable[str]] = ..., following: _Optional[str] = ...) -> None: ...

class CountSessionsRequest(_message.Message):
    __slots__ = ("partition", "entity", "max_sessions", "after")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    max_sessions: int
    after: SessionCountPlace
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., max_sessions: _Optional[int] = ..., after: _Optional[_Union[SessionCountPlace, _Mapping]] = ...) -> None: ...

class CountSessionsResponse(_message.Message):
    __slots__ = ("sessions", "following")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[_receiver_pb2.SessionCounts]
    following: SessionCountPlace
    def __init__(self, sessions: _Optional[_Iterable[_Union[_receiver_pb2.SessionCounts, _Mapping]]] = ..., following: _Optional[_Union[SessionCountPlace, _Mapping]] = ...) -> None: ...

class SessionCountPlace(_message.Message):
    __slots__ = ("session_id", "state", "counter", "active", "deferred", "scheduled")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    state: int
    counter: int
    active: int
    deferred: int
    scheduled: int
    def __init__(self, session_id: _Optional[str] = ..., state: _Optional[int] = ..., counter: _Optional[int] = ..., active: _Optional[int] = ..., deferred: _Optional[int] = ..., scheduled: _Optional[int] = ...) -> None: ...

class ForwardRequest(_message.Message):
    __slots__ = ("partition", "entity", "source", "boot", "sequence", "batch", "columns", "counters", "settled", "settled_below", "overtake", "deadline_monotonic_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BELOW_FIELD_NUMBER: _ClassVar[int]
    OVERTAKE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    source: ForwardSource
    boot: int
    sequence: int
    batch: _message_pb2.MessageBatch
    columns: ForwardedColumns
    counters: _containers.RepeatedScalarFieldContainer[int]
    settled: _containers.RepeatedScalarFieldContainer[int]
    settled_below: int
    overtake: bool
    deadline_monotonic_ms: int
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., source: _Optional[_Union[ForwardSource, _Mapping]] = ..., boot: _Optional[int] = ..., sequence: _Optional[int] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., columns: _Optional[_Union[ForwardedColumns, _Mapping]] = ..., counters: _Optional[_Iterable[int]] = ..., settled: _Optional[_Iterable[int]] = ..., settled_below: _Optional[int] = ..., overtake: bool = ..., deadline_monotonic_ms: _Optional[int] = ...) -> None: ...

class ForwardSource(_message.Message):
    __slots__ = ("uid", "sub_queue", "partition", "incarnation", "destination")
    UID_FIELD_NUMBER: _ClassVar[int]
    SUB_QUEUE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    uid: str
    sub_queue: SubQueue
    partition: int
    incarnation: bytes
    destination: str
    def __init__(self, uid: _Optional[str] = ..., sub_queue: _Optional[_Union[SubQueue, str]] = ..., partition: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., destination: _Optional[str] = ...) -> None: ...

class ForwardedColumns(_message.Message):
    __slots__ = ("changed_properties", "dead_letter_reasons", "dead_letter_error_descriptions", "dead_letter_sources", "enqueued_sequence_numbers", "hops", "reserved_sequence_numbers")
    CHANGED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASONS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_ERROR_DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_SOURCES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_SEQUENCE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    changed_properties: _containers.RepeatedScalarFieldContainer[bytes]
    dead_letter_reasons: _containers.RepeatedScalarFieldContainer[str]
    dead_letter_error_descriptions: _containers.RepeatedScalarFieldContainer[str]
    dead_letter_sources: _containers.RepeatedScalarFieldContainer[str]
    enqueued_sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    hops: _containers.RepeatedScalarFieldContainer[int]
    reserved_sequence_numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, changed_properties: _Optional[_Iterable[bytes]] = ..., dead_letter_reasons: _Optional[_Iterable[str]] = ..., dead_letter_error_descriptions: _Optional[_Iterable[str]] = ..., dead_letter_sources: _Optional[_Iterable[str]] = ..., enqueued_sequence_numbers: _Optional[_Iterable[int]] = ..., hops: _Optional[_Iterable[int]] = ..., reserved_sequence_numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class ForwardResponse(_message.Message):
    __slots__ = ("done", "failures", "monotonic_ms")
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    done: int
    failures: _containers.RepeatedCompositeFieldContainer[ForwardFailure]
    monotonic_ms: int
    def __init__(self, done: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[ForwardFailure, _Mapping]]] = ..., monotonic_ms: _Optional[int] = ...) -> None: ...

class ForwardFailure(_message.Message):
    __slots__ = ("message", "error")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    message: int
    error: _message_pb2.Error
    def __init__(self, message: _Optional[int] = ..., error: _Optional[_Union[_message_pb2.Error, _Mapping]] = ...) -> None: ...

class GetRangeRequest(_message.Message):
    __slots__ = ("partition", "entity")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ...) -> None: ...

class GetRangeResponse(_message.Message):
    __slots__ = ("range",)
    RANGE_FIELD_NUMBER: _ClassVar[int]
    range: _pipeline_pb2.PartitionRange
    def __init__(self, range: _Optional[_Union[_pipeline_pb2.PartitionRange, _Mapping]] = ...) -> None: ...

class BrowseRangeRequest(_message.Message):
    __slots__ = ("partition", "entity", "after", "upto", "max_messages", "max_bytes", "states", "without_bodies")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_BODIES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    after: int
    upto: int
    max_messages: int
    max_bytes: int
    states: _containers.RepeatedScalarFieldContainer[_message_pb2.MessageState]
    without_bodies: bool
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., after: _Optional[int] = ..., upto: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., states: _Optional[_Iterable[_Union[_message_pb2.MessageState, str]]] = ..., without_bodies: bool = ...) -> None: ...

class BrowseRangeResponse(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: _pipeline_pb2.BrowsePartitionResponse
    def __init__(self, page: _Optional[_Union[_pipeline_pb2.BrowsePartitionResponse, _Mapping]] = ...) -> None: ...

class FindNumberRequest(_message.Message):
    __slots__ = ("partition", "entity", "enqueued_time_ms", "after")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    enqueued_time_ms: int
    after: int
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., enqueued_time_ms: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class FindNumberResponse(_message.Message):
    __slots__ = ("after", "found")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    after: int
    found: bool
    def __init__(self, after: _Optional[int] = ..., found: bool = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("partition", "entity", "owner", "duration_ms", "grant_above", "hold_epoch", "release_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    GRANT_ABOVE_FIELD_NUMBER: _ClassVar[int]
    HOLD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RELEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    owner: str
    duration_ms: int
    grant_above: int
    hold_epoch: int
    release_epoch: int
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., owner: _Optional[str] = ..., duration_ms: _Optional[int] = ..., grant_above: _Optional[int] = ..., hold_epoch: _Optional[int] = ..., release_epoch: _Optional[int] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("epoch", "locked_message_count")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOCKED_MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    locked_message_count: int
    def __init__(self, epoch: _Optional[int] = ..., locked_message_count: _Optional[int] = ...) -> None: ...

class SettleRangeRequest(_message.Message):
    __slots__ = ("partition", "entity", "epoch", "upto", "numbers", "incarnation")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    epoch: int
    upto: int
    numbers: _pipeline_pb2.SequenceNumbers
    incarnation: str
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., epoch: _Optional[int] = ..., upto: _Optional[int] = ..., numbers: _Optional[_Union[_pipeline_pb2.SequenceNumbers, _Mapping]] = ..., incarnation: _Optional[str] = ...) -> None: ...

class SettleRangeResponse(_message.Message):
    __slots__ = ("deleted", "more")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    more: bool
    def __init__(self, deleted: _Optional[int] = ..., more: bool = ...) -> None: ...

class SendFencedRequest(_message.Message):
    __slots__ = ("partition", "entity", "producer_id", "epoch", "ordinals", "batch", "mark", "deadline_monotonic_ms", "replace")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    producer_id: bytes
    epoch: int
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    batch: _message_pb2.MessageBatch
    mark: bytes
    deadline_monotonic_ms: int
    replace: bool
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., producer_id: _Optional[bytes] = ..., epoch: _Optional[int] = ..., ordinals: _Optional[_Iterable[int]] = ..., batch: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ..., mark: _Optional[bytes] = ..., deadline_monotonic_ms: _Optional[int] = ..., replace: bool = ...) -> None: ...

class SendFencedResponse(_message.Message):
    __slots__ = ("stored", "repeated_messages", "duplicates")
    STORED_FIELD_NUMBER: _ClassVar[int]
    REPEATED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    stored: int
    repeated_messages: int
    duplicates: int
    def __init__(self, stored: _Optional[int] = ..., repeated_messages: _Optional[int] = ..., duplicates: _Optional[int] = ...) -> None: ...

class GetFenceRequest(_message.Message):
    __slots__ = ("partition", "entity", "producer_id")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    entity: EntityRef
    producer_id: bytes
    def __init__(self, partition: _Optional[int] = ..., entity: _Optional[_Union[EntityRef, _Mapping]] = ..., producer_id: _Optional[bytes] = ...) -> None: ...

class GetFenceResponse(_message.Message):
    __slots__ = ("epoch", "ordinal", "mark")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ordinal: int
    mark: bytes
    def __init__(self, epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., mark: _Optional[bytes] = ...) -> None: ...
