"""bendybus.v1.ManagementService: translates; the rules are in `core.manage`."""

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import grpc

from bendybus.domain.entity import Entity
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.manage import Changed, Runtime
from bendybus.frontend.upstreams.unary_calls import Commit, Counts
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import entities, statuses

Context = grpc.aio.ServicerContext[Any, Any]


class ManagementService(management_pb2_grpc.ManagementServiceServicer):
    """Creates, changes, shows entities."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end

    async def GetNamespace(
        self, request: management_pb2.GetNamespaceRequest, context: Context
    ) -> management_pb2.GetNamespaceResponse:
        """Show the namespace and its partitions as this front end sees them."""
        fingerprint = self._front_end.directory.fingerprint
        upstreams = self._front_end.upstreams.values()
        return management_pb2.GetNamespaceResponse(
            name=fingerprint.namespace_name if fingerprint else "",
            uid=fingerprint.namespace_uid if fingerprint else "",
            tier=fingerprint.tier.value if fingerprint else "",
            partition_count=len(self._front_end.upstreams),
            version=metadata.version("bendybus"),
            partitions=[
                management_pb2.NamespacePartition(
                    partition=upstream.partition,
                    available=upstream.available,
                    address=upstream.address,
                    conditions=upstream.conditions(),
                )
                for upstream in upstreams
            ],
        )

    @statuses.unary
    async def CreateQueue(
        self, request: management_pb2.CreateQueueRequest, context: Context
    ) -> management_pb2.CreateQueueResponse:
        """Create a queue on all partitions."""
        changed = await self._change(EntityAction.CREATE, request, uid=request.uid)
        return management_pb2.CreateQueueResponse(
            queue=entities.queue_to_proto(changed.entity), outcomes=_outcomes(changed)
        )

    @statuses.unary
    async def UpdateQueue(
        self, request: management_pb2.UpdateQueueRequest, context: Context
    ) -> management_pb2.UpdateQueueResponse:
        """Change a queue on all partitions."""
        changed = await self._change(
            EntityAction.UPDATE, request, if_generation=request.if_generation
        )
        return management_pb2.UpdateQueueResponse(
            queue=entities.queue_to_proto(changed.entity), outcomes=_outcomes(changed)
        )

    @statuses.unary
    async def DeleteQueue(
        self, request: management_pb2.DeleteQueueRequest, context: Context
    ) -> management_pb2.DeleteQueueResponse:
        """Delete a queue and its messages on all partitions."""
        changed = await self._change(EntityAction.DELETE, request)
        return management_pb2.DeleteQueueResponse(outcomes=_outcomes(changed))

    @statuses.unary
    async def GetQueue(
        self, request: management_pb2.GetQueueRequest, context: Context
    ) -> management_pb2.GetQueueResponse:
        """Show a queue."""
        entity, _ = self._front_end.directory.lookup(request.name)
        [queue] = await self._shown([entity], include_runtime=request.include_runtime)
        return management_pb2.GetQueueResponse(queue=queue)

    async def ListQueues(
        self, request: management_pb2.ListQueuesRequest, context: Context
    ) -> management_pb2.ListQueuesResponse:
        """Show queues by name, a page at a time; orphaned ones only if asked for."""
        page, more = self._front_end.manager.page(
            request.page_token, request.page_size, with_orphaned=request.include_orphaned
        )
        return management_pb2.ListQueuesResponse(
            queues=await self._shown(page, include_runtime=request.include_runtime),
            next_page_token=page[-1].key if more else "",
        )

    async def _change(self, action: EntityAction, request: Any, **facts: Any) -> Changed:
        changes = {}
        if action is not EntityAction.DELETE:
            changes = entities.description_changes(request.description)
        origin = entities.origin_from_proto(request.origin)
        wanted = Commit(action, request.name, changes, origin, **facts)
        return await self._front_end.manager.change(wanted)

    async def _shown(
        self, shown: Sequence[Entity], *, include_runtime: bool
    ) -> list[management_pb2.Queue]:
        queues = [entities.queue_to_proto(entity) for entity in shown]
        if include_runtime:
            runtimes = await self._front_end.manager.runtime(shown)
            for entity, queue, runtime in zip(shown, queues, runtimes, strict=True):
                queue.runtime.CopyFrom(runtime_to_proto(entity, runtime))
        return queues


def runtime_to_proto(entity: Entity, runtime: Runtime) -> management_pb2.QueueRuntime:
    """Return what a queue holds as clients see it; Limited if a partition did not answer."""
    available = management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE
    limited = management_pb2.ENTITY_AVAILABILITY_STATUS_LIMITED
    return management_pb2.QueueRuntime(
        availability_status=limited if runtime.limited else available,
        max_size_in_megabytes_total=entity.queue.max_size_in_megabytes * entity.partition_count,
        created_at_ms=entity.created_at_ms,
        updated_at_ms=entity.updated_at_ms,
        accessed_at_ms=runtime.total.accessed_at_ms,
        size_in_bytes=runtime.total.size_in_bytes,
        count_details=_count_details(runtime.total),
        partitions=[
            management_pb2.PartitionRuntime(partition=partition)
            if share is None
            else management_pb2.PartitionRuntime(
                partition=partition,
                reachable=True,
                size_in_bytes=share.size_in_bytes,
                count_details=_count_details(share),
            )
            for partition, share in runtime.partitions.items()
        ],
    )


def _count_details(counts: Counts) -> management_pb2.MessageCountDetails:
    return management_pb2.MessageCountDetails(
        active_message_count=counts.active,
        dead_letter_message_count=counts.dead_letter,
        scheduled_message_count=counts.scheduled,
        deferred_message_count=counts.deferred,
        locked_message_count=counts.locked,
    )


def _outcomes(changed: Changed) -> list[management_pb2.PartitionOutcome]:
    return [
        management_pb2.PartitionOutcome(
            partition=partition,
            done=error is None,
            error=None if error is None else statuses.to_error(error),
        )
        for partition, error in changed.outcomes.items()
    ]
