"""bendybus.v1.ManagementService: translates; the rules are in `core.manage`."""

from importlib import metadata

from bendybus.domain.entity_kind import EntityKind
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.listeners.entity_calls import Context, outcomes_to_proto
from bendybus.frontend.listeners.rule_management import RuleManagement
from bendybus.frontend.listeners.topic_management import TopicManagement
from bendybus.v1 import management_pb2
from bendybus.wire import entities, statuses

QUEUE = EntityKind.QUEUE


class ManagementService(TopicManagement, RuleManagement):
    """Creates, changes, shows entities."""

    def __init__(self, front_end: FrontEnd) -> None:
        TopicManagement.__init__(self, front_end)
        RuleManagement.__init__(self, front_end)

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
        changed = await self._calls.create(QUEUE, request.name, request)
        return management_pb2.CreateQueueResponse(
            queue=self._calls.with_facts(changed.entity, entities.queue_to_proto(changed.entity)),
            outcomes=outcomes_to_proto(changed),
        )

    @statuses.unary
    async def UpdateQueue(
        self, request: management_pb2.UpdateQueueRequest, context: Context
    ) -> management_pb2.UpdateQueueResponse:
        """Change a queue on all partitions."""
        changed = await self._calls.update(QUEUE, request.name, request)
        return management_pb2.UpdateQueueResponse(
            queue=self._calls.with_facts(changed.entity, entities.queue_to_proto(changed.entity)),
            outcomes=outcomes_to_proto(changed),
        )

    @statuses.unary
    async def DeleteQueue(
        self, request: management_pb2.DeleteQueueRequest, context: Context
    ) -> management_pb2.DeleteQueueResponse:
        """Delete a queue and its messages on all partitions."""
        changed = await self._calls.delete(QUEUE, request.name, request)
        return management_pb2.DeleteQueueResponse(outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def GetQueue(
        self, request: management_pb2.GetQueueRequest, context: Context
    ) -> management_pb2.GetQueueResponse:
        """Show a queue."""
        entity = self._front_end.directory.find(request.name, QUEUE)
        [queue] = await self._calls.shown([entity], entities.queue_to_proto, request)
        return management_pb2.GetQueueResponse(queue=queue)

    async def ListQueues(
        self, request: management_pb2.ListQueuesRequest, context: Context
    ) -> management_pb2.ListQueuesResponse:
        """Show queues by name, a page at a time; orphaned ones only if asked for."""
        page, more = self._calls.page(QUEUE, request)
        return management_pb2.ListQueuesResponse(
            queues=await self._calls.shown(page, entities.queue_to_proto, request),
            next_page_token=more,
        )
