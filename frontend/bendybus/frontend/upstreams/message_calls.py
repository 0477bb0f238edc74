"""Unary calls about messages of one partition: values in, values out, failures as domain errors."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.message_state import MessageState
from bendybus.domain.receive_mode import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.upstreams.deliver_frames import MODES
from bendybus.frontend.upstreams.unary_calls import call, older
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import batch_deletes, entity_refs, message_heads

# Handed on as it is.
SessionCounts = receiver_pb2.SessionCounts
_READS = (message_heads.READS,)


@dataclass(frozen=True, slots=True)
class Target:
    """The queue that a call is about, and how long the call may take."""

    entity: Entity
    sub_queue: SubQueue
    timeout_s: float

    @property
    def ref(self) -> partition_pb2.EntityRef:
        """The queue in the internal contract."""
        return entity_refs.to_proto(self.entity, self.sub_queue)


@dataclass(frozen=True, slots=True)
class Repeatable:
    """The name under which an operation may be repeated; empty: it may not."""

    operation_id: bytes = b""
    # Since the first try; 0: this is the first.
    age_ms: int = 0


async def peek(
    upstream: Upstream,
    target: Target,
    *,
    from_number: int,
    messages: int,
    size_bytes: int,
    session_id: str | None = None,
) -> message_pb2.DeliveredBatch:
    """Return messages from a number on, without locks. Raises the domain error."""
    request = partition_pb2.PeekRequest(
        partition=upstream.partition,
        entity=target.ref,
        from_sequence_number=from_number,
        max_messages=messages,
        max_bytes=size_bytes,
        session_id=session_id,
    )
    answer = await call(
        upstream, lambda calls, _: calls.Peek(request, timeout=target.timeout_s, metadata=_READS)
    )
    batch: message_pb2.DeliveredBatch = answer.batch
    return batch


async def receive_deferred(
    upstream: Upstream,
    target: Target,
    name: Repeatable,
    *,
    mode: ReceiveMode,
    numbers: Sequence[int],
    session_token: bytes = b"",
) -> message_pb2.DeliveredBatch:
    """Lock deferred messages, or delete them; return them. Raises the domain error."""
    request = partition_pb2.ReceiveDeferredRequest(
        partition=upstream.partition,
        entity=target.ref,
        receive_mode=MODES[mode],
        sequence_numbers=numbers,
        operation_id=name.operation_id,
        age_ms=name.age_ms,
        session_token=session_token,
    )
    answer = await call(
        upstream,
        lambda calls, _: calls.ReceiveDeferred(request, timeout=target.timeout_s, metadata=_READS),
        changes=True,
    )
    batch: message_pb2.DeliveredBatch = answer.batch
    return batch


async def cancel_scheduled(
    upstream: Upstream, target: Target, name: Repeatable, *, numbers: Sequence[int]
) -> None:
    """Delete scheduled messages. Raises the domain error."""
    request = partition_pb2.CancelScheduledMessagesRequest(
        partition=upstream.partition,
        entity=target.ref,
        sequence_numbers=numbers,
        operation_id=name.operation_id,
        age_ms=name.age_ms,
    )
    await call(
        upstream,
        lambda calls, _: calls.CancelScheduledMessages(request, timeout=target.timeout_s),
        changes=True,
    )


async def delete_messages(
    upstream: Upstream,
    target: Target,
    name: Repeatable,
    *,
    messages: int,
    enqueued_before_ms: int,
    states: frozenset[MessageState],
    only_known: bool = False,
) -> int:
    """Delete the oldest messages; return how many. Raises the domain error.

    `only_known`: delete nothing, return how many the operation deleted before.
    """
    request = partition_pb2.DeleteMessagesRequest(
        partition=upstream.partition,
        entity=target.ref,
        max_messages=messages,
        operation_id=name.operation_id,
        age_ms=name.age_ms,
        only_known=only_known,
    )
    batch_deletes.write(request, states, enqueued_before_ms)
    try:
        answer = await call(
            upstream,
            lambda calls, _: calls.DeleteMessages(request, timeout=target.timeout_s),
            changes=True,
        )
    except errors.InvalidArgument as error:
        if request.states and error.field == "enqueued_before":
            raise older(upstream) from error
        raise
    return int(answer.deleted)


async def set_session_state(
    upstream: Upstream, target: Target, token: bytes, state: bytes | None
) -> None:
    """Keep something for a session, or nothing. Raises the domain error."""
    request = partition_pb2.SetSessionStateRequest(
        partition=upstream.partition,
        session_token=token,
        state=state,
        entity_uid=target.entity.uid,
    )
    await call(
        upstream,
        lambda calls, _: calls.SetSessionState(request, timeout=target.timeout_s),
        changes=True,
    )


async def session_state(upstream: Upstream, target: Target, token: bytes) -> bytes | None:
    """Return what is kept for a session. Raises the domain error."""
    request = partition_pb2.GetSessionStateRequest(
        partition=upstream.partition, session_token=token, entity_uid=target.entity.uid
    )
    answer = await call(
        upstream, lambda calls, _: calls.GetSessionState(request, timeout=target.timeout_s)
    )
    return answer.state if answer.HasField("state") else None


async def list_sessions(
    upstream: Upstream,
    target: Target,
    *,
    sessions: int,
    after: str | None,
    state_updated_after_ms: int,
) -> tuple[Sequence[str], str | None]:
    """Return sessions of one partition, and where to go on. Raises the domain error."""
    request = partition_pb2.ListSessionsRequest(
        partition=upstream.partition,
        entity=target.ref,
        max_sessions=sessions,
        after=after,
        state_updated_after_ms=state_updated_after_ms,
    )
    answer = await call(
        upstream, lambda calls, _: calls.ListSessions(request, timeout=target.timeout_s)
    )
    return answer.session_ids, answer.following if answer.HasField("following") else None


async def count_sessions(
    upstream: Upstream, target: Target, *, sessions: int, after: bytes | None
) -> tuple[Sequence[SessionCounts], bytes | None]:
    """Return what sessions of one partition hold, and where to go on. Raises the domain error.

    `after` is what an earlier call returned, or a client, unchecked: raises InvalidArgument.
    """
    request = partition_pb2.CountSessionsRequest(
        partition=upstream.partition, entity=target.ref, max_sessions=sessions
    )
    if after is not None:
        try:
            request.after.ParseFromString(after)
        except DecodeError as error:
            raise errors.InvalidArgument("page_token", "is not valid for this call.") from error
    answer = await call(
        upstream, lambda calls, _: calls.CountSessions(request, timeout=target.timeout_s)
    )
    following = answer.following.SerializeToString() if answer.HasField("following") else None
    return answer.sessions, following
