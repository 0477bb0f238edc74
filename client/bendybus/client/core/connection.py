"""One connection of a client: a channel, its send stream, its receivers, its unary calls.

Made on any thread, used on the I/O thread. It lets go of gRPC when the process forks and makes it
anew when it is next needed.
"""

import asyncio
import logging
import random
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final

import grpc

from bendybus.client import arguments, exceptions
from bendybus.client.core import tls_probe
from bendybus.client.core.credentials import Credentials
from bendybus.client.core.io_thread import IoThread, Waiter
from bendybus.client.core.outage import Outage
from bendybus.client.core.send_limit import Admission
from bendybus.client.core.send_stream import Sending
from bendybus.client.core.settings import Settings
from bendybus.client.exceptions import ServiceBusError
from bendybus.domain import limits
from bendybus.domain.errors import (
    BusError,
    EntityNotFound,
    OutcomeUnknown,
    PartitionUnavailable,
    RetryableError,
    ServiceTimeout,
    Unauthenticated,
)
from bendybus.v1 import management_pb2_grpc, receiver_pb2_grpc, sender_pb2_grpc
from bendybus.v1.management_pb2 import (
    CreateQueueRequest,
    DeleteQueueRequest,
    DeleteQueueResponse,
    UpdateQueueRequest,
)
from bendybus.wire import statuses, tls

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", limits.GRPC_FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", limits.GRPC_FRAME_BYTES_MAX),
    # A front end comes back under another address.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Connections that must not block each other do not share one.
    ("grpc.use_local_subchannel_pool", 1),
)


# Calls without an operation's name that change something.
_CHANGES: Final = (CreateQueueRequest, UpdateQueueRequest, DeleteQueueRequest)
_log = logging.getLogger("bendybus.client")


class Stubs:
    """The stubs of one channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.sender = sender_pb2_grpc.SenderServiceStub(channel)
        self.receiver = receiver_pb2_grpc.ReceiverServiceStub(channel)
        self.management = management_pb2_grpc.ManagementServiceStub(channel)


class Connection:
    """See the module. `io` is the thread it belongs to; another process has another one."""

    def __init__(
        self,
        settings: Settings,
        io: IoThread,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.io = io
        self.settings = settings
        self._use_tls = settings.use_tls
        self.admission = Admission()
        self._outage = Outage(settings.target)
        self._probed: asyncio.Task[bool] | None = None
        self._credentials = Credentials(settings.credential, settings.target, loop=loop)
        self._trusted: bytes | None = None
        self._channel: grpc.aio.Channel | None = None
        self._stubs: Stubs | None = None
        # Whether the bus ever answered a call.
        self._answered = False
        self._ready = asyncio.Event()
        self._ready.set()
        self._calls: set[Any] = set()
        self._streams: set[Any] = set()
        self._receivings: weakref.WeakSet[Any] = weakref.WeakSet()
        self.sending: Sending = Sending(
            self._open_sending, io.loop, settings.retry, self.admission, self.explained
        )
        self.closed = False
        self.sending.stream.name = f"send stream to {settings.target}"
        io.owners.add(self)
        io.submit(self.keep, self.sending.stream, "bendybus-send")

    def keep(self, stream: Any, name: str) -> None:
        """Run a stream until it is closed. On the I/O thread."""
        self._streams.add(stream)
        stream.outage = self._outage
        task = self.io.spawn(stream.run(), name)
        task.add_done_callback(lambda _: self._streams.discard(stream))

    async def stubs(self) -> Stubs:
        """Return the stubs; connects when needed. On the I/O thread."""
        await self._ready.wait()
        if self._use_tls is None:
            self._use_tls = await self._speaks_tls()
        if self._stubs is None:
            self._channel = self._open_channel()
            self._stubs = Stubs(self._channel)
        return self._stubs

    async def _speaks_tls(self) -> bool:
        """Ask the bus whether it speaks TLS: once, for all streams and calls that wait for it."""
        if self._probed is None or self._probed.done():
            self._probed = self.io.loop.create_task(
                tls_probe.speaks_tls(self.settings.target), name="bendybus-probe"
            )
            # Seen, also where nobody waits for it any more.
            self._probed.add_done_callback(lambda task: task.cancelled() or task.exception())
        # One of those who wait may be cancelled; the others still wait.
        return await asyncio.shield(self._probed)

    def start(
        self,
        waiter: Waiter,
        work: Callable[[], Coroutine[Any, Any, Any]],
        translate: Callable[[BusError], ServiceBusError] = exceptions.from_bus_error,
    ) -> None:
        """Run `work` and give its outcome to `waiter`. On the I/O thread."""
        self.io.spawn(self._finish(waiter, work, translate), "bendybus-call")

    async def call(
        self,
        method: Callable[[Stubs], Any],
        request: Any,
        timeout_s: float | None = None,
        *,
        repeatable: bool = True,
    ) -> Any:
        """Make a unary call, again where that may help. Raises BusError."""
        began = self.io.loop.time()
        deadline = began + (timeout_s or arguments.TIMEOUT_S_DEFAULT)
        failures = 0
        # Of a call that changes something: whether an earlier try may have done it. A repeat by
        # the same name finds out, and no refusal of one is a no.
        named = bool(getattr(request, "operation_id", b""))
        changes = named or isinstance(request, _CHANGES)
        doubtful = False
        recorded: BusError | None = None
        while True:
            left = deadline - self.io.loop.time()
            try:
                return await self._call_once(method, request, left)
            except BusError as exc:
                failures += 1
                recorded = exc if _is_recorded(exc) else recorded
                if _is_gone(exc, request):
                    # What was asked for: an earlier try did it, where partitions could be reached.
                    if recorded is not None:
                        raise recorded from exc
                    if doubtful:
                        return DeleteQueueResponse()
                doubtful = doubtful or (changes and _may_be_done(exc))
                pause = self.settings.retry.pause_s(failures, exc)
                in_time = self.io.loop.time() + pause < deadline
                again = exc.retryable or isinstance(exc, OutcomeUnknown)
                again = again and failures <= self.settings.retry.total
                if not repeatable or not in_time or not again:
                    if doubtful and exc.retryable and not _is_recorded(exc):
                        raise _unknown(exc) from exc
                    raise
                # Spread, so that callers of a front end that went do not all come back at once.
                pause *= random.uniform(0.8, 1.2)
                _log.info("client: call failed, retrying in %.1f s: %s", pause, exc.message)
                await asyncio.sleep(pause)
                if named:
                    # A repeat by the same name: the bus does it once.
                    request.age_ms = max(1, round((self.io.loop.time() - began) * 1_000))

    async def pause(self) -> None:
        """Let go of every object of gRPC: the process is about to fork."""
        self._ready.clear()
        for call in list(self._calls):
            call.cancel()
        for stream in list(self._streams):
            await stream.cancel()
        if self._channel is not None:
            await self._channel.close()
        self._channel = self._stubs = None

    def resume(self) -> None:
        """Connect again when needed."""
        self._ready.set()

    async def close(self) -> None:
        """End everything; what is under way fails."""
        self.closed = True
        self.io.owners.discard(self)
        await self.close_receivers()
        await self.sending.close()
        await self.pause()

    async def close_receivers(self) -> None:
        """Close all receivers at the same time: a bus that hangs delays this once."""
        await asyncio.gather(*(receiving.close() for receiving in list(self._receivings)))

    def keep_receiving(self, receiving: Any) -> None:
        """Run the stream of a receiver until it is closed. On the I/O thread."""
        self._receivings.add(receiving)
        self.keep(receiving.stream, "bendybus-receive")

    async def _finish(
        self,
        waiter: Waiter,
        work: Callable[[], Coroutine[Any, Any, Any]],
        translate: Callable[[BusError], ServiceBusError],
    ) -> None:
        try:
            waiter.resolve(await work())
        except BusError as exc:
            waiter.fail(translate(exc))
        except (ServiceBusError, ValueError, TypeError) as exc:
            waiter.fail(exc)
        except BaseException as exc:
            waiter.fail(ServiceBusError(f"The client failed: {exc!r}.", error=exc))
            raise

    async def _call_once(self, method: Callable[[Stubs], Any], request: Any, left: float) -> Any:
        if left <= 0:
            raise ServiceTimeout("The time given was over before the bus answered.")
        stubs = await self.stubs()
        metadata = await self._credentials.metadata()
        call = method(stubs)(request, timeout=left, metadata=metadata)
        self._calls.add(call)
        try:
            answer = await call
            self._answered = True
            return answer
        except grpc.aio.AioRpcError as exc:
            raise self.explained(statuses.from_rpc_error(exc)) from exc
        except asyncio.CancelledError:
            if self._ready.is_set():
                raise
            raise RetryableError("The connection was ended by a fork.") from None
        finally:
            self._calls.discard(call)

    async def _open_sending(self) -> Any:
        metadata = await self._credentials.metadata()
        return (await self.stubs()).sender.SendStream(metadata=metadata)

    async def open_receiving(self) -> Any:
        """Open a stream of a receiver. On the I/O thread."""
        metadata = await self._credentials.metadata()
        return (await self.stubs()).receiver.ReceiveStream(metadata=metadata)

    def explained(self, error: BusError) -> BusError:
        """Return an error with what to change, where TLS or a token is the reason."""
        if isinstance(error, Unauthenticated):
            self._credentials.refused()
        if tls.is_untrusted(error.message):
            self._trust_anew()
        use_tls = self._use_tls is not False
        if type(error) is not RetryableError or (not use_tls and self._has_answered()):
            # A bus that answered in plain text before does not speak TLS: it has gone.
            return error
        advice = tls.explain(error.message, address=self.settings.target, use_tls=use_tls)
        if not advice and any(sign in error.message for sign in _NOBODY_THERE):
            advice = (
                f"No bus answers at {self.settings.target}. Check host and port; is it running?"
            )
        return RetryableError(f"{advice} ({error.message})") if advice else error

    def _has_answered(self) -> bool:
        streams = [self.sending.stream, *(each.stream for each in self._receivings)]
        return self._answered or any(stream.answered for stream in streams)

    def _authorities(self) -> bytes | None:
        path = self.settings.ca_file
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return self._trusted

    def _trust_anew(self) -> None:
        """Make the next channel with the authorities of today, if they were exchanged."""
        channel = self._channel
        if channel is not None and self._authorities() != self._trusted:
            self._channel = self._stubs = None
            self.io.spawn(channel.close(), "bendybus-close")

    def _open_channel(self) -> grpc.aio.Channel:
        if not self._use_tls:
            return grpc.aio.insecure_channel(self.settings.target, options=_OPTIONS)
        self._trusted = self._authorities()
        credentials = grpc.ssl_channel_credentials(self._trusted)
        return grpc.aio.secure_channel(self.settings.target, credentials, options=_OPTIONS)


# What gRPC says of an address where nothing listens, and of a name that there is not.
_NOBODY_THERE: Final = ("Connection refused", "DNS resolution failed")


def _may_be_done(error: BusError) -> bool:
    """Whether a call that failed like this may have been carried out: its answer was lost."""
    if isinstance(error, OutcomeUnknown):
        return True
    lost = type(error) in (RetryableError, ServiceTimeout)
    cause = error.__cause__
    never_sent = "failed to connect" in error.message
    return lost and isinstance(cause, grpc.aio.AioRpcError) and not never_sent


def _is_recorded(error: BusError) -> bool:
    """Whether a change of an entity is decided, and only partitions lag behind."""
    return isinstance(error, PartitionUnavailable) and "generation" in error.metadata


def _is_gone(error: BusError, request: Any) -> bool:
    """Whether a queue that is to be deleted is not there (any more)."""
    return isinstance(error, EntityNotFound) and isinstance(request, DeleteQueueRequest)


def _unknown(error: BusError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{error.message} An earlier try may have been carried out: the outcome is unknown.",
        metadata={**error.metadata, "cause": error.reason},
    )
