"""The gRPC façade of the catalogue: the registrar's commits, the watch, and copies for others."""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice

import grpc

from bendybus.domain import limits
from bendybus.domain.entity import Entity
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.lifecycle import EntityAction
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc
from bendybus.partition_server.broker.replies import Outbox
from bendybus.partition_server.service.catalogue_pull import REGISTRAR, CataloguePull
from bendybus.partition_server.service.hosts import Context, Hosts, submit
from bendybus.partition_server.state import answers, commands
from bendybus.wire import catalogue, entities, statuses


class EntityService(entity_pb2_grpc.EntityServiceServicer):
    """bendybus.internal.v1.EntityService."""

    def __init__(
        self,
        hosts: Hosts,
        address: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """`address`: of the registrar, where another process serves it."""
        self._hosts = hosts
        self._compiler = RuleCompiler()
        # Of the streams that watch each partition.
        self._watchers: dict[int, set[Outbox[answers.CatalogueChanged]]] = {}
        self.pull = CataloguePull(hosts, self.take, address, credentials)
        self.pull.changed = self._tell

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
        return catalogue.commit_response(entity, change if request.without_rules else None)

    @statuses.unary
    async def ApplyEntity(
        self, request: entity_pb2.ApplyEntityRequest, context: Context
    ) -> entity_pb2.ApplyEntityResponse:
        """Copy entries of the registrar."""
        await self.take(request.partition, catalogue.applied(request))
        return entity_pb2.ApplyEntityResponse()

    async def take(self, partition: int, entries: Sequence[Entity]) -> None:
        """Have a partition take entries of the registrar, all or none. Raises the domain error."""
        await self._compiler.prepare_entries(partition, entries)
        await self._hosts.ask(partition, lambda reply: commands.ApplyEntity(reply, entries))

    async def WatchEntities(
        self, request: entity_pb2.WatchEntitiesRequest, context: Context
    ) -> AsyncIterator[entity_pb2.WatchEntitiesResponse]:
        """Send the catalogue, then what changes."""
        async with statuses.errors_as_status(context):
            contract = catalogue.watched_under(request)
            thread = self._hosts.find(request.partition)
            fingerprint = entities.fingerprint_to_proto(thread.store.fingerprint)
            reads_edits = catalogue.reads_edits(request)
            outbox: Outbox[answers.CatalogueChanged] = Outbox(lambda changed: changed)
            submit(thread, commands.Watch(outbox))
            watchers = self._watchers.setdefault(request.partition, set())
            watchers.add(outbox)
            try:
                # The caller's cancellation ends this handler, wherever it waits.
                with self._hosts.attendance.stream(outbox.close):
                    while (changed := await outbox.next()) is not None:
                        for part in catalogue.watch_responses(
                            fingerprint,
                            changed.entities,
                            snapshot=changed.snapshot,
                            pulls=self.pull.of(request.partition),
                            contract=contract,
                            edits=changed.edits if reads_edits else {},
                            part_bytes=request.part_bytes,
                        ):
                            yield part
            finally:
                watchers.discard(outbox)
                thread.submit(commands.StreamEnded(outbox))

    def _tell(self) -> None:
        """Tell all watchers whether a partition takes what it lacks by itself now."""
        for partition, watchers in self._watchers.items():
            for outbox in watchers if partition != REGISTRAR else ():
                outbox.put(answers.CatalogueChanged((), snapshot=False))

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


class RuleCompiler:
    """Compiles what calls bring."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        # The rules that each partition took last of a subscription: by partition and UID.
        self._taken: dict[tuple[int, str], RuleSet] = {}

    async def prepare_entries(self, partition: int, entries: Iterable[Entity]) -> None:
        """Compile, as `prepare`, the rules of subscriptions that a partition did not take before.

        Partitions of one process take the same rules: the first one compiles, the others wait.
        """
        taken: dict[tuple[int, str], RuleSet] = {}
        fresh: list[Rule] = []
        for entry in entries:
            if isinstance(entry.description, SubscriptionDescription):
                name, rules = (partition, entry.uid), entry.description.rules
                fresh += rule_set.difference(self._taken.get(name, ()), rules)[1]
                taken[name] = rules
        await self.prepare(fresh)
        # STRICTLY AFTER they are compiled: a call that is cancelled has compiled nothing.
        for name, rules in taken.items():
            self._taken.pop(name, None)
            if rules:
                self._taken[name] = rules

    async def prepare(self, given: Iterable[Rule]) -> None:
        """Compile rules, up to the first that is wrong: that is left to the decision on it."""
        sql = (each for each in given if isinstance(each.filter, SqlFilter) or each.action)
        wanted = list(islice(sql, limits.COMPILED_TEXTS_MAX))
        if not wanted:
            return
        cancelled = threading.Event()
        async with self._turn:
            try:
                await asyncio.to_thread(_compile, wanted, cancelled)
            finally:
                cancelled.set()


def _compile(wanted: Sequence[Rule], cancelled: threading.Event) -> None:
    with contextlib.suppress(BusError):
        for each in wanted:
            if cancelled.is_set():
                return
            rules.compiled(each, partitioned=False)
