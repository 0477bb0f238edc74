"""The connection to one partition: its streams, its probe, its circuit breaker.

Deliveries, sends and health are separate streams on channels of their own, so that a slow one
does not hold up another. Each stream has an outbox of three lanes, see `stream`. A stream that
ends is opened again with a back-off of at most 2 s, or as soon as the probe says that the partition
is back.

When certificates are rotated, `renew` opens new channels, and the streams move over one after the
other, without a loss, while the partition stays available.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator
from typing import Final, Protocol

import grpc

from bendybus.domain.backoff import Backoff
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import InvalidOperation
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams import deliver_frames, send_frames
from bendybus.frontend.upstreams.breaker import Breaker
from bendybus.frontend.upstreams.deliver_outbox import DeliverOutbox
from bendybus.frontend.upstreams.echo_probe import EchoLate, EchoProbe
from bendybus.frontend.upstreams.send_outbox import SendOutbox
from bendybus.frontend.upstreams.stream import Ending, Lane, PartitionStream
from bendybus.frontend.upstreams.stream import why as why_ended
from bendybus.internal.v1 import (
    entity_pb2_grpc,
    partition_pb2,
    partition_pb2_grpc,
)
from bendybus.wire import catalogue, contract_versions, frame_forms, serving, statuses

logger = logging.getLogger(__name__)
SLOW_ECHO_MS: Final = 100
# Spread: partitions that come back do not meet all front ends at once.
BACKOFF: Final = Backoff(first_s=0.05, max_s=2.0, reset_after_s=2.0, jitter=0.5)
PROBE_AGAIN_S: Final = 0.25
# How long new channels may take to connect, and streams to move to them.
RENEW_S: Final = 10.0
_SendStream = PartitionStream[partition_pb2.SendFramesRequest, partition_pb2.SendFramesResponse]
_DeliverStream = PartitionStream[
    partition_pb2.DeliverFramesRequest, partition_pb2.DeliverFramesResponse
]
_CONTRACT: Final = contract_versions.FRONT_END
_SAID: Final = (_CONTRACT.said,)


def now_ms() -> int:
    """Return this process's monotonic clock."""
    return time.monotonic_ns() // 1_000_000


class Listener(Protocol):
    """Receives the answers of a partition, and the state of its streams."""

    def sent(self, partition: int, answer: send_frames.Answer) -> None:
        """Take the outcome of a frame."""

    def delivered(self, partition: int, answer: deliver_frames.Answer) -> None:
        """Take messages or outcomes."""

    def send_stream_lost(self, partition: int, why: str) -> None:
        """Take the end of the stream of sends."""

    def deliver_stream_lost(self, partition: int, why: str) -> None:
        """Take the end of the stream of deliveries: what it reserved is void."""

    def deliver_stream_moving(self, partition: int) -> None:
        """Take note that the stream of deliveries closes cleanly, and another one follows."""

    def stalled(self, partition: int, why: str) -> None:
        """Take note that the partition's circuit breaker opened."""

    def back(self, partition: int) -> None:
        """Take note that the partition can be asked (again)."""

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> None:
        """Take entries of the partition's catalogue."""

    def entry(self, key: str) -> Entity | None:
        """Return the newest known entry of a name in lower case; it may be a tombstone."""

    def catalogue_lost(self, partition: int) -> None:
        """Take the end of the watch."""


class Upstream:
    """One partition, as the front end reaches it."""

    def __init__(
        self,
        partition: int,
        address: str,
        settings: Settings,
        listener: Listener,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.partition = partition
        self.address = address
        self.breaker = Breaker()
        # Whether it was found available, or not, at least once.
        self.looked_at = False
        # Partition's monotonic clock minus ours, by the quickest recent echo.
        self.clock_offset_ms: int | None = None
        self._settings = settings
        self._listener = listener
        self._shown_available = False
        # Takes frames to store; their answers come to `listener.sent`.
        self.sends: _SendStream = PartitionStream(self._show, outbox=SendOutbox)
        self._delivers: _DeliverStream = PartitionStream(
            self._show, lambda: listener.deliver_stream_moving(partition), outbox=DeliverOutbox
        )
        self._wake = asyncio.Event()
        self._renewed = asyncio.Event()
        self._credentials = credentials
        self._generation = 0
        self._watching: grpc.aio.Call | None = None
        # Why its version and this one do not work together; "": they do; None: not known yet.
        self._refusal: str | None = None
        # It takes what it lacks of the catalogue by itself now.
        self.pulls = False
        self._use([self._channel() for _ in range(3)])

    def renew(self, credentials: grpc.ChannelCredentials) -> None:
        """Go over to new channels with these credentials."""
        self._credentials = credentials
        self._renewed.set()

    def _channel(self) -> grpc.aio.Channel:
        return serving.peer_channel(self.address, self._credentials)

    def _use(self, channels: list[grpc.aio.Channel]) -> None:
        self._channels = channels
        self._generation += 1
        control, sends, delivers = channels
        self.calls = partition_pb2_grpc.PartitionServiceStub(control)
        self.catalogue_calls = entity_pb2_grpc.EntityServiceStub(control)
        self._send_stub = partition_pb2_grpc.PartitionServiceStub(sends)
        self._deliver_stub = partition_pb2_grpc.PartitionServiceStub(delivers)

    @property
    def available(self) -> bool:
        """Whether the partition is tried."""
        streams_open = self.sends.open and self._delivers.open
        return self._refusal == "" and self.breaker.closed and streams_open

    def conditions(self) -> list[str]:
        """Return why the partition is not available, or what it warns of."""
        why = self._refusal or self.breaker.reason or "its streams or its catalogue are not open"
        return [*([] if self.available else [why]), *self.breaker.conditions]

    def ask(self, request: partition_pb2.DeliverFramesRequest) -> bool:
        """Queue an ask; False when too many frames wait or the stream is not open."""
        return self._delivers.put(request, Lane.FLOW)

    def follow(self, request: partition_pb2.DeliverFramesRequest) -> bool:
        """Queue what follows from an ask: never dropped. False when the stream is not open."""
        return self._delivers.put_always(request)

    def settle(
        self, request: partition_pb2.DeliverFramesRequest, *, renewal: bool, waited: bool = False
    ) -> bool:
        """Queue a settlement or renewal; False when too many wait or the stream is not open.

        `waited`: it waited for `room`.
        """
        lane = Lane.RENEW if renewal else Lane.WORK
        return self._delivers.put(request, lane, waited=waited)

    @property
    def delivers(self) -> bool:
        """Whether the stream of deliveries is open."""
        return self._delivers.open

    async def room(self) -> None:
        """Wait until `settle` takes a settlement, or the stream is not open any more."""
        await self._delivers.room()

    def miss(self, why: str) -> None:
        """Open the circuit breaker; the probe closes it."""
        self.looked_at = True
        if self.breaker.miss(why):
            logger.warning(
                "partition %d: circuit breaker opened: %s",
                self.partition,
                why,
                extra={"partition": self.partition, "action": "breaker-open"},
            )
            self._wake.set()
            self._show()
            self._listener.stalled(self.partition, why)

    async def flush(self) -> None:
        """Wait until the partition took everything that it was told of deliveries."""
        if self._delivers.mark():
            await self._delivers.fresh.wait()

    async def run(self) -> None:
        """Keep all streams up until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for task in (self._probe, self._send, self._deliver, self._watch, self._renewing):
                    name = f"upstream-{self.partition}{task.__name__}"
                    group.create_task(task(), name=name)
        finally:
            for channel in self._channels:
                await channel.close()

    # Streams

    async def _send(self) -> None:
        async for _ in self._attempts():
            ending = Ending(True, "")
            while ending.moved:
                ending = await self.sends.run(
                    self._send_stub.SendFrames(metadata=_SAID), self._on_sent
                )
            self._listener.send_stream_lost(self.partition, ending.why)

    async def _deliver(self) -> None:
        async for _ in self._attempts():
            ending = Ending(True, "")
            while ending.moved:
                call = self._deliver_stub.DeliverFrames(metadata=_SAID)
                ending = await self._delivers.run(call, self._on_delivered)
            self._listener.deliver_stream_lost(self.partition, ending.why)

    def _on_sent(self, response: partition_pb2.SendFramesResponse) -> None:
        for part in frame_forms.parts(response):
            self._listener.sent(self.partition, send_frames.answer(part))

    def _on_delivered(self, response: partition_pb2.DeliverFramesResponse) -> None:
        for part in frame_forms.parts(response):
            self._listener.delivered(self.partition, deliver_frames.answer(part))

    async def _renewing(self) -> None:
        """Move to new channels whenever there are new credentials."""
        while True:
            await self._renewed.wait()
            self._renewed.clear()
            old, fresh = self._channels, [self._channel() for _ in range(3)]
            connected = await _connected(fresh, RENEW_S if self.available else 0.0)
            # In any case: what is opened from now on uses them.
            self._use(fresh)
            if connected:
                await self._move()
            logger.info(
                "partition %d: new channels%s",
                self.partition,
                "" if connected else ", not connected yet",
                extra={"partition": self.partition, "action": "channels-renewed"},
            )
            for channel in old:
                await channel.close(self._settings.unary_timeout_s)

    async def _move(self) -> None:
        """Let the streams close cleanly; each goes on over its new channel."""
        if self._watching is not None:
            self._watching.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RENEW_S):
                for stream in (self.sends, self._delivers):
                    stream.mark()
                    await stream.fresh.wait()

    async def _watch(self) -> None:
        async for _ in self._attempts():
            self._watching = call = self.catalogue_calls.WatchEntities(
                catalogue.watch_request(_CONTRACT, self.partition)
            )
            parts = catalogue.Parts(_CONTRACT, self.partition, self._listener.entry)
            try:
                async for part in call:
                    news = parts.take(part)
                    self._accept()
                    if news is None:
                        continue
                    self.pulls = news.pulls
                    self._listener.catalogue(
                        self.partition, news.fingerprint, news.entries, snapshot=news.snapshot
                    )
            except grpc.RpcError as error:
                found = statuses.from_rpc_error(error)
                if isinstance(found, InvalidOperation):
                    self._refuse(found.message)
            except InvalidOperation as error:
                self._refuse(error.message)
            except catalogue.EditOfUnknown as error:
                logger.warning(
                    "partition %d: watched again: what is known of %s is not enough",
                    *(self.partition, error),
                    extra={"partition": self.partition, "action": "watch-again"},
                )
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise
                # Only the call was cancelled: it moves to a new channel.
            finally:
                call.cancel()
            self._listener.catalogue_lost(self.partition)

    def _refuse(self, why: str) -> None:
        """Leave the partition alone: its version and this one do not work together."""
        if why == self._refusal:
            return
        was_available, self._refusal = self.available, why
        logger.error(
            "partition %d: refused: %s",
            *(self.partition, why),
            extra={"partition": self.partition, "action": "version-refused"},
        )
        self.looked_at = True
        self._show()
        if was_available:
            self._listener.stalled(self.partition, why)

    def _accept(self) -> None:
        """Take note that the partition's version and this one work together."""
        if self._refusal != "":
            self._refusal = ""
            self._show()

    async def _probe(self) -> None:
        async for _ in self._attempts():
            while await self._probe_once():
                pass

    async def _probe_once(self) -> bool:
        """Echo until the stream ends; return whether another one is to be tried at once."""
        began_s = time.monotonic()
        echoes = EchoProbe(self.calls.Echo(), self.partition, self._settings.echo_timeout_s)
        why = "its echo stream ended"
        try:
            await self._echo(echoes)
        except EchoLate:
            self.miss("its echo is late")
            return False
        except grpc.RpcError as error:
            why = why_ended(error)
        finally:
            echoes.end()
        # A partition that answered until now may be there again, as another process, or may have
        # lost only this stream: the next one decides.
        if echoes.heard and time.monotonic() - began_s >= PROBE_AGAIN_S:
            return True
        self.miss(why)
        return False

    async def _echo(self, echoes: EchoProbe) -> None:
        generation = self._generation
        while generation == self._generation:
            asked_ms = now_ms()
            response = await echoes.ask()
            if response is None:
                return
            self._echoed(response, asked_ms)
            wait_s = self._settings.echo_every_s if self.breaker.closed else PROBE_AGAIN_S
            self._wake.clear()
            if not await echoes.pause(wait_s, self._wake):
                return

    def _echoed(self, response: partition_pb2.EchoResponse, asked_ms: int) -> None:
        now = now_ms()
        offset_ms, known_ms = response.monotonic_ms - (asked_ms + now) // 2, self.clock_offset_ms
        slow = now - asked_ms > SLOW_ECHO_MS
        if known_ms is None or not slow or abs(offset_ms - known_ms) > now - asked_ms:
            # A slow echo that agrees with what is known says less: one of both was suspended.
            self.clock_offset_ms = offset_ms
        was_closed = self.breaker.closed
        self.breaker.echoed(serving=response.serving, conditions=tuple(response.conditions))
        if self.breaker.closed and not was_closed:
            logger.info(
                "partition %d: answers",
                self.partition,
                extra={"partition": self.partition, "action": "breaker-closed"},
            )
        elif was_closed and not self.breaker.closed:
            self._listener.stalled(self.partition, self.breaker.reason)
        self.looked_at = self.looked_at or not self.breaker.closed
        self._show()

    def _show(self) -> None:
        """Tell the listener once when the partition can be asked again."""
        available = self.available
        self.looked_at = self.looked_at or available
        if available and not self._shown_available:
            self._listener.back(self.partition)
        self._shown_available = available

    async def _attempts(self) -> AsyncIterator[None]:
        """Yield for ever, with a growing wait between attempts that end soon."""
        failures = 0
        while True:
            began = time.monotonic()
            yield None
            failures = BACKOFF.failures_after(failures, time.monotonic() - began)
            await asyncio.sleep(BACKOFF.delay_s(failures, random.random()))


async def _connected(channels: list[grpc.aio.Channel], timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(channel.channel_ready() for channel in channels))
    except TimeoutError:
        return False
    return True
