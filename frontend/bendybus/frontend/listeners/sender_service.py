"""bendybus.v1.SenderService: a stream for speed, unary calls for people. No rules here."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from bendybus.domain import errors, limits, sequence_number
from bendybus.domain.errors import BusError
from bendybus.frontend.core import by_number, flow_control
from bendybus.frontend.core.flow_control import FlowControl, StreamFlow
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.send import Respond, SendOutcome, SendRequest
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.client_streams import ClientStreams, OpenStream
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.security.authenticator import Caller, Operation
from bendybus.v1 import message_pb2, sender_pb2, sender_pb2_grpc
from bendybus.wire import frame_forms, statuses, streams
from bendybus.wire.streams import ADMITTED, AnswerQueue

# Answers that the client has not read; nothing more of it is read beyond that.
ANSWERS_MAX: Final = 512
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
        self._flow = FlowControl()

    @statuses.unary
    async def Send(
        self, request: sender_pb2.SendRequest, context: Context
    ) -> sender_pb2.SendResponse:
        """Send messages as one unit."""
        with self._front_end.metrics.refusals(request.entity_path):
            name, sub_queue = request_values.entity_and_sub_queue(request.entity_path)
        outcome = await self._front_end.sends.send(
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
            client=context.peer(),
        )
        for error in outcome.failures.values():
            raise error
        return sender_pb2.SendResponse(
            sequence_numbers=outcome.numbers,
            partitions=[sequence_number.partition_of(n) for n in outcome.numbers],
            duplicates=outcome.duplicates,
            possible_duplicate=bool(outcome.possible_duplicates),
        )

    async def SendStream(
        self, request_iterator: AsyncIterator[sender_pb2.SendStreamRequest], context: Context
    ) -> AsyncIterator[sender_pb2.SendStreamResponse]:
        """Send frames; the reader never waits for a partition."""
        async with statuses.errors_as_status(context):
            with (
                self._streams.opened(context) as opened,
                self._flow.of(context.peer()) as connection,
                connection.stream() as flow,
            ):
                async for answer in self._answers(request_iterator, context, opened, flow):
                    yield answer

    async def _answers(
        self,
        request_iterator: AsyncIterator[sender_pb2.SendStreamRequest],
        context: Context,
        opened: OpenStream,
        flow: StreamFlow,
    ) -> AsyncIterator[sender_pb2.SendStreamResponse]:
        connection, client = flow.connection, context.peer()
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
            async for request in request_iterator:
                opened.heard()
                if answers.finishing:
                    # Not answered: the client repeats it on its next stream.
                    continue
                # The reader waits for its own client here, never for a partition.
                if len(answers) >= ANSWERS_MAX:
                    await answers.room(ANSWERS_MAX)
                room = await connection.frame()
                under_way += 1
                connection.frames += 1
                if room:
                    self._submit(opened.caller, client, request, partial(respond, request.frame_id))
                else:
                    respond(request.frame_id, _busy())

        await context.send_initial_metadata(
            (ADMITTED, frame_forms.READS_HEADS, streams.request_limit(self._request_bytes))
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
        self, caller: Caller, client: str, request: sender_pb2.SendStreamRequest, respond: Respond
    ) -> None:
        try:
            caller.check(Operation.SEND, request.entity_path)
            send = to_request(request)
        except BusError as error:
            self._front_end.metrics.refused(request.entity_path, error)
            respond(error)
        else:
            self._front_end.sends.submit(send, respond, client=client)

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


def to_request(frame: sender_pb2.SendStreamRequest) -> SendRequest:
    """Return what a frame of a client asks for. Raises what `entity_and_sub_queue` raises."""
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
    )


def to_response(frame_id: int, result: SendOutcome | BusError) -> sender_pb2.SendStreamResponse:
    """Return the answer to a frame of a client."""
    if isinstance(result, BusError):
        return sender_pb2.SendStreamResponse(frame_id=frame_id, error=statuses.to_error(result))
    return sender_pb2.SendStreamResponse(
        frame_id=frame_id,
        sequence_numbers=result.numbers,
        duplicates=result.duplicates,
        failures=[
            sender_pb2.GroupFailure(group=group, error=statuses.to_error(error))
            for group, error in result.failures.items()
        ],
        possible_duplicates=result.possible_duplicates,
    )


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
        f"{flow_control.FRAMES_MAX} frames of this connection are already in flight. Wait for "
        "answers.",
        retry_after_ms=500,
    )


def _weight(answer: sender_pb2.SendStreamResponse) -> int:
    """Return roughly what an answer takes until it is read, in bytes."""
    numbers, failures = len(answer.sequence_numbers), len(answer.failures)
    return ANSWER_BYTES + NUMBER_BYTES * numbers + FAILURE_BYTES * failures
