"""What management calls of every kind of entity have in common: from requests to `core.manage`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import grpc

from bendybus.domain import descriptions, subscription_name
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.manage import Changed, Runtime
from bendybus.frontend.upstreams.unary_calls import Commit, Counts
from bendybus.v1 import management_pb2
from bendybus.wire import entities, statuses

AnyProto = TypeVar("AnyProto", bound=Any)
Context = grpc.aio.ServicerContext[Any, Any]


class EntityCalls:
    """The calls of one front end, whatever the kind.

    Requests and answers of all kinds have the same fields; that of the entity has the kind's name.
    """

    def __init__(self, front_end: FrontEnd) -> None:
        self._directory, self._manager = front_end.directory, front_end.manager
        self._upstreams = front_end.upstreams

    async def create(
        self, kind: EntityKind, request: Any, answer: Callable[..., AnyProto]
    ) -> AnyProto:
        """Create an entity on all partitions."""
        changed = await self._change(
            EntityAction.CREATE,
            _name(kind, request),
            request,
            changes=entities.description_changes(request.description),
            uid=request.uid,
            kind=kind,
            # A subscription is where its topic is.
            migrated=kind is not EntityKind.SUBSCRIPTION and request.migrated,
        )
        return self._changed(changed, answer)

    async def update(
        self, kind: EntityKind, request: Any, answer: Callable[..., AnyProto]
    ) -> AnyProto:
        """Change an entity on all partitions."""
        changed = await self._change(
            EntityAction.UPDATE,
            _name(kind, request),
            request,
            changes=entities.description_changes(request.description),
            if_generation=request.if_generation,
            kind=kind,
        )
        return self._changed(changed, answer)

    async def delete(
        self, kind: EntityKind, request: Any, answer: Callable[..., AnyProto]
    ) -> AnyProto:
        """Delete an entity and its messages on all partitions."""
        name = _name(kind, request)
        changed = await self._change(EntityAction.DELETE, name, request, kind=kind)
        return answer(outcomes=outcomes_to_proto(changed))

    async def get(
        self, kind: EntityKind, request: Any, answer: Callable[..., AnyProto]
    ) -> AnyProto:
        """Show an entity."""
        found = self._directory.find(_name(kind, request), kind)
        [shown] = await self._shown([found], self._proto, request)
        return answer(**{kind.value: shown})

    async def listed(
        self, kind: EntityKind, request: Any, answer: Callable[..., AnyProto], *, topic: str = ""
    ) -> AnyProto:
        """Show a page of entities by name; orphaned ones only if asked for."""
        page, more = self._manager.page(
            request.page_token,
            request.page_size,
            with_orphaned=request.include_orphaned,
            kind=kind,
            topic=topic,
        )
        in_list = kind is EntityKind.SUBSCRIPTION
        to_proto = entities.listed_subscription if in_list else self._proto
        shown = await self._shown(page, to_proto, request)
        return answer(**{f"{kind}s": shown}, next_page_token=page[-1].key if more else "")

    async def change_rule(
        self, subscription: str, request: Any, action: RuleAction, rule: Rule
    ) -> Changed:
        """Change a rule of a subscription on all partitions."""
        return await self._change(
            EntityAction.UPDATE,
            subscription,
            request,
            rule_change=RuleChange(action, rule),
            kind=EntityKind.SUBSCRIPTION,
        )

    async def _change(self, action: EntityAction, name: str, request: Any, **facts: Any) -> Changed:
        origin = entities.origin_from_proto(request.origin)
        return await self._manager.change(Commit(action, name, origin=origin, **facts))

    def _changed(self, changed: Changed, answer: Callable[..., AnyProto]) -> AnyProto:
        entity = changed.entity
        seen = self._with_facts(entity, self._proto(entity))
        return answer(**{entity.kind.value: seen}, outcomes=outcomes_to_proto(changed))

    def _proto(self, entity: Entity) -> Any:
        """Return an entity as clients see it."""
        if entity.kind is EntityKind.QUEUE:
            return entities.queue_to_proto(entity)
        if entity.kind is EntityKind.SUBSCRIPTION:
            return entities.subscription_to_proto(entity)
        return entities.topic_to_proto(entity, self._directory.subscription_count(entity.key))

    async def _shown(
        self, found: Sequence[Entity], to_proto: Callable[[Entity], Any], request: Any
    ) -> list[Any]:
        """Return entities as clients see them, with their runtime facts if these are asked for."""
        protos = [self._with_facts(entity, to_proto(entity)) for entity in found]
        if request.include_runtime:
            runtimes = await self._manager.runtime(found)
            for entity, proto, runtime in zip(found, protos, runtimes, strict=True):
                proto.runtime.CopyFrom(runtime_to_proto(entity, runtime))
                if entity.kind is EntityKind.TOPIC:
                    self._count_filters(entity, proto)
        return protos

    def _count_filters(self, topic: Entity, proto: management_pb2.Topic) -> None:
        for subscription in self._directory.subscriptions(topic.key):
            for rule in rules_of(subscription):
                if isinstance(rule.filter, SqlFilter):
                    proto.sql_filter_count += 1
                else:
                    proto.correlation_filter_count += 1

    def _with_facts(self, entity: Entity, proto: AnyProto) -> AnyProto:
        """Return an entity as clients see it with what this front end knows of it by itself."""
        fingerprint = self._directory.fingerprint
        answering = {each for each, upstream in self._upstreams.items() if upstream.available}
        limited = not answering.issuperset(entity.partitions())
        proto.runtime.availability_status = _availability(limited)
        if entity.kind is not EntityKind.SUBSCRIPTION and fingerprint is not None:
            proto.reported_size_in_megabytes = descriptions.reported_size_mb(
                entity.description, fingerprint.tier
            )
        return proto


def _name(kind: EntityKind, request: Any) -> str:
    """Return the name as an entity of what a request names."""
    if kind is EntityKind.SUBSCRIPTION:
        return subscription_name.compose(request.topic_name, request.name)
    return str(request.name)


def rules_of(subscription: Entity) -> tuple[Rule, ...]:
    """Return the rules of a subscription."""
    described = subscription.description
    assert isinstance(described, SubscriptionDescription), subscription
    return described.rules


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
