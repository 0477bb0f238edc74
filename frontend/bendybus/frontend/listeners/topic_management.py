"""The calls of bendybus.v1.ManagementService for topics and subscriptions."""

from collections.abc import Callable
from typing import Any

from bendybus.domain import subscription_name
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters.rule import SqlFilter
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.listeners.entity_calls import Context, EntityCalls, outcomes_to_proto
from bendybus.frontend.listeners.rule_management import rules_of
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import entities, statuses

TOPIC, SUBSCRIPTION = EntityKind.TOPIC, EntityKind.SUBSCRIPTION


class TopicManagement(management_pb2_grpc.ManagementServiceServicer):
    """Creates, changes, shows topics and subscriptions."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._calls = EntityCalls(front_end)

    @statuses.unary
    async def CreateTopic(
        self, request: management_pb2.CreateTopicRequest, context: Context
    ) -> management_pb2.CreateTopicResponse:
        """Create a topic on all partitions."""
        changed = await self._calls.create(TOPIC, request.name, request)
        return management_pb2.CreateTopicResponse(
            topic=self._calls.with_facts(changed.entity, self._topic(changed.entity)),
            outcomes=outcomes_to_proto(changed),
        )

    @statuses.unary
    async def UpdateTopic(
        self, request: management_pb2.UpdateTopicRequest, context: Context
    ) -> management_pb2.UpdateTopicResponse:
        """Change a topic on all partitions."""
        changed = await self._calls.update(TOPIC, request.name, request)
        return management_pb2.UpdateTopicResponse(
            topic=self._calls.with_facts(changed.entity, self._topic(changed.entity)),
            outcomes=outcomes_to_proto(changed),
        )

    @statuses.unary
    async def DeleteTopic(
        self, request: management_pb2.DeleteTopicRequest, context: Context
    ) -> management_pb2.DeleteTopicResponse:
        """Delete a topic, its subscriptions and their messages on all partitions."""
        changed = await self._calls.delete(TOPIC, request.name, request)
        return management_pb2.DeleteTopicResponse(outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def GetTopic(
        self, request: management_pb2.GetTopicRequest, context: Context
    ) -> management_pb2.GetTopicResponse:
        """Show a topic."""
        entity = self._front_end.directory.find(request.name, TOPIC)
        [topic] = await self._calls.shown([entity], self._shown(request), request)
        return management_pb2.GetTopicResponse(topic=topic)

    @statuses.unary
    async def ListTopics(
        self, request: management_pb2.ListTopicsRequest, context: Context
    ) -> management_pb2.ListTopicsResponse:
        """Show topics by name, a page at a time; orphaned ones only if asked for."""
        page, more = self._calls.page(TOPIC, request)
        return management_pb2.ListTopicsResponse(
            topics=await self._calls.shown(page, self._shown(request), request),
            next_page_token=more,
        )

    @statuses.unary
    async def CreateSubscription(
        self, request: management_pb2.CreateSubscriptionRequest, context: Context
    ) -> management_pb2.CreateSubscriptionResponse:
        """Create a subscription on all partitions."""
        changed = await self._calls.create(SUBSCRIPTION, _name(request), request)
        return management_pb2.CreateSubscriptionResponse(
            subscription=self._calls.with_facts(
                changed.entity, entities.subscription_to_proto(changed.entity)
            ),
            outcomes=outcomes_to_proto(changed),
        )

    @statuses.unary
    async def UpdateSubscription(
        self, request: management_pb2.UpdateSubscriptionRequest, context: Context
    ) -> management_pb2.UpdateSubscriptionResponse:
        """Change a subscription on all partitions."""
        changed = await self._calls.update(SUBSCRIPTION, _name(request), request)
        return management_pb2.UpdateSubscriptionResponse(
            subscription=self._calls.with_facts(
                changed.entity, entities.subscription_to_proto(changed.entity)
            ),
            outcomes=outcomes_to_proto(changed),
        )

    @statuses.unary
    async def DeleteSubscription(
        self, request: management_pb2.DeleteSubscriptionRequest, context: Context
    ) -> management_pb2.DeleteSubscriptionResponse:
        """Delete a subscription and its messages on all partitions."""
        changed = await self._calls.delete(SUBSCRIPTION, _name(request), request)
        return management_pb2.DeleteSubscriptionResponse(outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def GetSubscription(
        self, request: management_pb2.GetSubscriptionRequest, context: Context
    ) -> management_pb2.GetSubscriptionResponse:
        """Show a subscription."""
        entity = self._front_end.directory.find(_name(request), SUBSCRIPTION)
        [shown] = await self._calls.shown([entity], entities.subscription_to_proto, request)
        return management_pb2.GetSubscriptionResponse(subscription=shown)

    @statuses.unary
    async def ListSubscriptions(
        self, request: management_pb2.ListSubscriptionsRequest, context: Context
    ) -> management_pb2.ListSubscriptionsResponse:
        """Show subscriptions of a topic by name, a page at a time."""
        entity = self._front_end.directory.find(request.topic_name, TOPIC)
        page, more = self._calls.page(SUBSCRIPTION, request, topic=entity.key)
        return management_pb2.ListSubscriptionsResponse(
            subscriptions=await self._calls.shown(page, entities.listed_subscription, request),
            next_page_token=more,
        )

    def _shown(self, request: Any) -> Callable[[Entity], management_pb2.Topic]:
        return self._with_filters if request.include_runtime else self._topic

    def _with_filters(self, entity: Entity) -> management_pb2.Topic:
        topic = self._topic(entity)
        for subscription in self._front_end.directory.subscriptions(entity.key):
            for rule in rules_of(subscription):
                if isinstance(rule.filter, SqlFilter):
                    topic.sql_filter_count += 1
                else:
                    topic.correlation_filter_count += 1
        return topic

    def _topic(self, entity: Entity) -> management_pb2.Topic:
        count = self._front_end.directory.subscription_count(entity.key)
        return entities.topic_to_proto(entity, count)


def _name(request: Any) -> str:
    """Return the name as an entity of the subscription that a request names."""
    return subscription_name.compose(request.topic_name, request.name)
