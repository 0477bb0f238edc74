"""bendybus.v1.PipelineService: partitions by number, drains, sends with fences. No rules here."""

from typing import Protocol

from bendybus.domain import message_state
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.frontend.core import pipelines
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.pipelines import Place
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.upstreams.pipeline_calls import Fenced, Lease, Settlement, Span
from bendybus.v1 import pipeline_pb2, pipeline_pb2_grpc
from bendybus.wire import statuses


class PipelineService(pipeline_pb2_grpc.PipelineServiceServicer):
    """Serves data pipelines."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end

    @statuses.unary
    async def DescribePartitions(
        self, request: pipeline_pb2.DescribePartitionsRequest, context: Context
    ) -> pipeline_pb2.DescribePartitionsResponse:
        """Say where each partition begins and ends."""
        with self._front_end.metrics.refusals(request.entity_path):
            found = await pipelines.describe(
                self._front_end, *request_values.entity_and_sub_queue(request.entity_path)
            )
        described = found.entity.description
        return pipeline_pb2.DescribePartitionsResponse(
            entity_uid=found.entity.uid,
            partitions=[
                pipeline_pb2.PartitionRange(partition=partition, error=statuses.to_error(each))
                if isinstance(each, BusError)
                else each
                for partition, each in sorted(found.ranges.items())
            ],
            max_message_size=found.max_message_size,
            detects_duplicates=described.requires_duplicate_detection,
            requires_session=described.requires_session,
        )

    @statuses.unary
    async def BrowsePartition(
        self, request: pipeline_pb2.BrowsePartitionRequest, context: Context
    ) -> pipeline_pb2.BrowsePartitionResponse:
        """Show a page of a range."""
        with self._front_end.metrics.refusals(request.entity_path):
            page = await pipelines.browse(
                self._front_end,
                _place(request),
                Span(
                    request.after,
                    request.upto,
                    request.max_messages,
                    request.max_bytes,
                    message_state.read("states", request.states) or ACTIVE_ONLY,
                    request.without_bodies,
                ),
            )
        return page

    @statuses.unary
    async def GetSequenceNumberAt(
        self, request: pipeline_pb2.GetSequenceNumberAtRequest, context: Context
    ) -> pipeline_pb2.GetSequenceNumberAtResponse:
        """Find the first message of a time."""
        with self._front_end.metrics.refusals(request.entity_path):
            after = await pipelines.number_at(
                self._front_end, _place(request), request.enqueued_time_ms
            )
        return pipeline_pb2.GetSequenceNumberAtResponse(after=after)

    @statuses.unary
    async def AcquireDrainLease(
        self, request: pipeline_pb2.AcquireDrainLeaseRequest, context: Context
    ) -> pipeline_pb2.AcquireDrainLeaseResponse:
        """Take or renew a lease."""
        with self._front_end.metrics.refusals(request.entity_path):
            held = await pipelines.acquire(
                self._front_end,
                *request_values.entity_and_sub_queue(request.entity_path),
                Lease(request.owner, request.duration_ms, request.epoch),
            )
        return pipeline_pb2.AcquireDrainLeaseResponse(
            epoch=held.epoch,
            ready=[partition for partition, locked in held.locked.items() if locked == 0],
            waiting=[
                pipeline_pb2.PartitionWait(partition=partition, error=statuses.to_error(locked))
                if isinstance(locked, BusError)
                else pipeline_pb2.PartitionWait(partition=partition, locked_message_count=locked)
                for partition, locked in held.locked.items()
                if locked != 0
            ],
        )

    @statuses.unary
    async def ReleaseDrainLease(
        self, request: pipeline_pb2.ReleaseDrainLeaseRequest, context: Context
    ) -> pipeline_pb2.ReleaseDrainLeaseResponse:
        """End a lease."""
        with self._front_end.metrics.refusals(request.entity_path):
            await pipelines.release(
                self._front_end,
                *request_values.entity_and_sub_queue(request.entity_path),
                Lease(request.owner, 0, request.epoch),
            )
        return pipeline_pb2.ReleaseDrainLeaseResponse()

    @statuses.unary
    async def SettleRange(
        self, request: pipeline_pb2.SettleRangeRequest, context: Context
    ) -> pipeline_pb2.SettleRangeResponse:
        """Delete messages under a lease."""
        with self._front_end.metrics.refusals(request.entity_path):
            deleted, more = await pipelines.settle(
                self._front_end,
                _place(request),
                Settlement(
                    request.epoch, request.incarnation, request.upto, request.numbers.values
                ),
            )
        return pipeline_pb2.SettleRangeResponse(deleted=deleted, more=more)

    @statuses.unary
    async def SendFenced(
        self, request: pipeline_pb2.SendFencedRequest, context: Context
    ) -> pipeline_pb2.SendFencedResponse:
        """Store messages of a producer, each once."""
        with self._front_end.metrics.refusals(request.entity_path):
            stored = await pipelines.send_fenced(
                self._front_end,
                _place(request),
                Fenced(
                    request.producer_id,
                    request.epoch,
                    request.ordinals,
                    request.batch,
                    request.mark,
                    request.replace,
                ),
            )
        return pipeline_pb2.SendFencedResponse(
            stored=stored.stored,
            repeated_messages=stored.repeated,
            duplicates=stored.duplicates,
        )

    @statuses.unary
    async def GetProducerFence(
        self, request: pipeline_pb2.GetProducerFenceRequest, context: Context
    ) -> pipeline_pb2.GetProducerFenceResponse:
        """Say how far a producer came."""
        with self._front_end.metrics.refusals(request.entity_path):
            found = await pipelines.fence(self._front_end, _place(request), request.producer_id)
        return pipeline_pb2.GetProducerFenceResponse(
            epoch=found.epoch, ordinal=found.ordinal, mark=found.mark
        )


class OfPartition(Protocol):
    """A request about a partition of an entity."""

    entity_path: str
    partition: int


def _place(request: OfPartition) -> Place:
    return Place(*request_values.entity_and_sub_queue(request.entity_path), request.partition)
