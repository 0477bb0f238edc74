"""Frames of the streams of sends and deliveries: what they ask for, and what they are answered."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.replies import Outbox, SendReply
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state import answers, commands
from bendybus.partition_server.state.commands import Command
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.v1 import receiver_pb2
from bendybus.wire import frame_forms, statuses

Stream: TypeAlias = Outbox[partition_pb2.DeliverFramesResponse]
_SESSION_REQUESTS: Final[dict[str, Callable[[Caller, int, bytes, str], Command]]] = {
    "close_session": commands.CloseSession,
    "renew_session": commands.RenewSession,
}
_ANSWERED: Final = (commands.Settle, commands.SessionRequest)
_OUTCOMES: Final = (answers.Settled, answers.SessionResult)
_DISPOSITIONS: Final[frozenset[int]] = frozenset(Disposition)


def commands_of(request: partition_pb2.DeliverFramesRequest, stream: Stream) -> list[Command]:
    """Return the commands of a frame, in order; notes in `stream` which of them expect an answer.

    Raises InvalidArgument, and no command of the frame is to be executed.
    """
    found = [_command(part, stream) for part in frame_forms.parts(request)]
    for each in found:
        if isinstance(each, _ANSWERED) or (isinstance(each, commands.Deliver) and each.deliver_id):
            stream.expect()
    return found


def _command(request: partition_pb2.DeliverFramesRequest, stream: Stream) -> Command:
    kind = request.WhichOneof("kind")
    if kind == "ask":
        ask = request.ask
        return commands.Ask(
            stream,
            ask.ask_id,
            conversions.entity_ref(ask.entity),
            ask.receive_mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
            ask.max_messages,
            ask.max_bytes,
            ask.session_token,
        )
    if kind == "withdraw":
        return commands.Withdraw(stream, request.withdraw.ask_id)
    if kind == "deliver":
        return commands.Deliver(stream, request.deliver.deliver_id, request.deliver.lock_tokens)
    if kind == "release":
        return commands.Release(stream, request.release.lock_tokens)
    if kind == "settle":
        settle = request.settle
        if settle.disposition not in _DISPOSITIONS:
            raise errors.InvalidArgument("disposition", f"is unknown: {settle.disposition}.")
        changed = settle.changed_properties
        return commands.Settle(
            stream,
            settle.settle_id,
            Disposition(settle.disposition),
            settle.lock_tokens,
            changed.SerializeToString() if changed.entries else None,
            settle.dead_letter_reason,
            settle.dead_letter_error_description,
            settle.entity_uid,
            settle.settler_id,
            settle.repeat,
            settle.session_token,
            settle.delay_ms,
            settle.sub_queue,
            settle.message_id,
        )
    return _session_command(kind, request, stream)


def _session_command(
    kind: str | None, request: partition_pb2.DeliverFramesRequest, stream: Stream
) -> Command:
    if kind == "accept_session":
        accept = request.accept_session
        return commands.AcceptSession(
            stream,
            accept.ask_id,
            conversions.entity_ref(accept.entity),
            accept.session_id if accept.HasField("session_id") else None,
            accept.receiver_id,
        )
    if kind == "confirm_session":
        confirm = request.confirm_session
        return commands.ConfirmSession(
            stream,
            confirm.request_id,
            confirm.session_token,
            confirm.entity_uid,
            confirm.receiver_id,
            confirm.tells,
        )
    if kind == "told_session":
        told = request.told_session
        return commands.ToldSession(stream, told.session_token, told.entity_uid)
    if kind in _SESSION_REQUESTS:
        about: partition_pb2.SessionRequest = getattr(request, kind)
        made = _SESSION_REQUESTS[kind]
        return made(stream, about.request_id, about.session_token, about.entity_uid)
    if kind == "attach_session":
        attach = request.attach_session
        return commands.AttachSession(
            stream,
            attach.request_id,
            attach.session_token,
            attach.entity_uid,
            attach.release_others,
            attach.held_lock_tokens,
            attach.attachment,
        )
    raise errors.InvalidArgument("kind", "must be set.")


def is_outcome(value: object) -> bool:
    """Whether a front end must not lose this answer: what was settled or deleted."""
    return isinstance(value, _OUTCOMES) or (
        isinstance(value, answers.Delivered) and bool(value.deliver_id)
    )


def response(value: object, thread: PartitionThread) -> partition_pb2.DeliverFramesResponse:
    """Return the frame of an answer."""
    made = partition_pb2.DeliverFramesResponse
    if isinstance(value, answers.Reserved):
        batch = conversions.delivery_to_proto(value.delivery, partition=thread.index)
        return made(
            reserved=partition_pb2.Reserved(
                ask_id=value.ask_id,
                batch=batch,
                lock_remaining_ms=value.lock_remaining_ms,
                locked_until_monotonic_ms=value.locked_until_mono_ms,
                more=value.more,
            )
        )
    if isinstance(value, answers.Settled):
        return made(settled=_settle_result(value))
    if isinstance(value, answers.Withdrawn):
        return made(withdrawn=partition_pb2.Withdrawn(ask_id=value.ask_id))
    if isinstance(value, answers.AskRefused):
        error = statuses.to_error(value.error)
        return made(ask_refused=partition_pb2.AskRefused(ask_id=value.ask_id, error=error))
    if isinstance(value, answers.Delivered):
        delivered = partition_pb2.Delivered(deliver_id=value.deliver_id, lost=value.lost)
        if value.error is not None:
            delivered.error.CopyFrom(statuses.to_error(value.error))
        return made(delivered=delivered)
    if isinstance(value, answers.SessionOffered):
        offered = partition_pb2.SessionOffered(
            ask_id=value.ask_id,
            session_id=value.session_id,
            session_token=value.session_token,
            offer_remaining_ms=value.offer_remaining_ms,
        )
        return made(session_offered=offered)
    if isinstance(value, answers.SessionResult):
        return made(session_result=_session_result(value))
    if isinstance(value, answers.Recalled):
        return made(
            recalled=partition_pb2.Recalled(
                lock_tokens=value.tokens, session_token=value.session_token
            )
        )
    raise AssertionError(value)


def _session_result(value: answers.SessionResult) -> partition_pb2.SessionResult:
    result = partition_pb2.SessionResult(
        request_id=value.request_id,
        locked_until_ms=value.locked_until_ms,
        lock_remaining_ms=value.lock_remaining_ms,
        locked_until_monotonic_ms=value.locked_until_mono_ms,
        attachment=value.attachment,
    )
    if value.error is not None:
        result.error.CopyFrom(statuses.to_error(value.error))
    return result


def _settle_result(value: answers.Settled) -> partition_pb2.SettleResult:
    result = partition_pb2.SettleResult(
        settle_id=value.settle_id,
        locked_until_ms=value.locked_until_ms,
        lock_remaining_ms=value.lock_remaining_ms,
    )
    # By error: a frame of many tokens that are lost says why once.
    failures: dict[int, receiver_pb2.SettleFailure] = {}
    for index, error in value.failures:
        failure = failures.get(id(error))
        if failure is None:
            failure = failures[id(error)] = result.failures.add(error=statuses.to_error(error))
        failure.indexes.append(index)
    return result


def send_command(request: partition_pb2.SendFramesRequest, reply: SendReply) -> commands.Append:
    """Return what a frame asks for."""
    return commands.Append(
        reply,
        conversions.entity_ref(request.entity),
        conversions.batch_from_proto(request.batch),
        list(request.group_sizes),
        request.producer_id,
        request.producer_sequence,
        request.spans,
        request.age_ms,
        request.deadline_monotonic_ms,
        request.measured,
    )


def send_response(answer: tuple[int, Any]) -> partition_pb2.SendFramesResponse:
    """Return the frame of an answer: (frame id, outcome)."""
    frame_id, value = answer
    if isinstance(value, answers.Failed):
        return partition_pb2.SendFramesResponse(
            frame_id=frame_id, error=statuses.to_error(value.error)
        )
    return partition_pb2.SendFramesResponse(
        frame_id=frame_id,
        sequence_numbers=value.numbers,
        duplicates=value.duplicates,
        failures=[
            partition_pb2.GroupFailure(group=group, error=statuses.to_error(error))
            for group, error in value.failures
        ],
    )
