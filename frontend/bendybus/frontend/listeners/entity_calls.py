"""What management calls of every kind of entity have in common: from requests to `core.manage`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import grpc

from bendybus.domain import descriptions
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters.rule import Rule
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
    """The calls of one front end, whatever the kind; fields of a request have the same names."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._manager = front_end.manager

    async def create(self, kind: EntityKind, name: str, request: Any) -> Changed:
        """Create an entity on all partitions."""
        return await self._change(
            EntityAction.CREATE,
            name,
            request,
            changes=entities.description_changes(request.description),
            uid=request.uid,
            kind=kind,
            # A subscription is where its topic is.
            migrated=kind is not EntityKind.SUBSCRIPTION and request.migrated,
        )

    async def update(self, kind: EntityKind, name: str, request: Any) -> Changed:
        """Change an entity on all partitions."""
        return await self._change(
            EntityAction.UPDATE,
            name,
            request,
            changes=entities.description_changes(request.description),
            if_generation=request.if_generation,
            kind=kind,
        )

    async def delete(self, kind: EntityKind, name: str, request: Any) -> Changed:
        """Delete an entity and its messages on all partitions."""
        return await self._change(EntityAction.DELETE, name, request, kind=kind)

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

    def page(self, kind: EntityKind, request: Any, *, topic: str = "") -> tuple[list[Entity], str]:
        """Return a page of entities, and the token of the next one; "" at the end."""
        page, more = self._manager.page(
            request.page_token,
            request.page_size,
            with_orphaned=request.include_orphaned,
            kind=kind,
            topic=topic,
        )
        return page, page[-1].key if more else ""

    async def shown(
        self, found: Sequence[Entity], to_proto: Callable[[Entity], Any], request: Any
    ) -> list[Any]:
        """Return entities as clients see them, with their runtime facts if these are asked for."""
        protos = [self.with_facts(entity, to_proto(entity)) for entity in found]
        if request.include_runtime:
            runtimes = await self._manager.runtime(found)
            for entity, proto, runtime in zip(found, protos, runtimes, strict=True):
                proto.runtime.CopyFrom(runtime_to_proto(entity, runtime))
        return protos

    def with_facts(self, entity: Entity, proto: AnyProto) -> AnyProto:
        """Return an entity as clients see it with what this front end knows of it by itself."""
        upstreams, fingerprint = self._front_end.upstreams, self._front_end.directory.fingerprint
        answering = {each for each, upstream in upstreams.items() if upstream.available}
        limited = not answering.issuperset(entity.partitions())
        proto.runtime.availability_status = _availability(limited)
        if entity.kind is not EntityKind.SUBSCRIPTION and fingerprint is not None:
            proto.reported_size_in_megabytes = descriptions.reported_size_mb(
                entity.description, fingerprint.tier
            )
        return proto


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
