"""Frames of the deliver stream to a partition: values ↔ the internal contract."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import entities, statuses

Frame = partition_pb2.DeliverFramesRequest

MODES: Final = {
    ReceiveMode.PEEK_LOCK: receiver_pb2.RECEIVE_MODE_PEEK_LOCK,
    ReceiveMode.RECEIVE_AND_DELETE: receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
}
DISPOSITIONS: Final[dict[Disposition, Any]] = {
    each: receiver_pb2.Disposition.Value(f"DISPOSITION_{each.name}") for each in Disposition
}


class Reserved(NamedTuple):
    """Messages that a partition locked for an ask."""

    ask_id: int
    batch: message_pb2.DeliveredBatch
    lock_remaining_ms: int
    # On the partition's clock; 0: not known.
    locked_until_monotonic_ms: int
    # The queue has more messages there.
    more: bool


class AskEnded(NamedTuple):
    """An ask that gets no messages: it was withdrawn, or `error`: it was refused."""

    ask_id: int
    error: BusError | None


class Deleted(NamedTuple):
    """What became of messages in receive-and-delete mode."""

    deliver_id: int
    # Indexes of messages that were not there any more.
    lost: Sequence[int]
    # None of them was deleted.
    failed: bool


class Settled(NamedTuple):
    """The outcome of a settlement."""

    settle_id: int
    # Indexes of lock tokens, and why their messages were not settled.
    failures: Sequence[tuple[Sequence[int], BusError]]
    # Of renewed locks.
    locked_until_ms: int
    lock_remaining_ms: int


class SessionOffered(NamedTuple):
    """A session for one that accepts; to be confirmed or closed."""

    ask_id: int
    session_id: str
    session_token: bytes


class SessionResult(NamedTuple):
    """What became of a request about a session's lock."""

    request_id: int
    error: BusError | None
    # As in Reserved; 0 after close.
    locked_until_ms: int
    lock_remaining_ms: int
    locked_until_monotonic_ms: int
    # How often its receiver was attached; 0: not known.
    attachment: int = 0


class Recalled(NamedTuple):
    """Messages of a session that are reserved no more: one before them came back."""

    session_token: bytes
    lock_tokens: bytes


Answer = Reserved | AskEnded | Deleted | Settled | SessionOffered | SessionResult | Recalled


def ask(
    *,
    partition: int,
    ask_id: int,
    entity: Entity,
    sub_queue: SubQueue,
    mode: ReceiveMode,
    messages: int,
    size_bytes: int,
    session_token: bytes = b"",
) -> Frame:
    """Return the frame that asks a partition for messages."""
    return Frame(
        partition=partition,
        ask=partition_pb2.Ask(
            ask_id=ask_id,
            entity=entities.ref_to_proto(entity, sub_queue),
            receive_mode=MODES[mode],
            max_messages=messages,
            max_bytes=size_bytes,
            session_token=session_token,
        ),
    )


def accept_session(
    *,
    partition: int,
    ask_id: int,
    entity: Entity,
    sub_queue: SubQueue,
    session_id: str | None,
    receiver_id: bytes = b"",
) -> Frame:
    """Return the frame that asks a partition for a session; None: for any."""
    ref = entities.ref_to_proto(entity, sub_queue)
    asked = partition_pb2.AcceptSession(
        ask_id=ask_id, entity=ref, session_id=session_id, receiver_id=receiver_id
    )
    return Frame(partition=partition, accept_session=asked)


def confirm_session(
    partition: int,
    request_id: int,
    session_token: bytes,
    entity_uid: str,
    receiver_id: bytes = b"",
) -> Frame:
    """Return the frame that locks a session which was offered, for a receiver.

    `told_session` follows when the receiver has been told.
    """
    return Frame(
        partition=partition,
        confirm_session=partition_pb2.SessionRequest(
            request_id=request_id,
            session_token=session_token,
            entity_uid=entity_uid,
            receiver_id=receiver_id,
            tells=True,
        ),
    )


def told_session(partition: int, session_token: bytes, entity_uid: str) -> Frame:
    """Return the frame that says that a receiver has been told of its lock."""
    told = partition_pb2.ToldSession(session_token=session_token, entity_uid=entity_uid)
    return Frame(partition=partition, told_session=told)


def close_session(partition: int, request_id: int, session_token: bytes, entity_uid: str) -> Frame:
    """Return the frame that frees a session, or declines an offer."""
    return Frame(
        partition=partition,
        close_session=partition_pb2.SessionRequest(
            request_id=request_id, session_token=session_token, entity_uid=entity_uid
        ),
    )


def renew_session(partition: int, request_id: int, session_token: bytes, entity_uid: str) -> Frame:
    """Return the frame that renews a session's lock."""
    return Frame(
        partition=partition,
        renew_session=partition_pb2.SessionRequest(
            request_id=request_id, session_token=session_token, entity_uid=entity_uid
        ),
    )


def attach_session(
    partition: int,
    request_id: int,
    session_token: bytes,
    entity_uid: str,
    held_lock_tokens: bytes | None = None,
    attachment: int = 0,
) -> Frame:
    """Return the frame that lets a session be served on this stream.

    `held_lock_tokens`: the locks that its receiver has, others are given up; None: all stay, and
    the receiver is the one of `attachment`.
    """
    return Frame(
        partition=partition,
        attach_session=partition_pb2.SessionRequest(
            request_id=request_id,
            session_token=session_token,
            entity_uid=entity_uid,
            release_others=held_lock_tokens is not None,
            held_lock_tokens=held_lock_tokens or b"",
            attachment=attachment,
        ),
    )


def withdraw(partition: int, ask_id: int) -> Frame:
    """Return the frame that withdraws an ask."""
    return Frame(partition=partition, withdraw=partition_pb2.Withdraw(ask_id=ask_id))


def deliver(partition: int, deliver_id: int, lock_tokens: bytes) -> Frame:
    """Return the frame that begins locks; in receive-and-delete mode, that deletes."""
    return Frame(
        partition=partition,
        deliver=partition_pb2.Deliver(deliver_id=deliver_id, lock_tokens=lock_tokens),
    )


def release(partition: int, lock_tokens: bytes) -> Frame:
    """Return the frame that releases messages which no client saw."""
    return Frame(partition=partition, release=partition_pb2.Release(lock_tokens=lock_tokens))


def settle(
    *,
    partition: int,
    settle_id: int,
    disposition: Disposition,
    lock_tokens: bytes,
    changed_properties: message_pb2.ValueMap | None,
    dead_letter_reason: str,
    dead_letter_error_description: str,
    entity_uid: str,
    settler_id: bytes,
    repeat: bool,
    session_token: bytes = b"",
    delay_ms: int = 0,
    sub_queue: int = 0,
    message_id: str = "",
) -> Frame:
    """Return the frame that settles messages, or renews their locks."""
    return Frame(
        partition=partition,
        settle=partition_pb2.Settle(
            settle_id=settle_id,
            disposition=DISPOSITIONS[disposition],
            lock_tokens=lock_tokens,
            changed_properties=changed_properties,
            dead_letter_reason=dead_letter_reason,
            dead_letter_error_description=dead_letter_error_description,
            entity_uid=entity_uid,
            settler_id=settler_id,
            repeat=repeat,
            session_token=session_token,
            delay_ms=delay_ms,
            sub_queue=sub_queue,
            message_id=message_id,
        ),
    )


def answer(response: partition_pb2.DeliverFramesResponse) -> Answer:
    """Return what a partition answered."""
    kind = response.WhichOneof("kind")
    if kind == "reserved":
        reserved = response.reserved
        return Reserved(
            reserved.ask_id,
            reserved.batch,
            reserved.lock_remaining_ms,
            reserved.locked_until_monotonic_ms,
            reserved.more,
        )
    if kind == "settled":
        settled = response.settled
        return Settled(
            settled.settle_id,
            [(each.indexes, statuses.from_error(each.error)) for each in settled.failures],
            settled.locked_until_ms,
            settled.lock_remaining_ms,
        )
    if kind == "delivered":
        delivered = response.delivered
        return Deleted(delivered.deliver_id, delivered.lost, delivered.HasField("error"))
    if kind == "withdrawn":
        return AskEnded(response.withdrawn.ask_id, None)
    if kind == "ask_refused":
        refused = response.ask_refused
        return AskEnded(refused.ask_id, statuses.from_error(refused.error))
    return _session_answer(kind, response)


def _session_answer(kind: str | None, response: partition_pb2.DeliverFramesResponse) -> Answer:
    if kind == "session_offered":
        offered = response.session_offered
        return SessionOffered(offered.ask_id, offered.session_id, offered.session_token)
    if kind == "recalled":
        return Recalled(response.recalled.session_token, response.recalled.lock_tokens)
    assert kind == "session_result", kind
    result = response.session_result
    return SessionResult(
        result.request_id,
        statuses.from_error(result.error) if result.HasField("error") else None,
        result.locked_until_ms,
        result.lock_remaining_ms,
        result.locked_until_monotonic_ms,
        result.attachment,
    )
