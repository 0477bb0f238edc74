"""bendybus.v1.ManagementService: the registrar decides, all partitions follow, sums come back."""

import asyncio
import uuid
from importlib import metadata
from typing import Any, Final

import grpc

from bendybus.domain import entity as entities_rules
from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core.gateway import Gateway
from bendybus.frontend.core.partition_calls import each, unknown, unreachable
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import entities, statuses

Context = grpc.aio.ServicerContext[Any, Any]
REGISTRAR: Final = 0
PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000


class ManagementService(management_pb2_grpc.ManagementServiceServicer):
    """Creates, changes, shows entities."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def GetNamespace(
        self, request: management_pb2.GetNamespaceRequest, context: Context
    ) -> management_pb2.GetNamespaceResponse:
        """Show the namespace and its partitions as this front end sees them."""
        fingerprint = self._gateway.directory.fingerprint
        upstreams = self._gateway.upstreams.values()
        return management_pb2.GetNamespaceResponse(
            name=fingerprint.namespace_name if fingerprint else "",
            uid=fingerprint.namespace_uid if fingerprint else "",
            tier=fingerprint.tier.value if fingerprint else "",
            partition_count=len(self._gateway.upstreams),
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

    async def CreateQueue(
        self, request: management_pb2.CreateQueueRequest, context: Context
    ) -> management_pb2.CreateQueueResponse:
        """Create a queue on all partitions."""
        uid = request.uid or str(uuid.uuid4())
        from_manifest = request.origin == management_pb2.ENTITY_ORIGIN_MANIFEST
        commit = entity_pb2.CommitEntityRequest(
            partition=REGISTRAR,
            action=entity_pb2.ENTITY_ACTION_CREATE,
            name=request.name,
            queue=request.description,
            origin=request.origin,
            uid=uid,
            manifest_uid=uid if from_manifest else "",
        )
        try:
            entity, outcomes = await self._change(commit)
        except BusError as error:
            await statuses.abort(context, error)
            raise
        return management_pb2.CreateQueueResponse(
            queue=entities.queue_to_proto(entity), outcomes=outcomes
        )

    async def UpdateQueue(
        self, request: management_pb2.UpdateQueueRequest, context: Context
    ) -> management_pb2.UpdateQueueResponse:
        """Change a queue on all partitions."""
        commit = entity_pb2.CommitEntityRequest(
            partition=REGISTRAR,
            action=entity_pb2.ENTITY_ACTION_UPDATE,
            name=request.name,
            queue=request.description,
            origin=request.origin,
            if_generation=request.if_generation,
        )
        try:
            entity, outcomes = await self._change(commit)
        except BusError as error:
            await statuses.abort(context, error)
            raise
        return management_pb2.UpdateQueueResponse(
            queue=entities.queue_to_proto(entity), outcomes=outcomes
        )

    async def DeleteQueue(
        self, request: management_pb2.DeleteQueueRequest, context: Context
    ) -> management_pb2.DeleteQueueResponse:
        """Delete a queue and its messages on all partitions."""
        commit = entity_pb2.CommitEntityRequest(
            partition=REGISTRAR,
            action=entity_pb2.ENTITY_ACTION_DELETE,
            name=request.name,
            origin=request.origin,
        )
        try:
            _, outcomes = await self._change(commit)
        except BusError as error:
            await statuses.abort(context, error)
            raise
        return management_pb2.DeleteQueueResponse(outcomes=outcomes)

    async def GetQueue(
        self, request: management_pb2.GetQueueRequest, context: Context
    ) -> management_pb2.GetQueueResponse:
        """Show a queue."""
        try:
            entity, _ = self._gateway.directory.lookup(request.name)
        except BusError as error:
            await statuses.abort(context, error)
            raise
        [queue] = await self._shown([entity], request.include_runtime)
        return management_pb2.GetQueueResponse(queue=queue)

    async def ListQueues(
        self, request: management_pb2.ListQueuesRequest, context: Context
    ) -> management_pb2.ListQueuesResponse:
        """Show queues by name, a page at a time; orphaned ones only if asked for."""
        size = min(request.page_size or PAGE_DEFAULT, PAGE_MAX)
        page, more = self._gateway.directory.page(
            request.page_token, size, with_orphaned=request.include_orphaned
        )
        return management_pb2.ListQueuesResponse(
            queues=await self._shown(page, request.include_runtime),
            next_page_token=page[-1].key if more else "",
        )

    # Changing

    async def _change(
        self, commit: entity_pb2.CommitEntityRequest
    ) -> tuple[Entity, list[management_pb2.PartitionOutcome]]:
        """Commit at the registrar, copy to all; raise when partitions that matter failed."""
        entities_rules.check_name(commit.name)
        with self._gateway.copying(commit.name.lower()):
            try:
                entity = await self._commit(commit)
            except errors.EntityAlreadyExists:
                half_done = self._half_done(commit)
                if half_done is None:
                    raise
                entity = half_done
            outcomes = await self._copy(entity)
        missing = [
            o.partition for o in outcomes if not o.done and o.partition in entity.partitions()
        ]
        if missing:
            raise errors.PartitionUnavailable(
                f"queue {entity.name!r}: the change is recorded, but partitions {missing} could "
                "not be reached; they take it when they are back. Repeat the call to see it done.",
                metadata={
                    "entity": entity.name,
                    "partitions": ",".join(map(str, missing)),
                    "generation": str(entity.generation),
                },
            )
        return entity, outcomes

    async def _commit(self, commit: entity_pb2.CommitEntityRequest) -> Entity:
        registrar = self._gateway.upstreams[REGISTRAR]
        if not registrar.available:
            raise errors.PartitionUnavailable(
                "partition 0, the registrar of entities, is unavailable: nothing can be created, "
                "changed or deleted until it is back. Messages flow on.",
                metadata={"partition": "0"},
            )
        try:
            response = await registrar.catalogue_calls.CommitEntity(
                commit, timeout=self._gateway.settings.unary_timeout_s
            )
        except grpc.RpcError as error:
            found = statuses.from_rpc_error(error)
            if type(found) in (errors.RetryableError, errors.ServiceTimeout):
                raise unknown(registrar) from error
            raise found from error
        return entities.entity_from_proto(response.entity)

    def _half_done(self, commit: entity_pb2.CommitEntityRequest) -> Entity | None:
        """Return what an earlier try of the same call made, if some partition still lacks it."""
        try:
            entity, _ = self._gateway.directory.lookup(commit.name)
        except BusError:
            return None
        changes = entities.description_changes(commit.queue)
        same = all(getattr(entity.queue, name) == value for name, value in changes.items())
        holders = self._gateway.directory.holders(entity.key)
        lagging = any(
            partition not in holders or not upstream.available
            for partition, upstream in self._gateway.upstreams.items()
        )
        made_by = entities.origin_from_proto(commit.origin)
        return entity if same and lagging and entity.origin is made_by else None

    async def _copy(self, entity: Entity) -> list[management_pb2.PartitionOutcome]:
        async def one(partition: int) -> management_pb2.PartitionOutcome:
            outcome = management_pb2.PartitionOutcome(partition=partition, done=True)
            upstream = self._gateway.upstreams[partition]
            try:
                if not upstream.available:
                    raise unreachable(upstream)
                await self._gateway.apply(partition, entity)
            except grpc.RpcError as error:
                outcome.done = False
                outcome.error.CopyFrom(statuses.to_error(statuses.from_rpc_error(error)))
            except BusError as error:
                outcome.done = False
                outcome.error.CopyFrom(statuses.to_error(error))
            return outcome

        outcomes = await asyncio.gather(*(one(p) for p in self._gateway.upstreams))
        # The caller may use the entity as soon as it has the answer, through this front end.
        fingerprint = self._gateway.directory.fingerprint
        if fingerprint is not None:
            for outcome in outcomes:
                if outcome.done:
                    self._gateway.directory.update(
                        outcome.partition, fingerprint, [entity], snapshot=False
                    )
        return list(outcomes)

    # Showing

    async def _shown(
        self, shown: list[Entity], include_runtime: bool
    ) -> list[management_pb2.Queue]:
        queues = [entities.queue_to_proto(entity) for entity in shown]
        if include_runtime and shown:
            gateway = self._gateway
            uids = [entity.uid for entity in shown]
            answers = await each(
                gateway,
                gateway.upstreams,
                lambda calls, partition: calls.GetCounts(
                    partition_pb2.GetCountsRequest(partition=partition, uids=uids),
                    timeout=gateway.settings.unary_timeout_s,
                ),
            )
            for entity, queue in zip(shown, queues, strict=True):
                queue.runtime.CopyFrom(_runtime(entity, answers))
        return queues


def _runtime(
    entity: Entity, answers: dict[int, partition_pb2.GetCountsResponse | BusError]
) -> management_pb2.QueueRuntime:
    """Return the sums over the partitions that answered; Limited if one did not."""
    runtime = management_pb2.QueueRuntime(
        availability_status=management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE,
        max_size_in_megabytes_total=entity.queue.max_size_in_megabytes * entity.partition_count,
        created_at_ms=entity.created_at_ms,
        updated_at_ms=entity.updated_at_ms,
    )
    total = runtime.count_details
    for partition in entity.partitions():
        answer = answers[partition]
        share = runtime.partitions.add(partition=partition)
        if isinstance(answer, BusError):
            runtime.availability_status = management_pb2.ENTITY_AVAILABILITY_STATUS_LIMITED
            continue
        share.reachable = True
        for counts in answer.entities:
            if counts.uid != entity.uid:
                continue
            share.size_in_bytes = counts.size_in_bytes
            share.count_details.active_message_count = counts.active
            share.count_details.dead_letter_message_count = counts.dead_letter
            share.count_details.scheduled_message_count = counts.scheduled
            share.count_details.deferred_message_count = counts.deferred
            share.count_details.locked_message_count = counts.locked
            runtime.size_in_bytes += counts.size_in_bytes
            runtime.accessed_at_ms = max(runtime.accessed_at_ms, counts.accessed_at_ms)
        for field in total.DESCRIPTOR.fields:
            value = getattr(total, field.name) + getattr(share.count_details, field.name)
            setattr(total, field.name, value)
    return runtime
