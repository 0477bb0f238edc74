"""The gRPC façade of the catalogue: the registrar's commits, the copies, the watch."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc

from bendybus.domain.entity import Entity
from bendybus.domain.lifecycle import EntityAction
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc
from bendybus.partition_server.broker.replies import Outbox
from bendybus.partition_server.service import rule_compiler
from bendybus.partition_server.service.hosts import Hosts, submit
from bendybus.partition_server.service.rule_compiler import RuleCompiler
from bendybus.partition_server.state import answers, commands
from bendybus.wire import catalogue, entities, statuses

Context = grpc.aio.ServicerContext[Any, Any]


class EntityService(entity_pb2_grpc.EntityServiceServicer):
    """bendybus.internal.v1.EntityService."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._compiler = RuleCompiler()

    @statuses.unary
    async def CommitEntity(
        self, request: entity_pb2.CommitEntityRequest, context: Context
    ) -> entity_pb2.CommitEntityResponse:
        """Commit a change of the catalogue; only at the registrar."""
        uid = request.uid
        if request.action == entity_pb2.ENTITY_ACTION_CREATE:
            uid = uid or request.manifest_uid or str(uuid.uuid4())
        kind, name, changes = catalogue.commit_asked(request)
        change = catalogue.rule_change(request)
        await self._compiler.prepare(changes.get("rules", ()) if change is None else [change.rule])
        entity: Entity = await self._hosts.ask(
            request.partition,
            lambda reply: commands.CommitEntity(
                reply,
                EntityAction(request.action),
                name,
                entities.origin_from_proto(request.origin),
                changes,
                uid,
                request.if_generation,
                request.manifest_uid,
                kind,
                change,
                request.migrated,
            ),
        )
        return catalogue.commit_response(entity)

    @statuses.unary
    async def ApplyEntity(
        self, request: entity_pb2.ApplyEntityRequest, context: Context
    ) -> entity_pb2.ApplyEntityResponse:
        """Copy entries of the registrar."""
        entries = catalogue.applied(request)
        described = [entry.description for entry in entries]
        await self._compiler.prepare(rule_compiler.of_descriptions(described))
        await self._hosts.ask(request.partition, lambda reply: commands.ApplyEntity(reply, entries))
        return entity_pb2.ApplyEntityResponse()

    async def WatchEntities(
        self, request: entity_pb2.WatchEntitiesRequest, context: Context
    ) -> AsyncIterator[entity_pb2.WatchEntitiesResponse]:
        """Send the catalogue, then what changes."""
        async with statuses.errors_as_status(context):
            thread = self._hosts.find(request.partition)
            fingerprint = entities.fingerprint_to_proto(thread.store.fingerprint)
            outbox: Outbox[entity_pb2.WatchEntitiesResponse] = Outbox(
                lambda changed: _watch_response(changed, fingerprint)
            )
            submit(thread, commands.Watch(outbox))
            try:
                # The caller's cancellation ends this handler, wherever it waits.
                with self._hosts.attendance.stream(outbox.close):
                    while (frame := await outbox.next()) is not None:
                        if not request.in_parts:
                            yield frame
                            continue
                        for part in catalogue.parts(frame, request.part_bytes):
                            yield part
            finally:
                thread.submit(commands.StreamEnded(outbox))

    @statuses.unary
    async def FenceIdleEntity(
        self, request: entity_pb2.FenceIdleEntityRequest, context: Context
    ) -> entity_pb2.FenceIdleEntityResponse:
        """Refuse an idle entity's traffic for a moment."""
        fenced = await self._hosts.ask(
            request.partition,
            lambda reply: commands.FenceIdle(
                reply, request.uid, request.generation, request.idle_ms
            ),
        )
        return entity_pb2.FenceIdleEntityResponse(fenced=fenced)


def _watch_response(
    changed: answers.CatalogueChanged, fingerprint: entity_pb2.Fingerprint
) -> entity_pb2.WatchEntitiesResponse:
    return catalogue.watch_response(fingerprint, changed.entities, snapshot=changed.snapshot)
