"""bendybus.v1.ManagementService: translates; the rules are in `core.manage`."""

from importlib import metadata

from bendybus.domain.entity_kind import EntityKind
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.listeners.entity_calls import Context
from bendybus.frontend.listeners.rule_management import RuleManagement
from bendybus.v1 import management_pb2
from bendybus.wire import statuses

QUEUE, TOPIC, SUBSCRIPTION = EntityKind.QUEUE, EntityKind.TOPIC, EntityKind.SUBSCRIPTION


class ManagementService(RuleManagement):
    """Creates, changes, shows entities."""

    def __init__(self, front_end: FrontEnd) -> None:
        super().__init__(front_end)
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
        return await self._calls.create(QUEUE, request, management_pb2.CreateQueueResponse)

    @statuses.unary
    async def UpdateQueue(
        self, request: management_pb2.UpdateQueueRequest, context: Context
    ) -> management_pb2.UpdateQueueResponse:
        """Change a queue on all partitions."""
        return await self._calls.update(QUEUE, request, management_pb2.UpdateQueueResponse)

    @statuses.unary
    async def DeleteQueue(
        self, request: management_pb2.DeleteQueueRequest, context: Context
    ) -> management_pb2.DeleteQueueResponse:
        """Delete a queue and its messages on all partitions."""
        return await self._calls.delete(QUEUE, request, management_pb2.DeleteQueueResponse)

    @statuses.unary
    async def GetQueue(
        self, request: management_pb2.GetQueueRequest, context: Context
    ) -> management_pb2.GetQueueResponse:
        """Show a queue."""
        return await self._calls.get(QUEUE, request, management_pb2.GetQueueResponse)

    async def ListQueues(
        self, request: management_pb2.ListQueuesRequest, context: Context
    ) -> management_pb2.ListQueuesResponse:
        """Show queues by name, a page at a time; orphaned ones only if asked for."""
        return await self._calls.listed(QUEUE, request, management_pb2.ListQueuesResponse)

    @statuses.unary
    async def CreateTopic(
        self, request: management_pb2.CreateTopicRequest, context: Context
    ) -> management_pb2.CreateTopicResponse:
        """Create a topic on all partitions."""
        return await self._calls.create(TOPIC, request, management_pb2.CreateTopicResponse)

    @statuses.unary
    async def UpdateTopic(
        self, request: management_pb2.UpdateTopicRequest, context: Context
    ) -> management_pb2.UpdateTopicResponse:
        """Change a topic on all partitions."""
        return await self._calls.update(TOPIC, request, management_pb2.UpdateTopicResponse)

    @statuses.unary
    async def DeleteTopic(
        self, request: management_pb2.DeleteTopicRequest, context: Context
    ) -> management_pb2.DeleteTopicResponse:
        """Delete a topic, its subscriptions and their messages on all partitions."""
        return await self._calls.delete(TOPIC, request, management_pb2.DeleteTopicResponse)

    @statuses.unary
    async def GetTopic(
        self, request: management_pb2.GetTopicRequest, context: Context
    ) -> management_pb2.GetTopicResponse:
        """Show a topic."""
        return await self._calls.get(TOPIC, request, management_pb2.GetTopicResponse)

    @statuses.unary
    async def ListTopics(
        self, request: management_pb2.ListTopicsRequest, context: Context
    ) -> management_pb2.ListTopicsResponse:
        """Show topics by name, a page at a time; orphaned ones only if asked for."""
        return await self._calls.listed(TOPIC, request, management_pb2.ListTopicsResponse)

    @statuses.unary
    async def CreateSubscription(
        self, request: management_pb2.CreateSubscriptionRequest, context: Context
    ) -> management_pb2.CreateSubscriptionResponse:
        """Create a subscription on all partitions."""
        answer = management_pb2.CreateSubscriptionResponse
        return await self._calls.create(SUBSCRIPTION, request, answer)

    @statuses.unary
    async def UpdateSubscription(
        self, request: management_pb2.UpdateSubscriptionRequest, context: Context
    ) -> management_pb2.UpdateSubscriptionResponse:
        """Change a subscription on all partitions."""
        answer = management_pb2.UpdateSubscriptionResponse
        return await self._calls.update(SUBSCRIPTION, request, answer)

    @statuses.unary
    async def DeleteSubscription(
        self, request: management_pb2.DeleteSubscriptionRequest, context: Context
    ) -> management_pb2.DeleteSubscriptionResponse:
        """Delete a subscription and its messages on all partitions."""
        answer = management_pb2.DeleteSubscriptionResponse
        return await self._calls.delete(SUBSCRIPTION, request, answer)

    @statuses.unary
    async def GetSubscription(
        self, request: management_pb2.GetSubscriptionRequest, context: Context
    ) -> management_pb2.GetSubscriptionResponse:
        """Show a subscription."""
        return await self._calls.get(SUBSCRIPTION, request, management_pb2.GetSubscriptionResponse)

    @statuses.unary
    async def ListSubscriptions(
        self, request: management_pb2.ListSubscriptionsRequest, context: Context
    ) -> management_pb2.ListSubscriptionsResponse:
        """Show subscriptions of a topic by name, a page at a time."""
        topic = self._directory.find(request.topic_name, TOPIC).key
        answer = management_pb2.ListSubscriptionsResponse
        return await self._calls.listed(SUBSCRIPTION, request, answer, topic=topic)
