"""bendybus.v1.SenderService: a stream for speed, unary calls for people. No rules here."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from bendybus.domain import bounds, errors, sequence_number
from bendybus.domain.errors import BusError
from bendybus.domain.shared_access import Right
from bendybus.frontend.core import accounts
from bendybus.frontend.core.accounts import Accounts, Share
from bendybus.frontend.core.fan_out import gather
from bendybus.frontend.core.gateway import Gateway
from bendybus.frontend.core.send import Respond
from bendybus.frontend.listeners import deadlines
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.security.access import Pass, enter
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, sender_pb2, sender_pb2_grpc
from bendybus.wire import draining, statuses
from bendybus.wire.admission import ADMITTED

Context = grpc.aio.ServicerContext[Any, Any]
# Answers that the client has not read; nothing more of it is read beyond that.
ANSWERS_MAX: Final = 512
# What an answer takes, a number in it, and an error with its sentence and its facts.
ANSWER_BYTES: Final = 512
NUMBER_BYTES: Final = 10
FAILURE_BYTES: Final = 1_024


class SenderService(sender_pb2_grpc.SenderServiceServicer):
    """Takes messages from clients."""

    def __init__(self, gateway: Gateway, streams: ClientStreams) -> None:
        self._gateway = gateway
        self._streams = streams
        self._accounts = Accounts()

    async def Send(
        self, request: sender_pb2.SendRequest, context: Context
    ) -> sender_pb2.SendResponse:
        """Send messages as one unit."""
        frame = sender_pb2.SendStreamRequest(
            entity_path=request.entity_path,
            batch=_columns(request.messages),
            timeout_ms=deadlines.remaining_ms(context),
            split_by_partition_key=request.split_by_partition_key,
            producer_id=request.producer_id,
            frame_id=request.frame_id,
            age_ms=request.age_ms,
        )
        response = await self._gateway.sends.send(frame, client=context.peer())
        failed = response.failures[0].error if response.failures else response.error
        if failed.reason:
            await statuses.abort(context, statuses.from_error(failed))
        return sender_pb2.SendResponse(
            sequence_numbers=response.sequence_numbers,
            partitions=[sequence_number.partition_of(n) for n in response.sequence_numbers],
            duplicates=response.duplicates,
            possible_duplicate=bool(response.possible_duplicates),
        )

    async def SendStream(
        self, request_iterator: AsyncIterator[sender_pb2.SendStreamRequest], context: Context
    ) -> AsyncIterator[sender_pb2.SendStreamResponse]:
        """Send frames; the reader never waits for a partition."""
        caller = await enter(self._streams.access, context)
        with self._accounts.of(context.peer()) as account, account.share() as share:
            async for answer in self._answers(request_iterator, context, caller, share):
                yield answer

    async def _answers(
        self,
        request_iterator: AsyncIterator[sender_pb2.SendStreamRequest],
        context: Context,
        caller: Pass,
        share: Share,
    ) -> AsyncIterator[sender_pb2.SendStreamResponse]:
        account, client = share.account, context.peer()
        answers: asyncio.Queue[sender_pb2.SendStreamResponse | None] = asyncio.Queue()
        under_way = 0
        finishing = False
        # Cleared while the client does not take its answers off the wire: then nothing more of
        # it is read. The reader waits for its own client here, never for a partition.
        taken = asyncio.Event()
        taken.set()

        def respond(response: sender_pb2.SendStreamResponse) -> None:
            nonlocal under_way
            under_way -= 1
            account.frames -= 1
            answers.put_nowait(response)
            share.handed(_weight(response))
            if finishing and not under_way:
                answers.put_nowait(None)

        def finish() -> None:
            # What is under way is still answered; what is read from now on is not taken.
            nonlocal finishing
            finishing = True
            if not under_way:
                answers.put_nowait(None)

        def move() -> None:
            moving = sender_pb2.SendStreamResponse(moving=True)
            answers.put_nowait(moving)
            share.handed(_weight(moving))
            asyncio.get_running_loop().call_later(draining.MOVE_S, finish)

        async def read() -> None:
            nonlocal under_way
            async for request in request_iterator:
                if finishing:
                    continue
                if answers.qsize() >= ANSWERS_MAX:
                    taken.clear()
                    await taken.wait()
                room = await account.frame()
                under_way += 1
                account.frames += 1
                if not room:
                    respond(_busy(request))
                else:
                    self._submit(caller, client, request, respond)

        await context.send_initial_metadata((ADMITTED,))
        reader = asyncio.get_running_loop().create_task(read(), name="send-stream-reader")
        reader.add_done_callback(lambda _: finish())
        open_ = self._gateway.figures.connections.track_inprogress()
        with open_, self._streams.stream(caller, move):
            try:
                while (answer := await answers.get()) is not None:
                    yield answer
                    share.read(_weight(answer))
                    taken.set()
                if reader.done():
                    await reader
            except DecodeError as error:
                await statuses.abort(context, statuses.malformed(error))
            finally:
                reader.cancel()

    def _submit(
        self, caller: Pass, client: str, request: sender_pb2.SendStreamRequest, respond: Respond
    ) -> None:
        try:
            caller.check(request.entity_path, Right.SEND)
        except BusError as error:
            self._gateway.figures.refused(request.entity_path, error)
            respond(
                sender_pb2.SendStreamResponse(
                    frame_id=request.frame_id, error=statuses.to_error(error)
                )
            )
        else:
            self._gateway.sends.submit(request, respond, client=client)

    async def CancelScheduledMessages(
        self, request: sender_pb2.CancelScheduledMessagesRequest, context: Context
    ) -> sender_pb2.CancelScheduledMessagesResponse:
        """Delete scheduled messages, each in the partition of its number."""
        try:
            await self._cancel(request)
        except BusError as error:
            self._gateway.figures.refused(request.entity_path, error)
            await statuses.abort(context, error)
        return sender_pb2.CancelScheduledMessagesResponse()

    async def _cancel(self, request: sender_pb2.CancelScheduledMessagesRequest) -> None:
        gateway = self._gateway
        entity, dead_letter = gateway.directory.lookup(request.entity_path)
        bounds.check_numbers("sequence_numbers", request.sequence_numbers)
        by_partition: dict[int, list[int]] = {}
        for number in request.sequence_numbers:
            by_partition.setdefault(sequence_number.partition_of(number), []).append(number)
        ref = partition_pb2.EntityRef(
            uid=entity.uid, generation=entity.generation, dead_letter=dead_letter
        )
        await gather(
            gateway.upstreams,
            by_partition,
            lambda calls, partition: calls.CancelScheduledMessages(
                partition_pb2.CancelScheduledMessagesRequest(
                    partition=partition,
                    entity=ref,
                    sequence_numbers=by_partition[partition],
                    operation_id=request.operation_id,
                    age_ms=request.age_ms,
                ),
                timeout=gateway.settings.unary_timeout_s,
            ),
            what="sequence_numbers",
            changes=True,
        )


def _columns(messages: Any) -> message_pb2.MessageBatch:
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


def _busy(request: sender_pb2.SendStreamRequest) -> sender_pb2.SendStreamResponse:
    error = errors.ServerBusy(
        f"{accounts.FRAMES_MAX} frames of this connection are under way already. Wait for answers.",
        retry_after_ms=500,
    )
    return sender_pb2.SendStreamResponse(frame_id=request.frame_id, error=statuses.to_error(error))


def _weight(answer: sender_pb2.SendStreamResponse) -> int:
    """Return roughly what an answer takes until it is read, in bytes."""
    numbers, failures = len(answer.sequence_numbers), len(answer.failures)
    return ANSWER_BYTES + NUMBER_BYTES * numbers + FAILURE_BYTES * failures
