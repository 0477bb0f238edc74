"""bendybus.v1.SenderService: a stream for speed, unary calls for people. No rules here."""

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from bendybus.domain import bounds, errors, limits, sequence_number
from bendybus.domain.errors import BusError
from bendybus.frontend.core import by_number
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import SEND_FRAMES, SENDER_ANSWERS_MAX
from bendybus.frontend.core.quota.flow_control import StreamFlow
from bendybus.frontend.core.send import Respond, SendOutcome, SendRequest
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.client_streams import ClientStreams, OpenStream
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.security.authenticator import Operation
from bendybus.v1 import message_pb2, sender_pb2, sender_pb2_grpc
from bendybus.wire import statuses, streams
from bendybus.wire.contract_versions import CLIENT
from bendybus.wire.streams import ADMITTED, AnswerQueue

# What an answer takes, a number in it, and an error with its sentence and its facts.
ANSWER_BYTES: Final = 512
NUMBER_BYTES: Final = 10
FAILURE_BYTES: Final = 1_024


class SenderService(sender_pb2_grpc.SenderServiceServicer):
    """Takes messages from clients."""

    def __init__(self, front_end: FrontEnd, streams: ClientStreams) -> None:
        self._front_end = front_end
        self._streams = streams
        self._request_bytes = limits.request_bytes_max(len(front_end.upstreams))
        self._flow = front_end.send_answers

    @statuses.unary
    async def Send(
        self, request: sender_pb2.SendRequest, context: Context
    ) -> sender_pb2.SendResponse:
        """Send messages as one unit."""
        with self._front_end.metrics.refusals(request.entity_path):
            name, sub_queue = request_values.entity_and_sub_queue(request.entity_path)
            bounds.check_count("messages", len(request.messages), limits.FRAME_MESSAGES_MAX)
        sends = self._front_end.sends if request.producer_id else self._front_end.nameless_sends
        outcome = await sends.send(
            SendRequest(
                name,
                sub_queue,
                _columns(request.messages),
                timeout_ms=request_values.remaining_ms(context),
                split_by_partition_key=request.split_by_partition_key,
                producer_id=request.producer_id,
                producer_sequence=request.frame_id,
                age_ms=request.age_ms,
            ),
            request_values.HOLDER.get(),
        )
        for error in outcome.failures.values():
            # Its own, see `outcome_of`.
            raise copy.copy(error)
        return sender_pb2.SendResponse(
            sequence_numbers=outcome.numbers,
            partitions=[
                sequence_number.partition_of(outcome.entity, number) or 0
                for number in outcome.numbers
            ],
            duplicates=outcome.duplicates,
            possible_duplicate=bool(outcome.possible_duplicates),
        )

    async def SendStream(
        self, _: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[sender_pb2.SendStreamResponse]:
        """Send frames; the reader never waits for a partition."""
        async with statuses.errors_as_status(context):
            with (
                self._streams.opened(context) as opened,
                self._flow.of(context.peer()) as connection,
                connection.stream() as flow,
            ):
                async for answer in self._answers(context, opened, flow):
                    yield answer

    async def _answers(
        self,
        context: Context,
        opened: OpenStream,
        flow: StreamFlow,
    ) -> AsyncIterator[sender_pb2.SendStreamResponse]:
        connection = flow.connection
        frames = opened.frames(context, sender_pb2.SendStreamRequest)
        under_way = 0
        answers: AnswerQueue[sender_pb2.SendStreamResponse] = AnswerQueue(lambda: under_way > 0)

        def put(answer: sender_pb2.SendStreamResponse) -> None:
            answers.put(answer)
            flow.handed(_weight(answer))

        def respond(frame_id: int, result: SendOutcome | BusError) -> None:
            nonlocal under_way
            under_way -= 1
            connection.frames -= 1
            put(to_response(frame_id, result))

        def move() -> None:
            moving = sender_pb2.SendStreamResponse(moving=True)
            flow.handed(_weight(moving))
            answers.move(moving)

        async def read() -> None:
            nonlocal under_way
            async for request in frames:
                if answers.finishing:
                    # Not answered: the client repeats it on its next stream.
                    del request
                    continue
                # The reader waits for its own client here, never for a partition.
                if len(answers) >= SENDER_ANSWERS_MAX:
                    await answers.room(SENDER_ANSWERS_MAX)
                room = await connection.frame()
                under_way += 1
                connection.frames += 1
                if room:
                    send = partial(respond, request.frame_id)
                    self._submit(opened, request, frames.held_bytes, send)
                else:
                    respond(request.frame_id, _busy())
                # Its room is given back while the next one is waited for.
                del request

        await context.send_initial_metadata(
            (ADMITTED, CLIENT.said, streams.request_limit(self._request_bytes))
        )
        reader = asyncio.get_running_loop().create_task(read(), name="send-stream-reader")
        reader.add_done_callback(lambda _: answers.finish())
        open_ = self._front_end.metrics.connections.track_inprogress()
        with open_, self._streams.stream(opened, move):
            try:
                while (answer := await answers.next()) is not None:
                    yield answer
                    flow.read(_weight(answer))
                if reader.done():
                    await reader
            finally:
                reader.cancel()

    def _submit(
        self,
        opened: OpenStream,
        request: sender_pb2.SendStreamRequest,
        held_bytes: int,
        respond: Respond,
    ) -> None:
        try:
            opened.caller.check(Operation.SEND, request.entity_path)
            send = to_request(request, held_bytes)
        except BusError as error:
            self._front_end.metrics.refused(request.entity_path, error)
            respond(error)
        else:
            self._front_end.sends.submit(send, respond, opened.holder)

    @statuses.unary
    async def CancelScheduledMessages(
        self, request: sender_pb2.CancelScheduledMessagesRequest, context: Context
    ) -> sender_pb2.CancelScheduledMessagesResponse:
        """Delete scheduled messages, each in the partition of its number."""
        with self._front_end.metrics.refusals(request.entity_path):
            await by_number.cancel_scheduled(
                self._front_end,
                by_number.Operation(
                    *request_values.entity_and_sub_queue(request.entity_path),
                    request.sequence_numbers,
                    request.operation_id,
                    request.age_ms,
                ),
            )
        return sender_pb2.CancelScheduledMessagesResponse()

    @statuses.unary
    async def GetSendLimits(
        self, request: sender_pb2.GetSendLimitsRequest, context: Context
    ) -> sender_pb2.GetSendLimitsResponse:
        """Say what may be sent to an entity, as this front end knows it."""
        entity, _ = request_values.entity_and_sub_queue(request.entity_path)
        message, batch = self._front_end.send_limits(entity)
        return sender_pb2.GetSendLimitsResponse(max_message_size=message, max_batch_size=batch)


def to_request(frame: sender_pb2.SendStreamRequest, held_bytes: int = 0) -> SendRequest:
    """Return the request of a client's frame. Raises the errors of `entity_and_sub_queue`.

    `held_bytes`: the memory that the frame needs until it is answered; 0: the bytes of its
    messages.
    """
    return SendRequest(
        *request_values.entity_and_sub_queue(frame.entity_path),
        frame.batch,
        frame.group_sizes,
        frame.split_by_partition_key,
        frame.timeout_ms,
        frame.producer_id,
        frame.frame_id,
        frame.age_ms,
        frame.positions,
        frame.lane if frame.HasField("lane") else None,
        frame.run,
        held_bytes=held_bytes,
    )


def to_response(frame_id: int, result: SendOutcome | BusError) -> sender_pb2.SendStreamResponse:
    """Return the answer to a frame of a client."""
    if isinstance(result, BusError):
        return sender_pb2.SendStreamResponse(frame_id=frame_id, error=statuses.to_error(result))
    response = sender_pb2.SendStreamResponse(
        frame_id=frame_id,
        sequence_numbers=result.numbers,
        duplicates=result.duplicates,
        possible_duplicates=result.possible_duplicates,
    )
    # Each error once: thousands of units may share one.
    spelt: dict[BusError, message_pb2.Error] = {}
    for group, error in result.failures.items():
        if error not in spelt:
            spelt[error] = statuses.to_error(error)
        response.failures.add(group=group, error=spelt[error])
    return response


def _columns(messages: Sequence[sender_pb2.OutgoingMessage]) -> message_pb2.MessageBatch:
    batch = message_pb2.MessageBatch(
        messages=[each.message.SerializeToString() for each in messages]
    )
    if any(each.message_id for each in messages):
        batch.message_ids.extend([each.message_id for each in messages])
    if any(each.partition_key for each in messages):
        batch.partition_keys.extend([each.partition_key for each in messages])
    present = [each.HasField("session_id") for each in messages]
    if any(present):
        batch.session_ids.extend([each.session_id for each in messages])
        batch.session_present.extend(present)
    if any(each.time_to_live_ms for each in messages):
        batch.time_to_live_ms.extend([each.time_to_live_ms for each in messages])
    if any(each.scheduled_enqueue_time_ms for each in messages):
        batch.scheduled_enqueue_time_ms.extend(
            [each.scheduled_enqueue_time_ms for each in messages]
        )
    return batch


def _busy() -> BusError:
    return errors.ServerBusy(
        f"{SEND_FRAMES.connection} frames of this connection are already in flight. Wait for "
        "answers.",
        retry_after_ms=500,
    )


def _weight(answer: sender_pb2.SendStreamResponse) -> int:
    """Return roughly what an answer takes until it is read, in bytes."""
    numbers, failures = len(answer.sequence_numbers), len(answer.failures)
    return ANSWER_BYTES + NUMBER_BYTES * numbers + FAILURE_BYTES * failures
