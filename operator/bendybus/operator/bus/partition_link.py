"""The connection to one partition: a watch on its catalogue, calls, and whether it answers."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from bendybus.domain.backoff import Backoff
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import BusError, InvalidOperation, PartitionUnavailable
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.bus import answers, partition_channel
from bendybus.operator.bus.answers import CatalogueNews, InvalidAnswer, Share
from bendybus.operator.bus.partition_channel import AnswerTooLarge, Direct, PartitionChannel, Way
from bendybus.operator.decisions.conditions import Counts
from bendybus.wire import catalogue, contract_versions, statuses, tls

logger = logging.getLogger(__name__)
Value = TypeVar("Value")
RETRY: Final = Backoff(first_s=0.2, max_s=2.0, reset_after_s=5.0)
# How often a catalogue is read again that is too large to be watched.
READ_AGAIN_S: Final = 30.0
LARGE_S: Final = 30.0
# Of a partition whose answers cannot be parsed, until they can.
LOGGED_MAX: Final = 5


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
        large: asyncio.Lock | None = None,
        way: Way | None = None,
    ) -> None:
        """`share`: how much of the operator's time the answers of this bus may take.

        `large`: held while a large answer of this bus is read. `way`: by which the partition is
        called; by default directly.
        """
        self.partition = partition
        self.address = address
        self.reachable = False
        # Why its version and the operator's do not work together; "": they do.
        self.refusal = ""
        # It takes what it lacks of the catalogue by itself now.
        self.pulls = False
        # The warnings in its last answer.
        self.conditions: tuple[str, ...] = ()
        # Why its last answer to a method could not be parsed, "" if it could; and that method.
        self.invalid_answer = self._invalid_method = ""
        self._logged: set[str] = set()
        # Number of calls so far.
        self.asked = 0
        self._told = False
        self._answers = True
        self._closed = False
        self._timeout_s = timeout_s
        self._listener = listener
        self._share = share or Share()
        # After the last answer.
        self._pause_s = 0.0
        self._channel = PartitionChannel(
            way or Direct(address, material), large=large or asyncio.Lock()
        )
        self._watch_request = catalogue.watch_request(
            contract_versions.OPERATOR, partition, answers.PART_BYTES
        )

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
        try:
            try:
                await self._read(self._heard)
            except AnswerTooLarge:
                await self._read_again_and_again()
        except grpc.RpcError as error:
            return self._failed(_bus_error(error))
        except BusError as error:
            return self._failed(error)
        except InvalidAnswer as error:
            self._note_invalid(error, partition_channel.WATCH)
            return f"its answer cannot be parsed: {error}"
        return "it closed the stream"

    def _failed(self, error: BusError) -> str:
        """Note why the watch failed, and return it; a version that is refused is logged once."""
        if isinstance(error, InvalidOperation) and error.message != self.refusal:
            self.refusal = error.message
            logger.error(
                "partition %s: refused: %s",
                *(self.address, error.message),
                extra={"partition": self.partition, "action": "version-refused"},
            )
        return error.message

    async def _read(
        self,
        take: Callable[[CatalogueNews], bool],
        timeout_s: float | None = None,
        *,
        large: bool = False,
    ) -> None:
        """Read a stream of the catalogue until `take` says that it is enough.

        Raises InvalidAnswer, grpc.RpcError, and InvalidOperation for a version that is refused.
        """
        reader = answers.CatalogueReader()

        def enough(data: bytes) -> bool:
            news = reader.read(data)
            if news is None:
                return False
            contract_versions.OPERATOR.check_watched(news.contract, self.partition)
            return take(news)

        watch = self._channel.watch(self._watch_request, timeout_s, large=large)
        async with contextlib.aclosing(watch) as stream:
            async for data in stream:
                if self._timed(enough, data):
                    return
                # The stream is not read during the pause: only this bus waits.
                await asyncio.sleep(self._pause_s)

    async def _read_again_and_again(self) -> None:
        """Read a catalogue again, now and then, that has an entry larger than a small answer.

        A stream that stays open could bring a large answer at any time, and from each partition.
        """

        def heard(news: CatalogueNews) -> bool:
            self._heard(news)
            return True

        while True:
            async with self._channel.for_large():
                await self._read(heard, LARGE_S, large=True)
            await asyncio.sleep(READ_AGAIN_S)

    def _note_invalid(self, error: InvalidAnswer, method: str) -> None:
        """Note an answer to a method that cannot be parsed; each kind is logged once."""
        if str(error) not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged.add(str(error))
            logger.error(
                "partition %s: cannot parse its answer: %s",
                self.address,
                # Not the error: its frames hold the answer, for as long as the record is kept.
                str(error),
                extra={"partition": self.partition, "action": "invalid-answer"},
            )
        self.invalid_answer, self._invalid_method = str(error), method

    async def close(self) -> None:
        """Close the connection; `run` does this itself."""
        self._closed = True
        await self._channel.close()

    async def commit(self, request: entity_pb2.CommitEntityRequest) -> Entity:
        """Have the registrar commit a change; only on partition 0. Raises BusError."""
        return await self._ask_for_change(partition_channel.COMMIT, request, answers.committed)

    async def copy(self, entries: Sequence[Entity]) -> None:
        """Give the partition entries that the registrar committed. Raises BusError.

        One queue's, or some of topics and subscriptions, in the order of their changes.
        """
        request = catalogue.apply_request(self.partition, entries)
        await self._ask_for_change(partition_channel.APPLY, request, lambda _: None)

    async def _ask_for_change(
        self, method: str, request: Message, read: Callable[[bytes], Value]
    ) -> Value:
        """Return the answer to a change; one that cannot be parsed is none. Raises BusError."""
        try:
            return await self._ask(method, request, read)
        except InvalidAnswer as error:
            self._note_invalid(error, method)
            raise PartitionUnavailable(
                f"partition {self.partition}: its answer cannot be parsed: {error}"
            ) from error

    async def catalogue(self) -> list[Entity] | None:
        """Return the partition's whole catalogue, None if it does not answer."""
        found: list[list[Entity]] = []

        def take(news: CatalogueNews) -> bool:
            found.append(news.entries)
            return True

        try:
            try:
                await self._read(take, self._timeout_s)
            except AnswerTooLarge:
                async with self._channel.for_large():
                    await self._read(take, self._timeout_s, large=True)
        except (grpc.RpcError, BusError, InvalidAnswer) as error:
            logger.warning("partition %s: no catalogue: %s", self.address, str(error))
        return found[0] if found else None

    async def counts(self, uids: Collection[str] = ()) -> dict[str, Counts] | None:
        """Return counts by UID of entity (none: of all), None if the partition does not answer.

        This call also detects a process that is suspended.
        """
        try:
            found = await self._all_counts(uids)
        except (BusError, InvalidAnswer) as error:
            if isinstance(error, InvalidAnswer):
                self._note_invalid(error, partition_channel.COUNTS)
            self._answers = False
            self._show(str(error))
            await asyncio.sleep(self._pause_s)
            return None
        self._answers = True
        self._show()
        return found

    async def _all_counts(self, uids: Collection[str]) -> dict[str, Counts]:
        """Return counts, read page by page. Raises BusError and InvalidAnswer."""
        found: dict[str, Counts] = {}
        while True:
            after = max(found, default="")
            request = partition_pb2.GetCountsRequest(
                partition=self.partition,
                uids=uids,
                entities_max=answers.COUNTS_A_PAGE,
                after_uid=after,
            )
            page = await self._ask(
                partition_channel.COUNTS,
                request,
                functools.partial(answers.counts_page, after_uid=after),
            )
            await asyncio.sleep(self._pause_s)
            found |= page.counts
            self.conditions = page.conditions
            if not page.more:
                return found
            if len(found) > answers.ENTRIES_MAX:
                raise InvalidAnswer(f"it counts more than {answers.ENTRIES_MAX} entities")

    async def _ask(
        self,
        method: str,
        request: Message,
        read: Callable[[bytes], Value],
    ) -> Value:
        """Return what `read` makes of an answer. Raises BusError and InvalidAnswer."""
        if self._closed:
            raise PartitionUnavailable(f"the link to partition {self.partition} is closed.")
        self.asked += 1
        try:
            try:
                answer = await self._channel.ask(method, request, self._timeout_s)
            except AnswerTooLarge:
                async with self._channel.for_large():
                    answer = await self._channel.ask(method, request, self._timeout_s, large=True)
                    found = self._timed(read, answer)
            else:
                found = self._timed(read, answer)
            if method == self._invalid_method:
                self.invalid_answer = ""
            return found
        except grpc.RpcError as error:
            refusal = _bus_error(error)
            if refusal.retryable:
                raise PartitionUnavailable(
                    f"partition {self.partition} does not answer: {refusal.message}"
                ) from error
            raise refusal from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            # The call was cancelled by closing its channel, not this task.
            raise PartitionUnavailable(
                f"the link to partition {self.partition} is closed."
            ) from None

    def _timed(self, read: Callable[[bytes], Value], data: bytes) -> Value:
        """Return what `read` makes of an answer; sets how long the bus is to wait for that."""
        now = asyncio.get_running_loop().time
        began_s = now()
        try:
            return read(data)
        finally:
            self._pause_s = self._share.spend(now() - began_s, now())

    def _heard(self, news: CatalogueNews) -> bool:
        """Take what the catalogue says; it is never enough."""
        self.refusal = ""
        self.pulls = news.pulls
        believed = self._listener.catalogue(
            self.partition, news.fingerprint, news.entries, snapshot=news.snapshot
        )
        if news.snapshot:
            self.invalid_answer = ""
            self._logged.clear()
            self._told, self._answers = believed, True
            self._show("" if believed else "its file belongs to another namespace")
        return False

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
