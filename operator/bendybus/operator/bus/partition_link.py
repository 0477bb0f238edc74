"""The connection to one partition: a watch on its catalogue, calls, and whether it answers."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final, Protocol

import grpc

from bendybus.domain.backoff import Backoff
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError, PartitionUnavailable
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc, partition_pb2, partition_pb2_grpc
from bendybus.operator.bus import answers
from bendybus.operator.bus.answers import InvalidAnswer, Share
from bendybus.operator.decisions.conditions import Counts
from bendybus.wire import catalogue, statuses, tls

logger = logging.getLogger(__name__)
RETRY: Final = Backoff(first_s=0.2, max_s=2.0, reset_after_s=5.0)
_OPTIONS: Final = [
    # A restarted pod has another address: resolve it again soon.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Connections to an address that is gone time out: do not wait the default 20 s.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", answers.BYTES_MAX),
    # Two operators in one process (in tests) must not share connections.
    ("grpc.use_local_subchannel_pool", 1),
]


class Listener(Protocol):
    """The receiver of a partition's events."""

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> bool:
        """Take entries of the partition's catalogue; False if its file belongs to another bus."""

    def lost(self, partition: int) -> None:
        """Note that the watch ended, so the content of the partition is unknown."""

    def reached(self, partition: int, reachable: bool) -> None:
        """Note whether a partition answers."""


class PartitionLink:
    """One partition of one bus.

    It is reachable if it has sent its complete catalogue on the current stream and answered the
    last call: a process that is suspended keeps its streams open.
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
        """`share`: how much of the operator's time the answers of this bus may take."""
        self.partition = partition
        self.address = address
        self.reachable = False
        # The kinds of entities that it can keep; an earlier version knows queues only.
        self.entity_kinds = frozenset({EntityKind.QUEUE})
        self.knows_sessions = False
        # The warnings in its last answer.
        self.conditions: tuple[str, ...] = ()
        # Why its last answer could not be parsed, "" if it could.
        self.invalid_answer = ""
        # Number of calls so far.
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
            self._stream_ended("the link is closed")
            await self.close()

    async def _watch(self) -> str:
        """Follow one stream of the catalogue to its end; return why it ended."""
        loop = asyncio.get_running_loop()
        stream = self._entities.WatchEntities(
            entity_pb2.WatchEntitiesRequest(partition=self.partition, in_parts=True)
        )
        parts = answers.catalogue_parts()
        try:
            async for part in stream:
                began_s = loop.time()
                response = answers.understood(partial(parts.whole, part))
                if response is not None:
                    self._heard(response)
                now_s = loop.time()
                # The stream is not read during the pause: only this bus waits.
                await asyncio.sleep(self._share.spend(now_s - began_s, now_s))
        except grpc.RpcError as error:
            return _bus_error(error).message
        except InvalidAnswer as error:
            self._note_invalid(error)
            return f"its answer cannot be parsed: {error}"
        finally:
            stream.cancel()
        return "it closed the stream"

    def _note_invalid(self, error: InvalidAnswer) -> None:
        """Note an answer that cannot be parsed; logged once."""
        if self.invalid_answer != str(error):
            logger.error(
                "partition %s: cannot parse its answer: %s",
                self.address,
                error,
                extra={"partition": self.partition, "action": "invalid-answer"},
            )
        self.invalid_answer = str(error)

    async def close(self) -> None:
        """Close the connection; `run` does this itself."""
        self._closed = True
        await self._channel.close()

    async def commit(self, request: entity_pb2.CommitEntityRequest) -> Entity:
        """Have the registrar commit a change; only on partition 0. Raises BusError."""
        answer = await self._ask(self._entities.CommitEntity, request)
        try:
            return answers.committed(answer)
        except InvalidAnswer as error:
            self._note_invalid(error)
            raise PartitionUnavailable(
                f"partition {self.partition}: its answer cannot be parsed: {error}"
            ) from error

    async def copy(self, entries: Sequence[Entity]) -> None:
        """Give the partition entries that the registrar committed. Raises BusError.

        One queue's, or some of topics and subscriptions, in the order of their changes.
        """
        request = catalogue.apply_request(self.partition, entries)
        await self._ask(self._entities.ApplyEntity, request)

    async def catalogue(self) -> list[Entity] | None:
        """Return the partition's whole catalogue, None if it does not answer."""
        request = entity_pb2.WatchEntitiesRequest(partition=self.partition, in_parts=True)
        stream = self._entities.WatchEntities(request, timeout=self._timeout_s)
        parts = answers.catalogue_parts()
        try:
            async for part in stream:
                response = answers.understood(partial(parts.whole, part))
                if response is not None:
                    return answers.catalogue_news(response).entries
        except (grpc.RpcError, InvalidAnswer) as error:
            logger.warning("partition %s: no catalogue: %s", self.address, error)
        finally:
            stream.cancel()
        return None

    async def counts(self, uids: Collection[str] = ()) -> dict[str, Counts] | None:
        """Return counts by UID of entity (none: of all), None if the partition does not answer.

        This call also detects a process that is suspended.
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
            raise PartitionUnavailable(f"the link to partition {self.partition} is closed.")
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
            # The call was cancelled by closing its channel, not this task.
            raise PartitionUnavailable(
                f"the link to partition {self.partition} is closed."
            ) from None

    def _heard(self, response: entity_pb2.WatchEntitiesResponse) -> None:
        news = answers.catalogue_news(response)
        self.entity_kinds, self.knows_sessions = news.kinds, news.knows_sessions
        believed = self._listener.catalogue(
            self.partition, news.fingerprint, news.entries, snapshot=response.snapshot
        )
        if response.snapshot:
            self.invalid_answer = ""
            self._told, self._answers = believed, True
            self._show("" if believed else "its file belongs to another namespace")

    def _stream_ended(self, why: str) -> None:
        """Note that the stream ended."""
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
    """Return a partition's error, its text shortened to what a status may hold."""
    found = statuses.from_rpc_error(error)
    found.message = answers.sentence(found.message)
    found.args = (found.message,)
    return found
