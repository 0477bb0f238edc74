"""bendybus.v1.ManagementService: translates; the rules are in `core.manage`."""

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from bendybus.domain import descriptions, subscription_name
from bendybus.domain.entity import Entity, rules_of
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.manage import PAGE_DEFAULT, PAGE_MAX, Changed, Runtime
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.upstreams.unary_calls import Commit, Counts
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import entities, statuses

# Requests of a kind of call, and entities as clients see them, whatever the kind of entity.
Creation = (
    management_pb2.CreateQueueRequest
    | management_pb2.CreateTopicRequest
    | management_pb2.CreateSubscriptionRequest
)
Update = (
    management_pb2.UpdateQueueRequest
    | management_pb2.UpdateTopicRequest
    | management_pb2.UpdateSubscriptionRequest
)
Deletion = (
    management_pb2.DeleteQueueRequest
    | management_pb2.DeleteTopicRequest
    | management_pb2.DeleteSubscriptionRequest
)
Look = (
    management_pb2.GetQueueRequest
    | management_pb2.GetTopicRequest
    | management_pb2.GetSubscriptionRequest
)
Listing = (
    management_pb2.ListQueuesRequest
    | management_pb2.ListTopicsRequest
    | management_pb2.ListSubscriptionsRequest
)
OfSubscription = (
    management_pb2.CreateSubscriptionRequest
    | management_pb2.UpdateSubscriptionRequest
    | management_pb2.DeleteSubscriptionRequest
    | management_pb2.GetSubscriptionRequest
)
Seen = management_pb2.Queue | management_pb2.Topic | management_pb2.Subscription
SeenT = TypeVar("SeenT", bound=Seen)
AnswerT = TypeVar("AnswerT", bound=Message)


class OfRules(Protocol):
    """A request about rules."""

    topic_name: str
    subscription_name: str


class EntityCalls:
    """The calls of one front end, whatever the kind.

    Requests and answers of all kinds have the same fields; that of the entity has the kind's name.
    """

    def __init__(self, front_end: FrontEnd) -> None:
        self._directory, self._manager = front_end.directory, front_end.manager
        self._upstreams = front_end.upstreams

    async def create(
        self, kind: EntityKind, request: Creation, answer: Callable[..., AnswerT]
    ) -> AnswerT:
        """Create an entity on all partitions."""
        commit = Commit(
            EntityAction.CREATE,
            _name(request),
            changes=entities.description_changes(request.description),
            origin=entities.origin_from_proto(request.origin),
            uid=request.uid,
            kind=kind,
            # A subscription is where its topic is.
            migrated=not isinstance(request, OfSubscription) and request.migrated,
        )
        return self._changed(await self._manager.change(commit), answer)

    async def update(
        self, kind: EntityKind, request: Update, answer: Callable[..., AnswerT]
    ) -> AnswerT:
        """Change an entity on all partitions."""
        commit = Commit(
            EntityAction.UPDATE,
            _name(request),
            changes=entities.description_changes(request.description),
            origin=entities.origin_from_proto(request.origin),
            if_generation=request.if_generation,
            kind=kind,
        )
        return self._changed(await self._manager.change(commit), answer)

    async def delete(
        self, kind: EntityKind, request: Deletion, answer: Callable[..., AnswerT]
    ) -> AnswerT:
        """Delete an entity and its messages on all partitions."""
        origin = entities.origin_from_proto(request.origin)
        commit = Commit(EntityAction.DELETE, _name(request), origin=origin, kind=kind)
        return answer(outcomes=outcomes_to_proto(await self._manager.change(commit)))

    async def get(self, kind: EntityKind, request: Look, answer: Callable[..., AnswerT]) -> AnswerT:
        """Show an entity."""
        found = self._directory.find(_name(request), kind)
        [shown] = await self._shown([found], self._proto, request)
        return answer(**{kind.value: shown})

    async def listed(
        self, kind: EntityKind, request: Listing, answer: Callable[..., AnswerT], *, topic: str = ""
    ) -> AnswerT:
        """Show a page of entities by name; orphaned ones only if asked for."""
        page, more = self._manager.page(
            request.page_token,
            request.page_size,
            with_orphaned=request.include_orphaned,
            kind=kind,
            topic=topic,
        )
        to_proto: Callable[[Entity], Seen] = entities.listed_subscription
        if kind is not EntityKind.SUBSCRIPTION:
            to_proto = self._listed
        shown = await self._shown(page, to_proto, request)
        return answer(**{f"{kind}s": shown}, next_page_token=page[-1].key if more else "")

    def _changed(self, changed: Changed, answer: Callable[..., AnswerT]) -> AnswerT:
        entity = changed.entity
        seen = self._with_facts(entity, self._proto(entity))
        return answer(**{entity.kind.value: seen}, outcomes=outcomes_to_proto(changed))

    def _proto(self, entity: Entity) -> Seen:
        """Return an entity as clients see it."""
        if entity.kind is EntityKind.QUEUE:
            return entities.queue_to_proto(entity)
        if entity.kind is EntityKind.SUBSCRIPTION:
            return entities.subscription_to_proto(entity)
        return entities.topic_to_proto(entity, self._directory.subscription_count(entity.key))

    def _listed(self, entity: Entity) -> Seen:
        seen: Seen = entities.listed(self._proto(entity))
        return seen

    async def _shown(
        self,
        found: Sequence[Entity],
        to_proto: Callable[[Entity], Seen],
        request: Look | Listing,
    ) -> list[Seen]:
        """Return entities as clients see them, with their runtime facts if these are asked for."""
        protos = [self._with_facts(entity, to_proto(entity)) for entity in found]
        if request.include_runtime:
            runtimes = await self._manager.runtime(found)
            for entity, proto, runtime in zip(found, protos, runtimes, strict=True):
                proto.runtime.CopyFrom(runtime_to_proto(entity, runtime))
                if isinstance(proto, management_pb2.Topic):
                    counts = self._directory.filter_counts(entity.key)
                    proto.sql_filter_count, proto.correlation_filter_count = counts
        return protos

    def _with_facts(self, entity: Entity, proto: SeenT) -> SeenT:
        """Return an entity as clients see it with what this front end knows of it by itself."""
        fingerprint = self._directory.fingerprint
        answering = {each for each, upstream in self._upstreams.items() if upstream.available}
        limited = not answering.issuperset(entity.partitions())
        proto.runtime.availability_status = _availability(limited)
        if not isinstance(proto, management_pb2.Subscription) and fingerprint is not None:
            proto.reported_size_in_megabytes = descriptions.reported_size_mb(
                entity.description, fingerprint.tier
            )
        return proto


def _name(request: Creation | Update | Deletion | Look) -> str:
    """Return the name as an entity of what a request names."""
    if isinstance(request, OfSubscription):
        return subscription_name.compose(request.topic_name, request.name)
    return request.name


def _availability(limited: bool) -> management_pb2.EntityAvailabilityStatus:
    if limited:
        return management_pb2.ENTITY_AVAILABILITY_STATUS_LIMITED
    return management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE


def runtime_to_proto(entity: Entity, runtime: Runtime) -> management_pb2.QueueRuntime:
    """Return what an entity holds as clients see it; Limited if a partition did not answer."""
    return management_pb2.QueueRuntime(
        availability_status=_availability(runtime.limited),
        max_size_in_megabytes_total=entity.description.max_size_in_megabytes
        * entity.partition_count,
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
        transfer_message_count=counts.transfer,
        transfer_dead_letter_message_count=counts.transfer_dead_letter,
    )


def outcomes_to_proto(changed: Changed) -> list[management_pb2.PartitionOutcome]:
    """Return how a change went, by partition."""
    return [
        management_pb2.PartitionOutcome(
            partition=partition,
            done=error is None,
            error=None if error is None else statuses.to_error(error),
        )
        for partition, error in changed.outcomes.items()
    ]


class RuleManagement(management_pb2_grpc.ManagementServiceServicer):
    """Creates, changes, shows rules. A rule is part of its subscription's catalogue entry."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._directory, self._manager = front_end.directory, front_end.manager
        self._calls = EntityCalls(front_end)

    @statuses.unary
    async def CreateRule(
        self, request: management_pb2.CreateRuleRequest, context: Context
    ) -> management_pb2.CreateRuleResponse:
        """Create a rule on all partitions."""
        changed, rule = await self._with_rule(RuleAction.CREATE, request)
        return management_pb2.CreateRuleResponse(rule=rule, outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def UpdateRule(
        self, request: management_pb2.UpdateRuleRequest, context: Context
    ) -> management_pb2.UpdateRuleResponse:
        """Replace filter and action of a rule on all partitions."""
        changed, rule = await self._with_rule(RuleAction.UPDATE, request)
        return management_pb2.UpdateRuleResponse(rule=rule, outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def DeleteRule(
        self, request: management_pb2.DeleteRuleRequest, context: Context
    ) -> management_pb2.DeleteRuleResponse:
        """Delete a rule on all partitions."""
        changed = await self._manager.change_rule(
            self._find(request),
            RuleAction.DELETE,
            Rule(request.name),
            entities.origin_from_proto(request.origin),
        )
        return management_pb2.DeleteRuleResponse(outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def GetRule(
        self, request: management_pb2.GetRuleRequest, context: Context
    ) -> management_pb2.GetRuleResponse:
        """Show a rule."""
        subscription = self._find(request)
        found = rule_set.get(rules_of(subscription), request.name, subscription.name)
        return management_pb2.GetRuleResponse(rule=entities.rule_to_proto(found))

    @statuses.unary
    async def ListRules(
        self, request: management_pb2.ListRulesRequest, context: Context
    ) -> management_pb2.ListRulesResponse:
        """Show rules by name, a page at a time."""
        by_key = {each.name.lower(): each for each in rules_of(self._find(request))}
        keys = sorted(key for key in by_key if key > request.page_token)
        page = keys[: min(request.page_size or PAGE_DEFAULT, PAGE_MAX)]
        return management_pb2.ListRulesResponse(
            rules=[entities.rule_to_proto(by_key[key]) for key in page],
            next_page_token=page[-1] if len(keys) > len(page) else "",
        )

    async def _with_rule(
        self,
        action: RuleAction,
        request: management_pb2.CreateRuleRequest | management_pb2.UpdateRuleRequest,
    ) -> tuple[Changed, management_pb2.Rule]:
        """Create or update a rule; return it as it is then."""
        subscription, rule = self._find(request), entities.rule_from_proto(request.rule)
        origin = entities.origin_from_proto(request.origin)
        changed = await self._manager.change_rule(subscription, action, rule, origin)
        found = rule_set.get(rules_of(changed.entity), rule.name, subscription.name)
        return changed, entities.rule_to_proto(found)

    def _find(self, request: OfRules) -> Entity:
        """Return the subscription that a request is about."""
        name = subscription_name.compose(request.topic_name, request.subscription_name)
        return self._directory.find(name, EntityKind.SUBSCRIPTION)


QUEUE, TOPIC, SUBSCRIPTION = EntityKind.QUEUE, EntityKind.TOPIC, EntityKind.SUBSCRIPTION


class ManagementService(RuleManagement):
    """Creates, changes, shows entities."""

    def __init__(self, front_end: FrontEnd) -> None:
        super().__init__(front_end)
        self._front_end = front_end

    @statuses.unary
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

    @statuses.unary
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
