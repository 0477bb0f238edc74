"""The gate of the gRPC port for clients: a call takes room of a ledger before it is read.

gRPC reads and parses the request of a unary call before it calls its handler: 20 MB of empty
elements are a gigabyte by then, and a request that comes slowly is kept as long as it takes. So
all unary calls have handlers of the streaming kind, which read when they want to; on the wire there
is no difference:

    token, right ──► body: in time, and with room ──► checked, parsed ──► right on its entity
                                                                               │
      written, in time ◄── answer ◄── its service ◄── room for its answer ◄────┘

A call without a good token is refused before anything of it is read.

A request that is there at once, as nearly all are, costs nothing but its bytes. One that is not
takes room for the largest that the server allows: gRPC keeps what has come of it, and says neither
how much that is nor how much will come.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.frontend.core.call_ledger import CallLedger, Holder
from bendybus.frontend.listeners import grpc_methods
from bendybus.frontend.listeners.grpc_methods import Method
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.security.authenticator import Authenticator, Caller
from bendybus.wire import element_count, statuses
from bendybus.wire.serving import Health

# gRPC's own: a named tuple of asynchronous functions, which its stubs describe otherwise.
Handler = Any
RequestT = TypeVar("RequestT")
# Frames of streams are up to 2 MB, and checked only when they hold one larger message.
FRAME_BYTES: Final = limits.FRAME_BYTES_MAX + limits.MB
# Calls of reflection at a time, and how long each may take.
ANY_TOKEN_MAX: Final = 64
ANY_TOKEN_S: Final = 60.0
# A request that comes within this time holds no more than a connection carries in it.
AT_ONCE_S: Final = 0.05
# How long a request may take, and how much more for each MB that it may have.
REQUEST_S: Final = 10.0
REQUEST_S_PER_MB: Final = 1.0
# Smaller ones are not counted: the number of calls bounds them.
SMALL_BYTES: Final = 4 * limits.KB
# An answer that its caller does not take in this time is dropped.
ANSWER_S: Final = 60.0
# A call that is not to wait for messages waits so long for room.
ROOM_S_MIN: Final = 0.25


class UnaryCall:
    """What a call holds of a ledger, given back when it is over."""

    def __init__(self, ledger: CallLedger, context: Context, policy: str) -> None:
        self._ledger = ledger
        self._context = context
        self._holder = Holder(context.peer(), policy)
        self._request_bytes = self._answer_bytes = 0
        # Where the answer takes its room.
        self._answers = ledger.answers

    def __enter__(self) -> "UnaryCall":
        if not self._ledger.places.take(self._holder.policy):
            raise errors.ServerBusy(
                "too many calls of this policy, or of all, are under way. Have fewer under way, or "
                "run more front ends.",
                retry_after_ms=1_000,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.places.give(self._holder.policy)
        self._give_request()
        self._give_answer()

    async def read(self, requests: AsyncIterator[bytes], bytes_max: int) -> bytes:
        """Return the request. Raises ServerBusy, ServiceTimeout, InvalidArgument."""
        loop = asyncio.get_running_loop()
        within_s = REQUEST_S + REQUEST_S_PER_MB * bytes_max / limits.MB
        busy: list[BusError] = []

        def late() -> None:
            try:
                self._take_request(bytes_max)
            except BusError as error:
                busy.append(error)
                deadline.reschedule(loop.time())

        timer = loop.call_later(AT_ONCE_S, late)
        try:
            async with asyncio.timeout(within_s) as deadline:
                data = await anext(requests, None)
        except TimeoutError:
            raise next(iter(busy), _too_late(within_s)) from None
        finally:
            timer.cancel()
        if data is None:
            raise errors.InvalidArgument("request", "there is none.")
        self._give_request()
        if len(data) > SMALL_BYTES:
            self._take_request(len(data))
        return data

    async def room_for_answer(self, size_bytes: int, wait_s: float | None = None) -> None:
        """Wait until an answer of at most so many bytes may be made. Raises ServerBusy.

        `wait_s`: how long the call may wait for messages, if that is what it does.
        """
        if not size_bytes:
            return
        within_s = ANSWER_S
        if wait_s is not None:
            within_s = min(max(wait_s, ROOM_S_MIN), ANSWER_S)
            self._answers = self._ledger.receives
        try:
            async with asyncio.timeout(within_s):
                await self._answers.wait(self._holder, size_bytes)
        except TimeoutError:
            raise errors.ServerBusy(
                "answers that are being made, or are not read yet, fill what calls of this "
                "connection, of this policy or of all may hold. Have fewer under way, ask for "
                "fewer messages at a time, and repeat this one.",
                retry_after_ms=1_000,
            ) from None
        self._answer_bytes = size_bytes

    async def write(self, data: bytes) -> None:
        """Write the answer; end the call if its caller does not take it."""
        self._give_request()
        # What it was made of is gone.
        self._give_answer(keep_bytes=len(data))
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._context.write(data)
        except TimeoutError:
            raise errors.ServiceTimeout(
                f"the answer of {len(data)} bytes was not read within {ANSWER_S:.0f} s. Read it, "
                "and make fewer calls at a time."
            ) from None

    def _take_request(self, size_bytes: int) -> None:
        if not self._ledger.requests.take(self._holder, size_bytes):
            raise errors.ServerBusy(
                "large or slow requests use up the memory for requests of this connection, of this "
                "policy or of all callers. Make fewer at a time, and retry.",
                retry_after_ms=1_000,
            )
        self._request_bytes = size_bytes

    def _give_request(self) -> None:
        size_bytes, self._request_bytes = self._request_bytes, 0
        if size_bytes:
            self._ledger.requests.give(self._holder, size_bytes)

    def _give_answer(self, keep_bytes: int = 0) -> None:
        keep_bytes = min(keep_bytes, self._answer_bytes)
        size_bytes, self._answer_bytes = self._answer_bytes - keep_bytes, keep_bytes
        if size_bytes:
            self._answers.give(self._holder, size_bytes)


def _too_late(within_s: float) -> BusError:
    return errors.ServiceTimeout(
        f"the request was not received within {within_s:.0f} s. Send less at a time."
    )


class CallGate(grpc.aio.ServerInterceptor):
    """Requires a token for every call that is not open to all, and the right for unary ones.

    `message_bytes` gives the largest message of an entity by its path. `request_bytes`: the
    largest request that the server takes.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        health: Health,
        ledger: CallLedger,
        message_bytes: Callable[[str], int],
        request_bytes: int,
    ) -> None:
        self._authenticator = authenticator
        self._ledger = ledger
        self._message_bytes = message_bytes
        self._request_bytes = request_bytes
        # Calls under way that any token is enough for.
        self._any_token = 0
        self._open = {
            "/grpc.health.v1.Health/Check": _check(health),
            "/grpc.health.v1.Health/Watch": _watch(health),
        }

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler behind its checks, or one that refuses and reads nothing."""
        method = str(handler_call_details.method)
        if method in grpc_methods.OPEN:
            return self._open[method]
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        try:
            caller = self._authenticator.authenticate(
                grpc_methods.token(handler_call_details.invocation_metadata)
            )
            known = grpc_methods.METHODS.get(method)
            if known is None and method not in grpc_methods.ANY_TOKEN:
                raise errors.Unauthorized(f"{method}: clients may not call this method.")
            if known is not None and not known.stream:
                # Before the request is read: most that lack a right lack it everywhere.
                caller.check_anywhere(known.operation)
        except BusError as error:
            return _refusal(error)
        if known is None:
            return self._bounded(handler)
        if known.stream:
            return _framed(handler, method)
        return self._guarded(handler, method, known, caller)

    def _bounded(self, handler: Handler) -> Handler:
        """Return the handler of a stream that any token may open, and few have open for long."""

        async def called(
            requests: AsyncIterator[Message], context: Context
        ) -> AsyncIterator[Message]:
            async with statuses.errors_as_status(context):
                if self._any_token >= ANY_TOKEN_MAX:
                    raise errors.ServerBusy(
                        f"{ANY_TOKEN_MAX} callers use reflection now. Repeat it.",
                        retry_after_ms=1_000,
                    )
                self._any_token += 1
                try:
                    async with asyncio.timeout(ANY_TOKEN_S):
                        async for answer in handler.stream_stream(requests, context):
                            yield answer
                except TimeoutError:
                    raise errors.ServiceTimeout(
                        f"a call of reflection may take {ANY_TOKEN_S:.0f} s."
                    ) from None
                finally:
                    self._any_token -= 1

        return handler._replace(stream_stream=called)

    def _guarded(self, handler: Handler, name: str, method: Method, caller: Caller) -> Handler:
        """Return the handler of a unary call behind the checks of its bytes and its caller."""

        async def called(requests: AsyncIterator[bytes], context: Context) -> None:
            async with statuses.errors_as_status(context):
                with UnaryCall(self._ledger, context, caller.policy) as call:
                    data = await call.read(requests, self._request_bytes)
                    request = parsed(name, data, handler.request_deserializer)
                    del data
                    entity = method.entity_of(request) if method.on_entity else ""
                    if method.on_entity:
                        caller.check(method.operation, entity)
                        for destination in method.destinations_of(request):
                            caller.check(method.operation, destination)
                    most = method.answer_bytes_of(request, self._message_bytes(entity))
                    await _room_for_answer(call, most, request)
                    answer = await handler.unary_unary(request, context)
                    data = handler.response_serializer(answer)
                    del request, answer
                    await call.write(data)

        return grpc.stream_stream_rpc_method_handler(called)


async def _room_for_answer(call: UnaryCall, size_bytes: int, request: Message) -> None:
    """Wait for room; that is a part of what the request lets its call wait for messages."""
    if not hasattr(request, "max_wait_ms"):
        await call.room_for_answer(size_bytes)
        return
    loop = asyncio.get_running_loop()
    began_s, wait_s = loop.time(), max(0, request.max_wait_ms) / 1_000
    await call.room_for_answer(size_bytes, wait_s)
    waited_ms = round((loop.time() - began_s) * 1_000)
    request.max_wait_ms = max(0, request.max_wait_ms - waited_ms)


def _refusal(error: BusError) -> Handler:
    async def refuse(_: AsyncIterator[bytes], context: Context) -> None:
        async with statuses.errors_as_status(context):
            raise error

    return grpc.stream_stream_rpc_method_handler(refuse)


def _check(health: Health) -> Handler:
    async def check(_: AsyncIterator[bytes], context: Context) -> health_pb2.HealthCheckResponse:
        answer: health_pb2.HealthCheckResponse = await health.Check(
            health_pb2.HealthCheckRequest(), context
        )
        return answer

    return grpc.stream_unary_rpc_method_handler(
        check,
        response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
    )


def _watch(health: Health) -> Handler:
    async def watch(
        _: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        async for answer in health.Watch(health_pb2.HealthCheckRequest(), context):
            yield answer

    return grpc.stream_stream_rpc_method_handler(
        watch,
        response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
    )


def _framed(handler: Handler, method: str) -> Handler:
    """Return the handler of a stream whose large frames are checked before they are parsed."""
    parse: Callable[[bytes], Message] = handler.request_deserializer
    descriptor = request_descriptor(method)

    def frame(data: bytes) -> Message:
        if len(data) > FRAME_BYTES:
            try:
                element_count.check(data, descriptor)
            except element_count.TooManyElements as error:
                raise DecodeError(str(error)) from None
        return parse(data)

    return handler._replace(request_deserializer=frame)


def parsed(method: str, data: bytes, parse: Callable[[bytes], RequestT]) -> RequestT:
    """Return the request of a unary call. Raises InvalidArgument, MessageSizeExceeded."""
    most = limits.REQUEST_BYTES_MAX
    if len(data) > most and method not in grpc_methods.CARRIES_MESSAGES:
        raise errors.MessageSizeExceeded(
            f"the request has {len(data)} bytes; at most {most} are allowed. "
            "Split it into several calls."
        )
    try:
        element_count.check(data, request_descriptor(method))
        return parse(data)
    except element_count.TooManyElements as error:
        raise errors.InvalidArgument("request", f"{error}. Split it into several calls.") from None
    except DecodeError:
        raise errors.InvalidArgument("request", "cannot be parsed.") from None


def request_descriptor(method: str) -> Descriptor:
    """Return the type of a method's request; `method` as gRPC writes it."""
    name = method.strip("/").replace("/", ".")
    return descriptor_pool.Default().FindMethodByName(name).input_type
