"""The gRPC façade of a process's partitions: frames become commands, answers become frames.

No rules here. A stream belongs to one partition; when it ends, in whatever way, the partition is
told, so that what was reserved for it is released.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

import grpc

from bendybus.domain import errors, sequence_number
from bendybus.domain.errors import BusError
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from bendybus.partition_server.broker.partition_thread import PartitionThread, read_clocks
from bendybus.partition_server.broker.replies import Call, Outbox, SendReply
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state import commands
from bendybus.partition_server.state.commands import Command
from bendybus.v1 import receiver_pb2
from bendybus.wire import draining, statuses
from bendybus.wire.draining import Drain, End

Context = grpc.aio.ServicerContext[Any, Any]


class Hosts:
    """The partitions of this process."""

    def __init__(self, threads: Mapping[int, PartitionThread]) -> None:
        self.threads = threads
        # At the end of the process: first what carries messages, then echoes and watches, by
        # which front ends would take the partition for dead while it still answers.
        self.traffic = Drain()
        self.attendance = Drain()

    def find(self, partition: int) -> PartitionThread:
        """Return the partition's thread. Raises InvalidOperation if it is not served here."""
        thread = self.threads.get(partition)
        if thread is None:
            raise errors.InvalidOperation(
                f"this process serves partitions {sorted(self.threads)}, not {partition}."
            )
        return thread

    async def ask(self, partition: int, make: Callable[[Call], Command]) -> Any:
        """Submit the command that `make` returns for a reply, and return its value."""
        call = Call()
        submit(self.find(partition), make(call))
        return await call.value()


def submit(thread: PartitionThread, command: Command) -> None:
    """Hand a command in. Raises ServerBusy when too much waits."""
    if not thread.submit(command):
        raise errors.ServerBusy(
            f"partition {thread.index}: request queue is full. Retry.", retry_after_ms=500
        )


class PartitionService(partition_pb2_grpc.PartitionServiceServicer):
    """bendybus.internal.v1.PartitionService."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    async def SendFrames(
        self, request_iterator: AsyncIterator[partition_pb2.SendFramesRequest], context: Context
    ) -> AsyncIterator[partition_pb2.SendFramesResponse]:
        """Store frames; answers after the commit that holds them."""
        await self._refuse_at_the_end(context)
        outbox: Outbox[partition_pb2.SendFramesResponse] = Outbox(_send_response)

        async def read() -> None:
            async for request in request_iterator:
                if outbox.finishing:
                    # Not taken: the front end learns at the end of the stream, and goes elsewhere.
                    continue
                outbox.owe()
                reply = SendReply(outbox, request.frame_id)
                try:
                    submit(self._hosts.find(request.partition), _append(request, reply))
                except BusError as error:
                    reply.answer(commands.Failed(error))

        # At once, so that the front end knows that the stream is open.
        await context.send_initial_metadata(())
        moving = partition_pb2.SendFramesResponse(moving=True)
        with self._hosts.traffic.stream(_ending(context, outbox, moving)):
            async for frame in both_ways(read(), outbox):
                yield frame

    async def DeliverFrames(
        self, request_iterator: AsyncIterator[partition_pb2.DeliverFramesRequest], context: Context
    ) -> AsyncIterator[partition_pb2.DeliverFramesResponse]:
        """Reserve, deliver, settle; see the contract."""
        await self._refuse_at_the_end(context)
        opened: list[PartitionThread] = []
        outbox: Outbox[partition_pb2.DeliverFramesResponse] = Outbox(
            lambda value: _deliver_response(value, opened[0]), pays=_is_outcome
        )

        async def read() -> None:
            async for request in request_iterator:
                if outbox.finishing:
                    continue
                if not opened:
                    opened.append(self._hosts.find(request.partition))
                command = _deliver_command(request, outbox)
                if request.HasField("settle") or request.deliver.deliver_id:
                    outbox.owe()
                submit(opened[0], command)

        await context.send_initial_metadata(())
        moving = partition_pb2.DeliverFramesResponse(moving=True)
        try:
            with self._hosts.traffic.stream(_ending(context, outbox, moving)):
                async for frame in both_ways(read(), outbox):
                    yield frame
        except BusError as error:
            await statuses.abort(context, error)
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

    async def Peek(
        self, request: partition_pb2.PeekRequest, context: Context
    ) -> partition_pb2.PeekResponse:
        """Show messages."""
        peeked: commands.Peeked = await self._ask(
            context,
            request.partition,
            lambda reply: commands.Peek(
                reply,
                conversions.entity_ref(request.entity),
                sequence_number.counter_of(request.from_sequence_number),
                request.max_messages,
                request.max_bytes,
            ),
        )
        following = peeked.next_counter
        return partition_pb2.PeekResponse(
            batch=self._to_proto(request.partition, peeked.delivery),
            next_sequence_number=following
            and sequence_number.compose(request.partition, following),
        )

    async def ReceiveDeferred(
        self, request: partition_pb2.ReceiveDeferredRequest, context: Context
    ) -> partition_pb2.ReceiveDeferredResponse:
        """Lock deferred messages."""
        delivery: commands.Delivery = await self._ask(
            context,
            request.partition,
            lambda reply: commands.ReceiveDeferred(
                reply,
                conversions.entity_ref(request.entity),
                request.receive_mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
                [sequence_number.counter_of(n) for n in request.sequence_numbers],
                request.operation_id,
                request.age_ms,
            ),
        )
        batch = self._to_proto(request.partition, delivery)
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
            ),
        )
        return partition_pb2.CancelScheduledMessagesResponse()

    async def DeleteMessages(
        self, request: partition_pb2.DeleteMessagesRequest, context: Context
    ) -> partition_pb2.DeleteMessagesResponse:
        """Delete the oldest messages."""
        done: commands.Done = await self._ask(
            context,
            request.partition,
            lambda reply: commands.DeleteMessages(
                reply,
                conversions.entity_ref(request.entity),
                request.max_messages,
                request.enqueued_before_ms,
                request.include_deferred_and_scheduled,
                request.operation_id,
                request.age_ms,
                request.only_known,
            ),
        )
        return partition_pb2.DeleteMessagesResponse(deleted=done.count)

    async def GetCounts(
        self, request: partition_pb2.GetCountsRequest, context: Context
    ) -> partition_pb2.GetCountsResponse:
        """Count."""
        counts: list[commands.EntityCounts] = await self._ask(
            context,
            request.partition,
            lambda reply: commands.Counts(reply, list(request.uids)),
        )
        return partition_pb2.GetCountsResponse(
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
                )
                for count in counts
            ],
        )

    async def _refuse_at_the_end(self, context: Context) -> None:
        if self._hosts.traffic.begun:
            error = errors.PartitionUnavailable("the partition server is stopping.")
            await statuses.abort(context, error)

    async def _ask(self, context: Context, partition: int, make: Callable[[Call], Command]) -> Any:
        try:
            return await self._hosts.ask(partition, make)
        except BusError as error:
            await statuses.abort(context, error)

    def _to_proto(self, partition: int, delivery: commands.Delivery) -> Any:
        return conversions.delivery_to_proto(delivery, partition=partition)


def _ending(context: Context, outbox: Outbox[Any], moving: Any) -> End:
    """Return what asks a stream to end, as the caller knows it."""
    metadata = context.invocation_metadata() or ()
    if any(name == draining.MOVES for name, _ in metadata):
        return lambda: outbox.move(moving)
    return outbox.finish


async def both_ways(reading: Coroutine[Any, Any, None], outbox: Outbox[Any]) -> AsyncIterator[Any]:
    """Yield the outbox's frames: while `reading` runs, and what is owed then; raise its error."""
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


_DISPOSITIONS: frozenset[int] = frozenset(commands.Disposition)


def _append(request: partition_pb2.SendFramesRequest, reply: SendReply) -> commands.Append:
    return commands.Append(
        reply,
        conversions.entity_ref(request.entity),
        conversions.batch_from_proto(request.batch),
        list(request.group_sizes),
        request.producer_id if request.spans else b"",
        request.producer_sequence,
        request.spans,
        request.age_ms,
        request.deadline_monotonic_ms,
    )


def _send_response(answer: tuple[int, Any]) -> partition_pb2.SendFramesResponse:
    frame_id, value = answer
    if isinstance(value, commands.Failed):
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


def _deliver_command(request: partition_pb2.DeliverFramesRequest, stream: Outbox[Any]) -> Command:
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
            raise errors.InvalidArgument("disposition", f"{settle.disposition} is none.")
        changed = settle.changed_properties
        return commands.Settle(
            stream,
            settle.settle_id,
            commands.Disposition(settle.disposition),
            settle.lock_tokens,
            changed.SerializeToString() if changed.entries else None,
            settle.dead_letter_reason,
            settle.dead_letter_error_description,
            settle.entity_uid,
            settle.settler_id,
            settle.repeat,
        )
    raise errors.InvalidArgument("kind", "a frame says what it is.")


def _is_outcome(value: Any) -> bool:
    """Whether a front end must not lose this answer: what was settled or deleted."""
    return isinstance(value, commands.Settled) or (
        isinstance(value, commands.Delivered) and bool(value.deliver_id)
    )


def _deliver_response(value: Any, thread: PartitionThread) -> partition_pb2.DeliverFramesResponse:
    response = partition_pb2.DeliverFramesResponse
    if isinstance(value, commands.Reserved):
        batch = conversions.delivery_to_proto(value.delivery, partition=thread.index)
        return response(
            reserved=partition_pb2.Reserved(
                ask_id=value.ask_id,
                batch=batch,
                lock_remaining_ms=value.lock_remaining_ms,
                locked_until_monotonic_ms=value.locked_until_mono_ms,
                complete=True,
                more=value.more,
            )
        )
    if isinstance(value, commands.Settled):
        return response(settled=_settle_result(value))
    if isinstance(value, commands.Withdrawn):
        return response(withdrawn=partition_pb2.Withdrawn(ask_id=value.ask_id))
    if isinstance(value, commands.AskRefused):
        error = statuses.to_error(value.error)
        return response(ask_refused=partition_pb2.AskRefused(ask_id=value.ask_id, error=error))
    if isinstance(value, commands.Delivered):
        delivered = partition_pb2.Delivered(deliver_id=value.deliver_id, lost=value.lost)
        if value.error is not None:
            delivered.error.CopyFrom(statuses.to_error(value.error))
        return response(delivered=delivered)
    raise AssertionError(value)


def _settle_result(value: commands.Settled) -> partition_pb2.SettleResult:
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
