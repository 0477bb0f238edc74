"""The calls of data pipelines: what they ask for, and what they are answered. No rules here."""

from collections.abc import Callable
from typing import Any

from bendybus.domain import message_state, sequence_number
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.broker.replies import Call
from bendybus.partition_server.service import conversions
from bendybus.partition_server.service.hosts import Context, Hosts
from bendybus.partition_server.state import pipeline_commands as commands
from bendybus.partition_server.state.commands import Command
from bendybus.partition_server.state.pipeline_commands import DrainAction
from bendybus.v1 import pipeline_pb2
from bendybus.wire import statuses


class PipelineCalls:
    """A part of bendybus.internal.v1.PartitionService."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    async def GetRange(
        self, request: partition_pb2.GetRangeRequest, context: Context
    ) -> partition_pb2.GetRangeResponse:
        """Say where a queue begins and ends."""
        read: commands.RangeRead = await self._ask(
            context,
            request.partition,
            lambda reply: commands.GetRange(reply, conversions.entity_ref(request.entity)),
        )
        return partition_pb2.GetRangeResponse(
            range=pipeline_pb2.PartitionRange(
                partition=request.partition,
                incarnation=read.incarnation,
                low_watermark=read.lost,
                stable_tail=read.tail,
                first_number=read.first,
                active_message_count=read.active,
                size_in_bytes=read.size_bytes,
            )
        )

    async def BrowseRange(
        self, request: partition_pb2.BrowseRangeRequest, context: Context
    ) -> partition_pb2.BrowseRangeResponse:
        """Show a page of a range."""
        page: commands.RangePage = await self._ask(
            context,
            request.partition,
            lambda reply: commands.BrowseRange(
                reply,
                conversions.entity_ref(request.entity),
                sequence_number.counter_of(request.after),
                sequence_number.counter_of(request.upto),
                request.max_messages,
                request.max_bytes,
                message_state.read("states", request.states) or ACTIVE_ONLY,
                not request.without_bodies,
            ),
        )
        return partition_pb2.BrowseRangeResponse(
            page=pipeline_pb2.BrowsePartitionResponse(
                batch=conversions.delivery_to_proto(page.delivery, partition=request.partition),
                next_after=page.next_after,
                complete=page.complete,
                incarnation=page.incarnation,
                low_watermark=page.lost,
                stable_tail=page.tail,
            )
        )

    async def FindNumber(
        self, request: partition_pb2.FindNumberRequest, context: Context
    ) -> partition_pb2.FindNumberResponse:
        """Find the first message of a time."""
        found: commands.NumberFound = await self._ask(
            context,
            request.partition,
            lambda reply: commands.FindNumber(
                reply,
                conversions.entity_ref(request.entity),
                request.enqueued_time_ms,
                sequence_number.counter_of(request.after),
            ),
        )
        return partition_pb2.FindNumberResponse(after=found.after, found=found.found)

    async def Drain(
        self, request: partition_pb2.DrainRequest, context: Context
    ) -> partition_pb2.DrainResponse:
        """Grant, hold or release a lease."""
        drained: commands.Drained = await self._ask(
            context,
            request.partition,
            lambda reply: commands.DrainEntity(
                reply,
                conversions.entity_ref(request.entity),
                _ACTIONS.get(request.WhichOneof("action") or "", DrainAction.RELEASE),
                request.owner,
                request.duration_ms,
                request.hold_epoch or request.release_epoch or request.grant_above,
            ),
        )
        return partition_pb2.DrainResponse(epoch=drained.epoch, locked_message_count=drained.locked)

    async def SettleRange(
        self, request: partition_pb2.SettleRangeRequest, context: Context
    ) -> partition_pb2.SettleRangeResponse:
        """Delete messages under a lease."""
        settled: commands.RangeSettled = await self._ask(
            context,
            request.partition,
            lambda reply: commands.SettleRange(
                reply,
                conversions.entity_ref(request.entity),
                request.epoch,
                sequence_number.counter_of(request.upto),
                [sequence_number.counter_of(number) for number in request.numbers.values],
                request.incarnation,
            ),
        )
        return partition_pb2.SettleRangeResponse(deleted=settled.deleted, more=settled.more)

    async def SendFenced(
        self, request: partition_pb2.SendFencedRequest, context: Context
    ) -> partition_pb2.SendFencedResponse:
        """Store messages of a producer, each once."""
        stored: commands.FencedStored = await self._ask(
            context,
            request.partition,
            lambda reply: commands.SendFenced(
                reply,
                conversions.entity_ref(request.entity),
                request.producer_id,
                request.epoch,
                list(request.ordinals),
                conversions.batch_from_proto(request.batch),
                request.mark,
                request.deadline_monotonic_ms,
                request.replace,
            ),
        )
        return partition_pb2.SendFencedResponse(
            stored=stored.stored,
            repeated_messages=stored.repeated,
            duplicates=stored.duplicates,
        )

    async def GetFence(
        self, request: partition_pb2.GetFenceRequest, context: Context
    ) -> partition_pb2.GetFenceResponse:
        """Say how far a producer came."""
        fence: commands.FenceRead = await self._ask(
            context,
            request.partition,
            lambda reply: commands.GetFence(
                reply, conversions.entity_ref(request.entity), request.producer_id
            ),
        )
        return partition_pb2.GetFenceResponse(
            epoch=fence.epoch, ordinal=fence.ordinal, mark=fence.mark
        )

    async def _ask(self, context: Context, partition: int, make: Callable[[Call], Command]) -> Any:
        async with statuses.errors_as_status(context):
            return await self._hosts.ask(partition, make)


_ACTIONS = {
    "grant_above": DrainAction.GRANT,
    "hold_epoch": DrainAction.HOLD,
    "release_epoch": DrainAction.RELEASE,
}
