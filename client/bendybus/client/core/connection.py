"""One connection of a client: a channel, its send stream, its receivers, its unary calls.

Created on any thread, used on the I/O thread. It closes its gRPC objects before the process forks
and opens them again when they are next needed.
"""

import asyncio
import logging
import random
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import Message

from bendybus.client import arguments, exceptions
from bendybus.client.core import io_thread
from bendybus.client.core.channel import AnswerT, Channel, Method, RequestT, Stubs
from bendybus.client.core.credentials import Credentials
from bendybus.client.core.io_thread import IoThread, Result, Waiter
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import Outage
from bendybus.client.core.send_queue import SendLimit
from bendybus.client.core.send_stream import SendStream
from bendybus.client.core.settings import Settings
from bendybus.client.core.stream import Stream
from bendybus.client.exceptions import AzureError, ServiceBusError
from bendybus.domain.errors import (
    BusError,
    EntityDrained,
    EntityNotFound,
    OutcomeUnknown,
    PartitionUnavailable,
    RetryableError,
    ServiceTimeout,
    Unauthenticated,
)
from bendybus.v1.management_pb2 import (
    CreateQueueRequest,
    CreateSubscriptionRequest,
    CreateTopicRequest,
    DeleteQueueRequest,
    DeleteQueueResponse,
    DeleteSubscriptionRequest,
    DeleteSubscriptionResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    UpdateQueueRequest,
    UpdateSubscriptionRequest,
    UpdateTopicRequest,
)
from bendybus.v1.pipeline_pb2 import AcquireDrainLeaseRequest
from bendybus.v1.receiver_pb2 import DeleteMessagesRequest, ReceiveDeferredRequest
from bendybus.v1.sender_pb2 import CancelScheduledMessagesRequest
from bendybus.wire import statuses
from bendybus.wire.contract_versions import CLIENT

if TYPE_CHECKING:
    from bendybus.v1 import receiver_pb2, sender_pb2, transaction_pb2

    SendCall = grpc.aio.StreamStreamCall[
        sender_pb2.SendStreamRequest, sender_pb2.SendStreamResponse
    ]
    ReceiveCall = grpc.aio.StreamStreamCall[
        receiver_pb2.ReceiveStreamRequest, receiver_pb2.ReceiveStreamResponse
    ]
    TransactionCall = grpc.aio.StreamStreamCall[
        transaction_pb2.TransactRequest, transaction_pb2.TransactResponse
    ]

# Changes with an operation id: the bus does a repeat only once.
_NAMED: Final = (CancelScheduledMessagesRequest, DeleteMessagesRequest, ReceiveDeferredRequest)
# Changes without one.
_DELETIONS: Final[dict[type[Message], Callable[[], Any]]] = {
    DeleteQueueRequest: DeleteQueueResponse,
    DeleteTopicRequest: DeleteTopicResponse,
    DeleteSubscriptionRequest: DeleteSubscriptionResponse,
}
_CHANGES: Final = (
    CreateQueueRequest,
    CreateTopicRequest,
    CreateSubscriptionRequest,
    UpdateQueueRequest,
    UpdateTopicRequest,
    UpdateSubscriptionRequest,
    *_DELETIONS,
)
_IDLE_TRANSACTIONS_MAX: Final = 16
_log = logging.getLogger("bendybus.client")


class Connection:
    """See the module. `io` is the I/O thread of this process."""

    def __init__(
        self,
        settings: Settings,
        io: IoThread,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.io = io
        self.settings = settings
        self.send_limit = SendLimit()
        self._outage = Outage(settings.target)
        self._channel = Channel(settings, io)
        self._credentials = Credentials(
            settings.credential, settings.target, loop=loop, entity_name=settings.entity_name
        )
        # Whether the bus has answered a call.
        self._answered = False
        self._ready = asyncio.Event()
        self._ready.set()
        self._calls: set[grpc.aio.Call] = set()
        # The tasks of unary calls, by who waits for them.
        self._tasks: dict[object, asyncio.Task[None]] = {}
        # Streams of transactions that have ended.
        self._idle_transactions: list[TransactionCall] = []
        self._streams: set[Stream] = set()
        self._receive_streams: weakref.WeakSet[ReceiveStream] = weakref.WeakSet()
        self.send_stream = SendStream(
            self._open_send_stream, io.loop, settings.retry, self.send_limit, self.explained
        )
        self.closed = False
        # Whether it is closed, and opens nothing any more.
        self._ended = False
        self.send_stream.stream.name = f"send stream to {settings.target}"
        io.owners.add(self)
        io.submit(self.keep, self.send_stream.stream, "bendybus-send")

    def keep(self, stream: Stream, name: str) -> None:
        """Run a stream until it is closed. On the I/O thread."""
        self._streams.add(stream)
        stream.outage = self._outage
        task = self.io.spawn(stream.run(), name)
        task.add_done_callback(lambda _: self._streams.discard(stream))

    async def _stubs(self) -> Stubs:
        # Not while the process forks.
        await self._ready.wait()
        if self._ended:
            raise _closed()
        return await self._channel.stubs()

    def start(
        self,
        waiter: Waiter[Result],
        work: Callable[[], Coroutine[object, object, Result]],
        translate: Callable[[BusError], AzureError] = exceptions.from_bus_error,
    ) -> None:
        """Run `work` and pass its outcome to `waiter`. On the I/O thread."""
        self.io.spawn(self._finish(waiter, work, translate), "bendybus-call")

    def start_call(
        self,
        waiter: Waiter[Result],
        work: Callable[[], Coroutine[object, object, Result]],
        translate: Callable[[BusError], AzureError] = exceptions.from_bus_error,
    ) -> None:
        """Start a unary call, which `end_call` and `close` end. On the I/O thread."""
        if self.closed:
            waiter.fail(translate(_closed()))
            return
        task = self.io.spawn(self._finish(waiter, work, translate), "bendybus-call")
        self._tasks[waiter] = task
        task.add_done_callback(lambda _: self._tasks.pop(waiter, None))

    def end_call(self, waiter: Waiter[Result]) -> None:
        """End a call whose caller has gone: it is not repeated. On the I/O thread."""
        task = self._tasks.get(waiter)
        if task is not None:
            task.cancel()

    async def call(
        self,
        method: "Method[RequestT, AnswerT]",
        request: RequestT,
        timeout_s: float | None = None,
    ) -> AnswerT:
        """Make a unary call, with retries. Raises BusError."""
        began = self.io.loop.time()
        deadline = began + (timeout_s or arguments.TIMEOUT_S_DEFAULT)
        failures = 0
        # Of a call that changes something: whether an earlier try may have done it. A repeat with
        # the same operation id finds out; that a repeat is rejected does not mean it was not done.
        named = isinstance(request, _NAMED)
        changes = named or isinstance(request, _CHANGES)
        doubtful = False
        recorded: BusError | None = None
        while True:
            try:
                return await self._call_once(method, request, deadline)
            except BusError as exc:
                failures += 0 if _waits(exc, request) else 1
                recorded = exc if _is_recorded(exc) else recorded
                if _is_gone(exc, request):
                    # Deleted by an earlier try, on the partitions that were available.
                    if recorded is not None:
                        raise recorded from exc
                    if doubtful:
                        gone: AnswerT = _DELETIONS[type(request)]()
                        return gone
                doubtful = doubtful or (changes and _may_be_done(exc))
                pause = self.settings.retry.pause_s(failures, exc)
                in_time = self.io.loop.time() + pause < deadline
                again = exc.retryable or isinstance(exc, OutcomeUnknown)
                again = again and failures <= self.settings.retry.total
                if not in_time or not again:
                    if doubtful and exc.retryable and not _is_recorded(exc):
                        raise _unknown(exc) from exc
                    raise
                # Jitter: the callers of a front end that stopped do not all reconnect at once.
                pause *= random.uniform(0.8, 1.2)
                _log.info("client: call failed, retrying in %.1f s: %s", pause, exc.message)
                await asyncio.sleep(pause)
                if isinstance(request, _NAMED):
                    # A repeat with the same operation id: the bus does it once.
                    request.age_ms = max(1, round((self.io.loop.time() - began) * 1_000))

    async def pause(self) -> None:
        """Close every object of gRPC: the process is about to fork."""
        self._ready.clear()
        self._idle_transactions.clear()
        for call in list(self._calls):
            call.cancel()
        for stream in list(self._streams):
            await stream.cancel()
        await self._channel.close()

    def resume(self) -> None:
        """Connect again when needed."""
        self._ready.set()

    async def leave(self) -> None:
        """Close the receivers that hold messages or settlements: the process exits."""
        await asyncio.gather(
            *(stream.close() for stream in list(self._receive_streams) if stream.unfinished)
        )

    async def close(self) -> None:
        """Close streams and channel; operations in progress fail."""
        self.closed = True
        self.io.owners.discard(self)
        for task in list(self._tasks.values()):
            task.cancel()
        await self.close_receivers()
        await self.send_stream.close()
        await self.pause()
        # What still waits for the end of a fork gets the error.
        self._ended = True
        self._ready.set()

    async def close_receivers(self) -> None:
        """Close all receivers concurrently: a bus that does not answer delays this once."""
        await asyncio.gather(
            *(receive_stream.close() for receive_stream in list(self._receive_streams))
        )

    def keep_receive_stream(self, receive_stream: ReceiveStream) -> None:
        """Run the stream of a receiver until it is closed. On the I/O thread."""
        self._receive_streams.add(receive_stream)
        self.keep(receive_stream.stream, "bendybus-receive")

    async def _finish(
        self,
        waiter: Waiter[Result],
        work: Callable[[], Coroutine[object, object, Result]],
        translate: Callable[[BusError], AzureError],
    ) -> None:
        try:
            waiter.resolve(await work())
        except BusError as exc:
            waiter.fail(translate(exc))
        except (ServiceBusError, ValueError, TypeError) as exc:
            waiter.fail(exc)
        except asyncio.CancelledError:
            # If it still has a caller: the client was closed.
            waiter.fail(translate(_closed()))
            raise
        except BaseException as exc:
            waiter.fail(ServiceBusError(f"Internal error of the client: {exc!r}", error=exc))
            raise

    async def _call_once(
        self, method: "Method[RequestT, AnswerT]", request: RequestT, deadline_s: float
    ) -> AnswerT:
        try:
            async with asyncio.timeout_at(deadline_s):
                metadata = await self._credentials.metadata()
                # STRICTLY AFTER the token: a fork during the wait for it closes the channel.
                stubs = await self._stubs()
        except TimeoutError:
            raise _timed_out() from None
        left = deadline_s - self.io.loop.time()
        if left <= 0:
            raise _timed_out()
        call = method(stubs)(request, timeout=left, metadata=metadata)
        self._calls.add(call)
        try:
            answer = await call
            self._answered = True
            return answer
        except grpc.aio.AioRpcError as exc:
            raise self.explained(statuses.from_rpc_error(exc)) from exc
        except asyncio.CancelledError as exc:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            # The process forks, or the certificates have changed: the channel was closed.
            raise RetryableError("The connection was closed before the bus answered.") from exc
        finally:
            self._calls.discard(call)

    async def _open_send_stream(self) -> "SendCall":
        metadata = (*(await self._credentials.metadata() or ()), CLIENT.said)
        return (await self._stubs()).sender.SendStream(metadata=metadata)

    async def open_receive_stream(self) -> "ReceiveCall":
        """Open a stream of a receiver. On the I/O thread."""
        metadata = await self._credentials.metadata()
        metadata = (*(metadata or ()), CLIENT.said)
        return (await self._stubs()).receiver.ReceiveStream(metadata=metadata)

    async def open_transaction_stream(self) -> "TransactionCall":
        """Return a stream without a transaction; a fork and `close` end it. On the I/O thread."""
        while self._idle_transactions:
            idle = self._idle_transactions.pop()
            if not idle.done():
                return idle
        metadata = (*(await self._credentials.metadata() or ()), CLIENT.said)
        call = (await self._stubs()).transaction.Transact(metadata=metadata)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def keep_transaction_stream(self, call: "TransactionCall") -> None:
        """Keep a stream for the next transaction: opening one costs as much as a commit."""
        idle = self._idle_transactions
        if self._ready.is_set() and not self.closed and len(idle) < _IDLE_TRANSACTIONS_MAX:
            idle.append(call)
        else:
            call.cancel()

    def explained(self, error: BusError) -> BusError:
        """Return an error with what to change, where the address, TLS or a token is the reason."""
        if isinstance(error, Unauthenticated):
            self._credentials.refused()
        return self._channel.explain(error, answered=self._has_answered())

    def _has_answered(self) -> bool:
        streams = [self.send_stream.stream, *(each.stream for each in self._receive_streams)]
        return self._answered or any(stream.answered for stream in streams)


def _may_be_done(error: BusError) -> bool:
    """Whether a call with this error may have been performed: its response was lost."""
    if isinstance(error, OutcomeUnknown):
        return True
    lost = type(error) in (RetryableError, ServiceTimeout)
    cause = error.__cause__
    broke = isinstance(cause, grpc.aio.AioRpcError | asyncio.CancelledError)
    never_sent = "failed to connect" in error.message
    return lost and broke and not never_sent


def _timed_out() -> ServiceTimeout:
    return ServiceTimeout("The operation timed out before the bus answered.")


def _closed() -> RetryableError:
    return RetryableError("The client was closed before the outcome of the operation was known.")


def _is_recorded(error: BusError) -> bool:
    return isinstance(error, PartitionUnavailable) and error.is_recorded


def _is_gone(error: BusError, request: Message) -> bool:
    """Whether an entity that is to be deleted does not exist (any more)."""
    return isinstance(error, EntityNotFound) and type(request) in _DELETIONS


def _waits(error: BusError, request: Message) -> bool:
    """Whether it is the lease of another pipeline, which is waited for as long as there is time."""
    return isinstance(error, EntityDrained) and isinstance(request, AcquireDrainLeaseRequest)


def _unknown(error: BusError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{error.message} An earlier try may have succeeded: the outcome is unknown.",
        metadata={**error.metadata, "cause": error.reason},
    )


class SharedConnection:
    """Gives a client, its senders and its receivers the connection of this process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connection: Connection | None = None
        # Set by asynchronous clients: their credentials are awaited on the application's loop.
        self.of_loop = False

    def get(self) -> Connection:
        """Return the connection of this process; a forked child gets a new one."""
        found, io = self._connection, io_thread.current()
        if found is None or found.io is not io:
            with io_thread.making():
                found = self._connection
                if found is None or found.io is not io:
                    loop = asyncio.get_running_loop() if self.of_loop else None
                    found = self._connection = Connection(self.settings, io, loop)
        return found

    def made(self) -> Connection | None:
        """Return the connection if this process has opened one."""
        found = self._connection
        return found if found is not None and found.io is io_thread.current() else None

    def take(self) -> Connection | None:
        """Remove and return the connection, if this process has opened one."""
        found, self._connection = self._connection, None
        return found if found is not None and found.io is io_thread.current() else None
