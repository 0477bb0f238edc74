"""Lets in who may call: reads the peer's certificate at every call and asks the table of roles."""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import grpc

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.partition_server.service import roles
from bendybus.partition_server.service.hosts import Context
from bendybus.partition_server.service.roles import Refusal
from bendybus.wire import statuses
from bendybus.wire.refusals import Refusals

logger = logging.getLogger(__name__)
# gRPC's own: a named tuple of asynchronous functions, which its stubs describe otherwise.
Handler = Any
# gRPC's name for the URIs in the peer's certificate; other kinds of names are not among them.
_PEER_URI: Final = "peer_uri"
_NAMES_SHOWN: Final = 3

_SENTENCES: Final = {
    Refusal.NO_IDENTITY: "its certificate has no identity of Bendybus",
    Refusal.OTHER_BUS: "its certificate is of another bus, and this is {bus}",
    Refusal.WRONG_ROLE: "its role may not call this",
}


class Admission(grpc.aio.ServerInterceptor):
    """Refuses calls of peers that the table does not name."""

    def __init__(self, bus_identity: str, refusals: Refusals) -> None:
        self._bus_identity = bus_identity
        self._refusals = refusals

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler, behind a check of the peer."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method)

        async def check(context: Context) -> None:
            error = self.refusal(method, context.auth_context())
            if error is not None:
                async with statuses.errors_as_status(context):
                    raise error

        return _guarded(handler, check)

    def refusal(self, method: str, auth: Mapping[str, Iterable[bytes]]) -> BusError | None:
        """Return why the peer may not call `method`; counts and logs it."""
        uris = [uri.decode("utf-8", "replace") for uri in auth.get(_PEER_URI, ())]
        why = roles.check(method, uris, self._bus_identity)
        if why is None:
            return None
        # Names of a certificate that an authority of ours signed: they may be shown.
        who = ", ".join(uris[:_NAMES_SHOWN]) or "(no identity)"
        self._refusals.note(why, who)
        sentence = _SENTENCES[why].format(bus=self._bus_identity)
        return errors.Unauthorized(
            f"{method}: {who} is refused: {sentence}.",
            metadata={"cause": str(why), "bus": self._bus_identity},
        )


def _guarded(handler: Handler, check: Callable[[Context], Awaitable[None]]) -> Handler:
    """Return a handler of the same kind that checks first."""
    kinds = {
        (False, False): (handler.unary_unary, grpc.unary_unary_rpc_method_handler),
        (False, True): (handler.unary_stream, grpc.unary_stream_rpc_method_handler),
        (True, False): (handler.stream_unary, grpc.stream_unary_rpc_method_handler),
        (True, True): (handler.stream_stream, grpc.stream_stream_rpc_method_handler),
    }
    behaviour, make = kinds[handler.request_streaming, handler.response_streaming]

    async def called(request: object, context: Context) -> object:
        await check(context)
        return await behaviour(request, context)

    async def streamed(request: object, context: Context) -> AsyncIterator[object]:
        await check(context)
        async for response in behaviour(request, context):
            yield response

    guarded: Any = streamed if inspect.isasyncgenfunction(behaviour) else called
    return make(
        guarded,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
