"""How the partitions of a process take what they lack of the registrar's catalogue.

    registrar ──watch──► directory ──what a partition lacks, oldest first──► its thread
                             ▲                                                   │
                             └──────────── what it has, as it commits ◄──────────┘

Each process watches the catalogue of partition 0, read only; no partition writes that of another.
While the watch stands, its partitions say so to their own watchers, and nobody copies to them.
Until then front ends and the operator do.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import grpc

from bendybus.domain import directory as directories
from bendybus.domain.backoff import Backoff
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import BusError, InvalidOperation
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.replies import Outbox
from bendybus.partition_server.service.hosts import Hosts, submit
from bendybus.partition_server.state import answers, commands
from bendybus.wire import catalogue, contract_versions, serving, statuses

logger = logging.getLogger(__name__)
REGISTRAR: Final = 0
BACKOFF: Final = Backoff(first_s=0.1, max_s=2.0, reset_after_s=2.0, jitter=0.5)
# Until a partition is asked again to take what it could not.
AGAIN_S: Final = 1.0
# Has a partition of this process take entries of the registrar, all or none.
Take = Callable[[int, Sequence[Entity]], Awaitable[None]]


class CataloguePull:
    """The pull of all partitions of this process."""

    def __init__(
        self,
        hosts: Hosts,
        take: Take,
        address: str | None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """`address`: of the registrar; None: it is here, or not known."""
        self._hosts = hosts
        self._take = take
        self._address = address
        self._channel: grpc.aio.Channel | None = None
        self._credentials = credentials
        self._renewed = asyncio.Event()
        # Why the registrar's version and this one do not work together, as it was logged.
        self._refusal = ""
        self._directory = Directory()
        # Of each partition: something came that it may lack.
        self._news = {index: asyncio.Event() for index in hosts.threads}
        # Whether the registrar's catalogue is watched; told to `changed`.
        self.stands = False
        self.changed: Callable[[], None] = lambda: None

    def of(self, partition: int) -> bool:
        """Whether a partition takes what it lacks by itself now."""
        return self.stands and partition != REGISTRAR

    def renew(self, credentials: grpc.ChannelCredentials) -> None:
        """Watch over a channel with other certificates."""
        self._credentials = credentials
        self._renewed.set()

    async def run(self) -> None:
        """Pull until cancelled; an unexpected error is logged, and the pull restarted."""
        if set(self._hosts.threads) == {REGISTRAR}:
            return
        while True:
            try:
                await self._run()
            except Exception:
                logger.exception("partition server: the catalogue's pull failed")
            finally:
                self._lost(REGISTRAR)
                if self._channel is not None:
                    await self._channel.close()
            await asyncio.sleep(AGAIN_S)

    async def _run(self) -> None:
        threads = self._hosts.threads
        async with asyncio.TaskGroup() as group:
            for thread in threads.values():
                group.create_task(self._listen(thread), name=f"catalogue-{thread.index}")
            if REGISTRAR not in threads and self._address is not None:
                group.create_task(self._watch(self._address), name="catalogue-watch")
            for partition in threads:
                name = f"catalogue-pull-{partition}"
                group.create_task(self._catch_up(partition), name=name)

    async def _listen(self, thread: PartitionThread) -> None:
        """Hear what a partition of this process has."""
        async for _ in _attempts():
            outbox: Outbox[answers.CatalogueChanged] = Outbox(lambda changed: changed)
            try:
                submit(thread, commands.Watch(outbox))
                while (news := await outbox.next()) is not None:
                    fingerprint = thread.store.fingerprint
                    self._heard(thread.index, fingerprint, news.entities, snapshot=news.snapshot)
            except BusError as error:
                logger.debug("partition %d: catalogue: %s", thread.index, error.message)
            finally:
                thread.submit(commands.StreamEnded(outbox))
                self._lost(thread.index)

    async def _watch(self, address: str) -> None:
        """Hear what the registrar has, which another process serves."""
        async for _ in _attempts():
            if self._channel is not None:
                await self._channel.close()
            self._renewed.clear()
            self._channel = serving.peer_channel(address, self._credentials)
            call = entity_pb2_grpc.EntityServiceStub(self._channel).WatchEntities(
                catalogue.watch_request(contract_versions.PARTITION, REGISTRAR)
            )
            reading = asyncio.ensure_future(self._read(call))
            renewed = asyncio.ensure_future(self._renewed.wait())
            try:
                await asyncio.wait((reading, renewed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (reading, renewed):
                    task.cancel()
                await asyncio.wait((reading, renewed))
                call.cancel()
                self._lost(REGISTRAR)
            if not reading.cancelled():
                # Not a broken connection: `run` logs the error and restarts the pull.
                reading.result()

    async def _read(
        self,
        call: grpc.aio.UnaryStreamCall[
            entity_pb2.WatchEntitiesRequest, entity_pb2.WatchEntitiesResponse
        ],
    ) -> None:
        parts = catalogue.Parts(contract_versions.PARTITION, REGISTRAR, self._directory.entry)
        try:
            async for part in call:
                if (news := parts.take(part)) is not None:
                    self._refusal = ""
                    self._heard(
                        REGISTRAR,
                        news.fingerprint,
                        news.entries,
                        snapshot=news.snapshot,
                    )
        except grpc.RpcError as error:
            self._failed(statuses.from_rpc_error(error))
        except InvalidOperation as error:
            self._failed(error)
        except catalogue.EditOfUnknown as error:
            logger.warning("registrar: watched again: what is known of %s is not enough", error)

    def _failed(self, error: BusError) -> None:
        """Log why the registrar's catalogue cannot be watched; a version that is refused, once."""
        if not isinstance(error, InvalidOperation):
            logger.debug("registrar: catalogue: %s", error.message)
        elif error.message != self._refusal:
            self._refusal = error.message
            logger.error(
                "registrar: refused: %s",
                error.message,
                extra={"partition": REGISTRAR, "action": "version-refused"},
            )

    def _heard(
        self, partition: int, fingerprint: Fingerprint, found: Sequence[Entity], *, snapshot: bool
    ) -> None:
        own = next(iter(self._hosts.threads.values())).store.fingerprint.namespace_uid
        if fingerprint.namespace_uid != own:
            logger.error(
                "partition %d: belongs to namespace %s, not to %s; its entities are ignored",
                *(partition, fingerprint.namespace_uid, own),
                extra={"partition": partition, "action": "fingerprint"},
            )
            return
        self._directory.update(partition, fingerprint, found, snapshot=snapshot)
        for news in self._news.values():
            news.set()
        if partition == REGISTRAR and snapshot:
            self._show(True)

    def _lost(self, partition: int) -> None:
        self._directory.forget(partition)
        if partition == REGISTRAR:
            self._show(False)

    def _show(self, stands: bool) -> None:
        if stands != self.stands:
            self.stands = stands
            self.changed()

    async def _catch_up(self, partition: int) -> None:
        """Bring a partition up to date whenever news came; a slow one delays no other."""
        loop, news = asyncio.get_running_loop(), self._news[partition]
        again: asyncio.TimerHandle | None = None
        while True:
            await news.wait()
            news.clear()
            if again is not None:
                # One timer, or each piece of news would leave one that follows itself for ever.
                again.cancel()
            done = not self.of(partition) or await self._bring_up(partition)
            again = None if done else loop.call_later(AGAIN_S, news.set)

    async def _bring_up(self, partition: int) -> bool:
        """Have a partition take what it lacks; False: it did not take something."""

        async def take(some: Sequence[Entity]) -> None:
            await self._take(partition, some)
            # Its own news may come later, and are not to be waited for.
            fingerprint = self._hosts.threads[partition].store.fingerprint
            self._directory.update(partition, fingerprint, some, snapshot=False)

        try:
            refused = await directories.copy(self._directory.lagging(partition), take)
        except BusError as error:
            refused = [error]
        for refusal in refused:
            name = refusal.metadata.get("entity", "")
            logger.warning(
                "partition %d: could not take entity %s: %s",
                *(partition, name, refusal.message),
                extra={"partition": partition, "entity": name},
            )
        return not refused


async def _attempts() -> AsyncIterator[None]:
    """Yield for ever, with a growing wait between attempts that end soon."""
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        began_s = loop.time()
        yield None
        failures = BACKOFF.failures_after(failures, loop.time() - began_s)
        await asyncio.sleep(BACKOFF.delay_s(failures, random.random()))
