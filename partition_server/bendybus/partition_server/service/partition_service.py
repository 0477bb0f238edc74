"""The gRPC façade of a process's partitions: frames become commands, answers become frames.

No rules here. A stream belongs to one partition; when it ends, in whatever way, the partition is
told, so that what was reserved for it is released.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import TypeVar

from bendybus.domain import errors, sequence_number
from bendybus.domain.errors import BusError
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from bendybus.partition_server.broker.clocks import read_clocks
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.replies import Outbox, SendReply
from bendybus.partition_server.service import conversions, counting, forward_frames, frames
from bendybus.partition_server.service.hosts import Context, submit
from bendybus.partition_server.service.pipeline_calls import PipelineCalls
from bendybus.partition_server.state import answers, commands
from bendybus.v1 import receiver_pb2
from bendybus.wire import batch_deletes, frame_forms, statuses
from bendybus.wire.contract_versions import FRONT_END

FrameT = TypeVar("FrameT")


class PartitionService(PipelineCalls, partition_pb2_grpc.PartitionServiceServicer):
    """bendybus.internal.v1.PartitionService."""

    async def SendFrames(
        self, request_iterator: AsyncIterator[partition_pb2.SendFramesRequest], context: Context
    ) -> AsyncIterator[partition_pb2.SendFramesResponse]:
        """Store frames; answers after the commit that holds them."""
        await self._admit(context)
        outbox: Outbox[partition_pb2.SendFramesResponse] = Outbox(frames.send_response, merges=True)

        async def read() -> None:
            async for request in request_iterator:
                if outbox.finishing:
                    # Not taken: the front end learns at the end of the stream, and goes elsewhere.
                    continue
                for part in frame_forms.parts(request):
                    self._take_send(part, outbox)

        # At once, so that the front end knows that the stream is open.
        await context.send_initial_metadata((FRONT_END.said,))
        moving = partition_pb2.SendFramesResponse(moving=True)
        async with statuses.errors_as_status(context):
            with self._hosts.traffic.stream(partial(outbox.move, moving)):
                async for frame in both_ways(read(), outbox):
                    yield frame

    def _take_send(
        self,
        request: partition_pb2.SendFramesRequest,
        outbox: Outbox[partition_pb2.SendFramesResponse],
    ) -> None:
        """Hand a frame, or a part of one, to its partition, or refuse it alone."""
        outbox.expect()
        reply = SendReply(outbox, request.frame_id)
        try:
            submit(self._hosts.find(request.partition), frames.send_command(request, reply))
        except BusError as error:
            reply.answer(answers.Failed(error))

    async def DeliverFrames(
        self, request_iterator: AsyncIterator[partition_pb2.DeliverFramesRequest], context: Context
    ) -> AsyncIterator[partition_pb2.DeliverFramesResponse]:
        """Reserve, deliver, settle; see the contract."""
        await self._admit(context)
        opened: list[PartitionThread] = []
        outbox: Outbox[partition_pb2.DeliverFramesResponse] = Outbox(
            lambda value: frames.response(value, opened[0]), awaited=frames.is_outcome, merges=True
        )

        async def read() -> None:
            async for request in request_iterator:
                if outbox.finishing:
                    continue
                if not opened:
                    opened.append(self._hosts.find(request.partition))
                submit(opened[0], *frames.commands_of(request, outbox))

        await context.send_initial_metadata((FRONT_END.said,))
        moving = partition_pb2.DeliverFramesResponse(moving=True)
        try:
            async with statuses.errors_as_status(context):
                with self._hosts.traffic.stream(partial(outbox.move, moving)):
                    async for frame in both_ways(read(), outbox):
                        yield frame
        finally:
            if opened:
                opened[0].submit(commands.StreamEnded(outbox))

    async def Echo(
        self, request_iterator: AsyncIterator[partition_pb2.EchoRequest], context: Context
    ) -> AsyncIterator[partition_pb2.EchoResponse]:
        """Answer at once, from the loop."""
        outbox: Outbox[partition_pb2.EchoResponse] = Outbox(lambda response: response)

        async def read() -> None:
            async for request in request_iterator:
                outbox.answer(self._echo(request))

        with self._hosts.attendance.stream(outbox.close):
            async for frame in both_ways(read(), outbox):
                yield frame

    def _echo(self, request: partition_pb2.EchoRequest) -> partition_pb2.EchoResponse:
        thread = self._hosts.threads.get(request.partition)
        now = read_clocks()
        return partition_pb2.EchoResponse(
            echo_id=request.echo_id,
            monotonic_ms=now.mono_ms,
            wall_ms=now.wall_ms,
            serving=thread is not None and thread.serving,
            conditions=thread.conditions if thread else ("NotServedHere",),
        )

    async def Transact(
        self, request: partition_pb2.TransactRequest, context: Context
    ) -> partition_pb2.TransactResponse:
        """Do all parts, or nothing."""
        outcome: answers.Transacted = await self._ask(
            context, request.partition, lambda reply: conversions.transact_command(request, reply)
        )
        return conversions.transact_response(outcome)

    async def Peek(
        self, request: partition_pb2.PeekRequest, context: Context
    ) -> partition_pb2.PeekResponse:
        """Show messages."""
        peeked: answers.Peeked = await self._ask(
            context,
            request.partition,
            lambda reply: commands.Peek(
                reply,
                conversions.entity_ref(request.entity),
                sequence_number.counter_of(request.from_sequence_number),
                request.max_messages,
                request.max_bytes,
                request.session_id if request.HasField("session_id") else None,
            ),
        )
        return partition_pb2.PeekResponse(
            batch=conversions.delivery_to_proto(peeked.delivery, partition=request.partition),
            next_sequence_number=peeked.next_number,
        )

    async def ReceiveDeferred(
        self, request: partition_pb2.ReceiveDeferredRequest, context: Context
    ) -> partition_pb2.ReceiveDeferredResponse:
        """Lock deferred messages."""
        delivery: answers.Delivery = await self._ask(
            context,
            request.partition,
            lambda reply: commands.ReceiveDeferred(
                reply,
                conversions.entity_ref(request.entity),
                request.receive_mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
                [sequence_number.counter_of(n) for n in request.sequence_numbers],
                request.operation_id,
                request.age_ms,
                request.session_token,
            ),
        )
        batch = conversions.delivery_to_proto(delivery, partition=request.partition)
        return partition_pb2.ReceiveDeferredResponse(batch=batch)

    async def CancelScheduledMessages(
        self, request: partition_pb2.CancelScheduledMessagesRequest, context: Context
    ) -> partition_pb2.CancelScheduledMessagesResponse:
        """Delete scheduled messages."""
        await self._ask(
            context,
            request.partition,
            lambda reply: commands.CancelScheduled(
                reply,
                conversions.entity_ref(request.entity),
                [sequence_number.counter_of(n) for n in request.sequence_numbers],
                request.operation_id,
                request.age_ms,
                request.only_check,
            ),
        )
        return partition_pb2.CancelScheduledMessagesResponse()

    async def ReserveNumbers(
        self, request: partition_pb2.ReserveNumbersRequest, context: Context
    ) -> partition_pb2.ReserveNumbersResponse:
        """Give numbers to messages that a transaction will schedule."""
        reserved: answers.NumbersReserved = await self._ask(
            context,
            request.partition,
            lambda reply: commands.ReserveNumbers(
                reply, conversions.entity_ref(request.entity), request.count
            ),
        )
        return partition_pb2.ReserveNumbersResponse(first_sequence_number=reserved.first)

    async def DeleteMessages(
        self, request: partition_pb2.DeleteMessagesRequest, context: Context
    ) -> partition_pb2.DeleteMessagesResponse:
        """Delete the oldest messages."""
        done: answers.Done = await self._ask(
            context,
            request.partition,
            lambda reply: commands.DeleteMessages(
                reply,
                conversions.entity_ref(request.entity),
                request.max_messages,
                batch_deletes.before_ms(request),
                batch_deletes.states(request),
                request.operation_id,
                request.age_ms,
                request.only_known,
            ),
        )
        return partition_pb2.DeleteMessagesResponse(deleted=done.count)

    async def SetSessionState(
        self, request: partition_pb2.SetSessionStateRequest, context: Context
    ) -> partition_pb2.SetSessionStateResponse:
        """Keep a state for a session, or none."""
        state = request.state if request.HasField("state") else None
        await self._ask(
            context,
            request.partition,
            lambda reply: commands.SetSessionState(
                reply, request.session_token, state, request.entity_uid
            ),
        )
        return partition_pb2.SetSessionStateResponse()

    async def GetSessionState(
        self, request: partition_pb2.GetSessionStateRequest, context: Context
    ) -> partition_pb2.GetSessionStateResponse:
        """Return what is kept for a session."""
        read: answers.SessionStateRead = await self._ask(
            context,
            request.partition,
            lambda reply: commands.GetSessionState(
                reply, request.session_token, request.entity_uid
            ),
        )
        return partition_pb2.GetSessionStateResponse(state=read.state)

    async def ListSessions(
        self, request: partition_pb2.ListSessionsRequest, context: Context
    ) -> partition_pb2.ListSessionsResponse:
        """List sessions with active messages or a state."""
        listed: answers.SessionsListed = await self._ask(
            context,
            request.partition,
            lambda reply: commands.ListSessions(
                reply,
                conversions.entity_ref(request.entity),
                request.max_sessions,
                request.after if request.HasField("after") else None,
                request.state_updated_after_ms,
            ),
        )
        return partition_pb2.ListSessionsResponse(
            session_ids=listed.session_ids, following=listed.following
        )

    async def CountSessions(
        self, request: partition_pb2.CountSessionsRequest, context: Context
    ) -> partition_pb2.CountSessionsResponse:
        """Count what sessions hold."""
        counted: answers.SessionsCounted = await self._ask(
            context,
            request.partition,
            lambda reply: commands.CountSessions(
                reply,
                conversions.entity_ref(request.entity),
                request.max_sessions,
                conversions.place(request),
            ),
        )
        return conversions.response(counted)

    async def GetCounts(
        self, request: partition_pb2.GetCountsRequest, context: Context
    ) -> partition_pb2.GetCountsResponse:
        """Count."""
        asked = request.uids
        async with statuses.errors_as_status(context):
            counts = await self._counted(
                request.partition,
                counting.of_entities(asked, oldest=request.oldest)
                if asked
                else counting.of_all(request.after_uid, request.entities_max),
            )
        return partition_pb2.GetCountsResponse(
            more=not request.uids and len(counts) == request.entities_max > 0,
            conditions=self._hosts.find(request.partition).conditions,
            entities=[
                partition_pb2.EntityCounts(
                    uid=count.uid,
                    generation=count.generation,
                    active=count.active,
                    locked=count.locked,
                    deferred=count.deferred,
                    scheduled=count.scheduled,
                    dead_letter=count.dead_letter,
                    size_in_bytes=count.size_bytes,
                    idle_ms=count.idle_ms,
                    accessed_at_ms=count.accessed_at_ms,
                    transfer_dead_letter=count.transfer_dead_letter,
                    transfer=count.transfer,
                    oldest_active_ms=count.oldest_active_ms,
                )
                for count in counts
            ],
        )

    async def _counted(
        self, partition: int, steps: counting.Counting
    ) -> list[answers.EntityCounts]:
        try:
            make = next(steps)
            while True:
                make = steps.send(await self._hosts.ask(partition, make))
        except StopIteration as end:
            return list(end.value)

    async def Forward(
        self, request: partition_pb2.ForwardRequest, context: Context
    ) -> partition_pb2.ForwardResponse:
        """Store messages of another partition."""
        await self._refuse_at_the_end(context)
        outcome: answers.ForwardedTaken = await self._ask(
            context, request.partition, lambda reply: forward_frames.command(request, reply)
        )
        return forward_frames.response(outcome, read_clocks().mono_ms)

    async def _admit(self, context: Context) -> None:
        """Refuse a stream at the end of the process, or of a version that does not fit."""
        await self._refuse_at_the_end(context)
        async with statuses.errors_as_status(context):
            FRONT_END.check_caller(context.invocation_metadata())

    async def _refuse_at_the_end(self, context: Context) -> None:
        if self._hosts.traffic.begun:
            async with statuses.errors_as_status(context):
                raise errors.PartitionUnavailable("the partition server is stopping.")


async def both_ways(
    reading: Coroutine[object, object, None], outbox: Outbox[FrameT]
) -> AsyncIterator[FrameT]:
    """Yield frames of the outbox while `reading` runs, then what is left; raise its error."""
    reader = asyncio.get_running_loop().create_task(reading, name="stream-reader")

    def read_all(task: asyncio.Task[None]) -> None:
        failed = not task.cancelled() and task.exception() is not None
        if failed or task.cancelled():
            outbox.close()
        else:
            outbox.finish()

    reader.add_done_callback(read_all)
    try:
        while (frame := await outbox.next()) is not None:
            yield frame
        if reader.done():
            await reader
    finally:
        reader.cancel()
