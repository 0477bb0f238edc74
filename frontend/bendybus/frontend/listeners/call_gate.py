"""The gate of the gRPC port for clients: a call takes room before it is read.

gRPC reads and parses the request of a unary call before it calls its handler: 20 MB of empty
elements are a gigabyte by then, and a request that comes slowly is kept as long as it takes. So
all unary calls have handlers of the streaming kind, which read when they want to; on the wire there
is no difference:

    token, right ──► body: in time, and with room ──► checked, parsed ──► right on its entity
                                                                               │
      written, in time ◄── answer ◄── its service ◄── room for its answer ◄────┘

A call without a good token is refused before anything of it is read.

A request that arrives at once, as nearly all do, is charged its size. A slower one is charged the
largest that the server allows: gRPC keeps what has come of it, and says neither how much that is
nor how much will come.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.frontend.core.quota.bounds import (
    ANSWER_S,
    ANY_TOKEN_MAX,
    ANY_TOKEN_S,
    AT_ONCE_S,
    PARSED_SMALL_BYTES,
    REQUEST_S,
    REQUEST_S_PER_MB,
    REQUEST_SMALL_BYTES,
    ROOM_S_MIN,
)
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners import grpc_methods, request_memory
from bendybus.frontend.listeners.grpc_methods import Method
from bendybus.frontend.listeners.request_values import HOLDER, Context
from bendybus.frontend.security.authenticator import Authenticator, Caller
from bendybus.wire import statuses
from bendybus.wire.serving import Health

# gRPC's own: a named tuple of asynchronous functions, which its stubs describe otherwise.
Handler = Any
RequestT = TypeVar("RequestT")
# Answers a call whose request is not read.
OpenAnswers = Callable[[Context], AsyncIterator[Message]]


class UnaryCall:
    """The room that a call holds, given back when it is over."""

    def __init__(self, quota: Quota, context: Context, policy: str) -> None:
        self._quota = quota
        self._context = context
        self.holder = Holder(context.peer(), policy)
        self._request_bytes = self._answer_bytes = 0
        # Where the answer takes its room.
        self._answers = quota.answers

    def __enter__(self) -> "UnaryCall":
        if not self._quota.calls.take(self.holder, 1):
            raise errors.ServerBusy(
                "too many calls of this connection, of this policy or of all are under way. Have "
                "fewer under way, or run more front ends.",
                retry_after_ms=1_000,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._quota.calls.give(self.holder, 1)
        self._give_request()
        self._give_answer()

    async def read(self, bytes_max: int) -> bytes:
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
                data: Any = await self._context.read()
        except TimeoutError:
            raise next(iter(busy), _too_late(within_s)) from None
        finally:
            timer.cancel()
        if data is grpc.aio.EOF:
            raise errors.InvalidArgument("request", "is missing.")
        self._give_request()
        if len(data) > REQUEST_SMALL_BYTES:
            self._take_request(len(data))
        return data  # type: ignore[no-any-return]

    async def room_for_elements(self, data: bytes, descriptor: Descriptor) -> None:
        """Take room for what the request becomes when it is parsed.

        Raises ServerBusy, InvalidArgument.
        """
        small = PARSED_SMALL_BYTES
        held_bytes = await request_memory.memory_of(
            self._quota, self.holder, data, descriptor, small, "request"
        )
        if held_bytes > small:
            self._take_request(held_bytes - self._request_bytes)

    async def room_for_answer(self, size_bytes: int, wait_s: float | None = None) -> None:
        """Wait until an answer of at most so many bytes may be made. Raises ServerBusy.

        `wait_s`: how long the call may wait for messages, if that is what it does.
        """
        if not size_bytes:
            return
        within_s = ANSWER_S
        if wait_s is not None:
            within_s = min(max(wait_s, ROOM_S_MIN), ANSWER_S)
            self._answers = self._quota.receives
        try:
            async with asyncio.timeout(within_s):
                await self._answers.wait(self.holder, size_bytes)
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
        if not self._quota.requests.take(self.holder, size_bytes):
            raise errors.ServerBusy(
                "large or slow requests use up the memory for requests of this connection, of this "
                "policy or of all callers. Make fewer at a time, and retry.",
                retry_after_ms=1_000,
            )
        self._request_bytes += size_bytes

    def _give_request(self) -> None:
        size_bytes, self._request_bytes = self._request_bytes, 0
        if size_bytes:
            self._quota.requests.give(self.holder, size_bytes)

    def _give_answer(self, keep_bytes: int = 0) -> None:
        keep_bytes = min(keep_bytes, self._answer_bytes)
        size_bytes, self._answer_bytes = self._answer_bytes - keep_bytes, keep_bytes
        if size_bytes:
            self._answers.give(self.holder, size_bytes)


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
        quota: Quota,
        message_bytes: Callable[[str], int],
        request_bytes: int,
        own_keys: Mapping[str, Handler] | None = None,
    ) -> None:
        """`own_keys`: handlers of methods whose requests have keys, which these verify."""
        self._authenticator = authenticator
        self._quota = quota
        self._message_bytes = message_bytes
        self._request_bytes = request_bytes
        # Calls under way that any token is enough for.
        self._any_token = 0
        self._open = {
            "/grpc.health.v1.Health/Check": self._open_to_all(_check(health)),
            "/grpc.health.v1.Health/Watch": self._open_to_all(_watch(health)),
            **(own_keys or {}),
        }

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler behind its checks, or one that refuses and reads nothing."""
        method = str(handler_call_details.method)
        if method in self._open:
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
            # `request_memory` parses its frames.
            return handler._replace(request_deserializer=None)
        return self._guarded(handler, method, known, caller)

    def _open_to_all(self, answers: OpenAnswers) -> Handler:
        """Return the handler of a call without a token; each connection has a few at a time."""

        async def called(_: AsyncIterator[bytes], context: Context) -> None:
            async with statuses.errors_as_status(context):
                room, holder = self._quota.open_calls, Holder(context.peer(), "")
                if not room.take(holder, 1):
                    raise errors.ServerBusy(
                        "too many calls without a token are under way on this connection, or have "
                        "answers that are not read. Read them.",
                        retry_after_ms=1_000,
                    )
                try:
                    async for answer in answers(context):
                        # STRICTLY WITHOUT a limit in time: gRPC would keep the call all the same.
                        await context.write(answer.SerializeToString())
                finally:
                    room.give(holder, 1)

        return grpc.stream_stream_rpc_method_handler(called)

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
        descriptor = request_descriptor(name)

        async def answered(call: UnaryCall, context: Context) -> None:
            data = await call.read(self._request_bytes)
            check_size(name, data)
            await call.room_for_elements(data, descriptor)
            request = parsed(data, handler.request_deserializer)
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

        async def called(_: AsyncIterator[bytes], context: Context) -> None:
            async with statuses.errors_as_status(context):
                self._quota.is_known(context.peer())
                with UnaryCall(self._quota, context, caller.policy) as call:
                    HOLDER.set(call.holder)
                    await answered(call, context)

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


def _check(health: Health) -> OpenAnswers:
    async def check(context: Context) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        yield await health.Check(health_pb2.HealthCheckRequest(), context)

    return check


def _watch(health: Health) -> OpenAnswers:
    def watch(_: Context) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        return health.changes("")

    return watch


def check_size(method: str, data: bytes) -> None:
    """Raise MessageSizeExceeded for a request that carries no messages and is large."""
    most = limits.REQUEST_BYTES_MAX
    if len(data) > most and method not in grpc_methods.CARRIES_MESSAGES:
        raise errors.MessageSizeExceeded(
            f"the request has {len(data)} bytes; at most {most} are allowed. "
            "Split it into several calls."
        )


def parsed(data: bytes, parse: Callable[[bytes], RequestT]) -> RequestT:
    """Return the request of a unary call. Raises InvalidArgument."""
    try:
        return parse(data)
    except DecodeError:
        raise errors.InvalidArgument("request", "cannot be parsed.") from None


def request_descriptor(method: str) -> Descriptor:
    """Return the type of a method's request; `method` as gRPC writes it."""
    name = method.strip("/").replace("/", ".")
    return descriptor_pool.Default().FindMethodByName(name).input_type
