"""The way to one partition: its catalogue as it says it, calls, and whether it answers."""

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Final, Protocol

import grpc

from bendybus.domain.backoff import Backoff
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import BusError, PartitionUnavailable
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc, partition_pb2, partition_pb2_grpc
from bendybus.operator.bus import answers
from bendybus.operator.bus.answers import InvalidAnswer, Share
from bendybus.operator.decisions.conditions import Counts
from bendybus.wire import entities, statuses, tls

logger = logging.getLogger(__name__)
RETRY: Final = Backoff(first_s=0.2, max_s=2.0, reset_after_s=5.0)
_OPTIONS: Final = [
    # A pod comes back under another address: ask for it again soon.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # An address that is gone swallows connections: do not wait the usual 20 s for it.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", answers.BYTES_MAX),
    # Two operators in one process (tests) must not share connections.
    ("grpc.use_local_subchannel_pool", 1),
]


class Listener(Protocol):
    """Who is told what a partition says."""

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> bool:
        """Take entries of the partition's catalogue; False when its file is another bus's."""

    def lost(self, partition: int) -> None:
        """Take note that nobody tells any more what the partition has."""

    def reached(self, partition: int, reachable: bool) -> None:
        """Take note that a partition answers, or does not any more."""


class PartitionLink:
    """One partition of one bus.

    Reachable is one that has told its whole catalogue on the stream that is open now, and that
    answered the last time it was asked: a process that stands still keeps its streams open.
    """

    def __init__(
        self,
        partition: int,
        address: str,
        material: tls.Material | None,
        listener: Listener,
        *,
        timeout_s: float,
        share: Share | None = None,
    ) -> None:
        """`share`: of the bus, how much of the operator's time its answers may take."""
        self.partition = partition
        self.address = address
        self.reachable = False
        # What the partition warned of when it answered last.
        self.conditions: tuple[str, ...] = ()
        # Why its last answer could not be understood, "" when it could.
        self.invalid_answer = ""
        # Calls so far, for whoever wonders what a change costs.
        self.asked = 0
        self._told = False
        self._answers = True
        self._closed = False
        self._timeout_s = timeout_s
        self._listener = listener
        self._share = share or Share()
        if material is None:
            self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        else:
            credentials = tls.channel_credentials(material)
            self._channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        self._entities = entity_pb2_grpc.EntityServiceStub(self._channel)
        self._calls = partition_pb2_grpc.PartitionServiceStub(self._channel)

    async def run(self) -> None:
        """Watch the partition's catalogue until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        try:
            while True:
                began_s = loop.time()
                self._stream_ended(await self._watch())
                failures = RETRY.failures_after(failures, loop.time() - began_s)
                await asyncio.sleep(RETRY.delay_s(failures))
        finally:
            self._stream_ended("the way is closed")
            await self.close()

    async def _watch(self) -> str:
        """Follow one stream of the catalogue to its end; return why it ended."""
        loop = asyncio.get_running_loop()
        stream = self._entities.WatchEntities(
            entity_pb2.WatchEntitiesRequest(partition=self.partition)
        )
        try:
            async for response in stream:
                began_s = loop.time()
                self._heard(response)
                now_s = loop.time()
                # Not read meanwhile: the bus waits, and nobody else.
                await asyncio.sleep(self._share.spend(now_s - began_s, now_s))
        except grpc.RpcError as error:
            return _bus_error(error).message
        except InvalidAnswer as error:
            self._note_invalid(error)
            return f"its answer cannot be understood: {error}"
        finally:
            stream.cancel()
        return "it ended the stream"

    def _note_invalid(self, error: InvalidAnswer) -> None:
        """Take note of an answer that cannot be understood; logged once."""
        if self.invalid_answer != str(error):
            logger.error(
                "partition %s: its answer cannot be understood: %s",
                self.address,
                error,
                extra={"partition": self.partition, "action": "strange"},
            )
        self.invalid_answer = str(error)

    async def close(self) -> None:
        """Close the way; `run` does it by itself."""
        self._closed = True
        await self._channel.close()

    async def commit(self, request: entity_pb2.CommitEntityRequest) -> Entity:
        """Ask the registrar for a change; only of partition 0. Raises BusError."""
        answer = await self._ask(self._entities.CommitEntity, request)
        try:
            return answers.understood(lambda: answers.entry(answer.entity))
        except InvalidAnswer as error:
            self._note_invalid(error)
            raise PartitionUnavailable(
                f"partition {self.partition}: its answer cannot be understood: {error}"
            ) from error

    async def copy(self, entity: Entity) -> None:
        """Give the partition an entry that the registrar committed. Raises BusError."""
        request = entity_pb2.ApplyEntityRequest(
            partition=self.partition, entity=entities.entity_to_proto(entity)
        )
        await self._ask(self._entities.ApplyEntity, request)

    async def counts(self, uids: Collection[str] = ()) -> dict[str, Counts] | None:
        """Return counts by UID of entity (none: of all), None if the partition does not answer.

        This is also the probe of a process that stands still.
        """
        request = partition_pb2.GetCountsRequest(partition=self.partition, uids=uids)
        try:
            answer = await self._ask(self._calls.GetCounts, request)
            found = answers.counts(answer)
            self.conditions = answers.understood(lambda: answers.conditions(answer.conditions))
        except (BusError, InvalidAnswer) as error:
            if isinstance(error, InvalidAnswer):
                self._note_invalid(error)
            self._answers = False
            self._show(str(error))
            return None
        self._answers = True
        self._show()
        return found

    async def _ask(self, method: Any, request: Any) -> Any:
        if self._closed:
            raise PartitionUnavailable(f"the way to partition {self.partition} was closed.")
        self.asked += 1
        try:
            return await method(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            found = _bus_error(error)
            if found.retryable:
                raise PartitionUnavailable(
                    f"partition {self.partition} does not answer: {found.message}"
                ) from error
            raise found from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            # Not we were cancelled but the call, by the closing of its channel.
            raise PartitionUnavailable(
                f"the way to partition {self.partition} was closed."
            ) from None

    def _heard(self, response: entity_pb2.WatchEntitiesResponse) -> None:
        fingerprint, entries = answers.catalogue(response)
        believed = self._listener.catalogue(
            self.partition, fingerprint, entries, snapshot=response.snapshot
        )
        if response.snapshot:
            self.invalid_answer = ""
            self._told, self._answers = believed, True
            self._show("" if believed else "its file belongs to another namespace")

    def _stream_ended(self, why: str) -> None:
        """Take note that the stream is over."""
        if self._told:
            self._told = False
            self._listener.lost(self.partition)
        self._show(why)

    def _show(self, why: str = "") -> None:
        reachable = self._told and self._answers
        if reachable == self.reachable:
            return
        self.reachable = reachable
        logger.info(
            "partition %s: %s",
            self.address,
            "answers" if reachable else f"does not answer: {why}",
            extra={"partition": self.partition, "action": "reached" if reachable else "lost"},
        )
        self._listener.reached(self.partition, reachable)


def _bus_error(error: grpc.RpcError) -> BusError:
    """Return a partition's refusal, with no more of its text than others can bear."""
    found = statuses.from_rpc_error(error)
    found.message = answers.sentence(found.message)
    found.args = (found.message,)
    return found
