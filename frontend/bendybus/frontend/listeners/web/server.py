"""The HTTP server: its sockets, its connections, and its routes, on aiohttp.

    GET /                              what is served here; with a token, as all others
    GET /health                        200 or 503, with a JSON object; with a token, as all others
    GET /$servicebus/websocket         AMQP over WebSockets
    POST /ENTITY/messages, …           messages; see `message_paths`
    …                                  administration; see `administration`

Source: the health page is the emulator's.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

from aiohttp import web

from bendybus.domain.steps import Steps
from bendybus.frontend.core.quota.bounds import (
    KEEP_ALIVE_S,
    UNHEARD_BYTES_MAX,
    UNKNOWN_BYTES_MAX,
    UNTAKEN_BYTES,
    UNTAKEN_S,
)
from bendybus.frontend.core.quota.doors import Doors
from bendybus.frontend.core.quota.turns import Reading, Turns
from bendybus.frontend.listeners.accepting import BACKLOG, TlsPort
from bendybus.frontend.listeners.web import message_paths, requests, websockets
from bendybus.frontend.listeners.web.administration import Administration
from bendybus.frontend.listeners.web.messages import Messages
from bendybus.frontend.listeners.web.websockets import Admit
from bendybus.frontend.security.authenticator import Caller
from bendybus.wire import web_origin

HEALTH: Final = "/health"
_WELCOME: Final = f"""\
This is Bendybus, a service bus with the behaviour of Azure Service Bus.

  {HEALTH:26}is the bus healthy?
  {"/$servicebus/websocket":26}AMQP 1.0 over WebSockets, for clients of official SDKs
  /QUEUE/messages, ...      messages: docs/how-to/use-http.md
  /QUEUE, /TOPIC, ...       administration, for ServiceBusAdministrationClient

Messages and administration need a token where keys are checked. Clients of official SDKs
connect with a connection string: docs/how-to/use-the-azure-sdk.md says how.
"""
END_S: Final = 1.0
# Bodies stay compressed: a small one may be a thousand times its size, and aiohttp decompresses it
# before it is known who sends it.
_CONNECTION: Final[Mapping[str, Any]] = {
    "access_log": None,
    "auto_decompress": False,
    "keepalive_timeout": KEEP_ALIVE_S,
    "lingering_time": END_S,
}
# What the header Server says; aiohttp's own tells the versions of what the server is made of.
_NAME: Final = "Bendybus"
_NOT_HTTP: Final = (
    "the request is not valid HTTP/1.1: it is malformed, it lacks the header Host, or its URL or a "
    "header is longer than 8190 bytes."
)
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Paced:
    """The transport that aiohttp sees: aiohttp and `Reading` both pause the same one."""

    def __init__(
        self,
        transport: asyncio.Transport,
        go_on: Callable[[], None],
        paused: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._go_on = go_on
        self._paused = paused
        # By aiohttp.
        self.paused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def pause_reading(self) -> None:
        """Take no more, as aiohttp has enough."""
        self.paused = True
        self._transport.pause_reading()
        self._paused()

    def resume_reading(self) -> None:
        """Go on."""
        self.paused = False
        self._go_on()


class Guard(asyncio.Protocol):
    """A connection of the HTTP server: read in turns, closed if a request does not come in time.

    Added because aiohttp reads all that comes at once, which takes a millisecond for 100 small
    pieces of a body; waits without a limit for the first request, and for the rest of one that has
    begun; and buffers a WebSocket message until it is complete.
    """

    def __init__(self, server: "HttpServer", handler: web.RequestHandler) -> None:
        self._server = server
        self._handler = handler
        self._size_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._paced: _Paced | None = None
        self._reading = Reading(self, server.turns, self._take, self._taken_on, self._waits)
        self._answering = False
        # A connection that was not made has ended.
        self._ended = True
        # Whether the client has presented a valid token in this request.
        self.is_known = False
        # Set while the connection carries AMQP: called when output is written.
        self.written: Callable[[], None] | None = None
        # Whether the client sends nothing more.
        self._ended_input = False
        # The caller of the request that waits for a message.
        self.waits: Caller | None = None
        # Called at the end of the connection.
        self.at_end: list[Callable[[], None]] = []
        # Called with the number of bytes that came; False: there is no room for them.
        self.arrived: Callable[[int], bool] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self._transport = made = cast(asyncio.Transport, transport)
        self._ended = False
        made.set_write_buffer_limits(high=UNTAKEN_BYTES)
        self._paced = _Paced(made, self._go_on, self._enough)
        # aiohttp uses nothing of a transport that this one lacks.
        self._handler.connection_made(cast(asyncio.Transport, self._paced))
        if self._server.take(self._handler, self):
            self._expect()
        else:
            self.abort()

    @property
    def has_ended(self) -> bool:
        """Whether there is no connection any more, so that `at_end` is not called."""
        return self._ended

    def abort(self) -> None:
        """Close the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def heard(self) -> None:
        """Take note of a request."""
        self._answering, self._size_bytes, self.is_known = True, 0, False
        self._expect_no_more()

    def known(self, policy: str) -> None:
        """Take note that the client has presented a valid token, of a policy."""
        self.is_known = True
        self._reading.stranger, self._reading.policy = False, policy
        self._server.doors.known(self)

    def answered(self) -> None:
        """Take note that a request is answered; the rest of its body may still come."""
        self._answering, self._size_bytes = False, 0

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, unless a client without a valid token has sent too many.

        While a request is answered aiohttp itself pauses its client, but for messages of
        WebSockets, which it keeps until they are complete.
        """
        self._size_bytes += len(data)
        if not self._answering and self._timer is None:
            self._expect()
        is_websocket = self.written is not None
        most = UNKNOWN_BYTES_MAX if is_websocket else UNHEARD_BYTES_MAX
        paused = self._answering and not is_websocket
        has_room = self.arrived is None or self.arrived(len(data))
        if not has_room or not (paused or self._size_bytes <= most or self.is_known):
            self.abort()
            return
        self._reading.received(data)
        if self._reading.paused:
            # Even if aiohttp has just resumed reading.
            self.pause_reading()

    # Turns

    async def own_turn(self) -> None:
        """Begin a turn for what a request makes the loop do."""
        await self._reading.own_turn()

    @contextlib.contextmanager
    def waiting(self, caller: Caller, expired: Callable[[], None]) -> Iterator[None]:
        """Take note that a request waits for a message, as long as the block lasts.

        `expired` is called if its token expires meanwhile. The connection ends with its client
        meanwhile, and with so much behind the request that aiohttp stops reading: then the end of
        the client would not be seen.
        """
        if self._ended_input or (self._paced is not None and self._paced.paused):
            self.abort()
            raise ConnectionResetError("the client has gone, or sends too much behind a request")
        self.waits = caller
        timer: asyncio.TimerHandle | None = None
        if caller.good_until_s is not None:
            left_s = max(0.0, caller.good_until_s - time.time())
            timer = asyncio.get_running_loop().call_later(left_s, expired)
        try:
            yield
        finally:
            self.waits = None
            if timer is not None:
                timer.cancel()

    async def do(self, steps: Steps[T]) -> T:
        """Do work of a request in steps, in turns of its connection; return its result."""
        return await self._reading.do(steps)

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take(self, data: bytes) -> bool:
        if self._transport is not None and not self._transport.is_closing():
            self._handler.data_received(data)
        return False

    def _taken_on(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _waits(self, _: int) -> bool:
        return self._paced is not None and self._paced.paused

    def _enough(self) -> None:
        """Take note that aiohttp has read enough behind a request."""
        if self.waits is not None:
            self.abort()

    def _go_on(self) -> None:
        if self._reading.paused:
            self._reading.go_on()
        else:
            self.resume_reading()

    # asyncio.Protocol

    def eof_received(self) -> bool | None:
        """Pass it on; a client that waits for an answer may still read it, but not over TLS.

        One whose request waits for a message has gone, as far as anyone can tell.
        """
        self._handler.eof_received()
        self._ended_input = True
        tls = self._transport is None or self._transport.get_extra_info("sslcontext") is not None
        has_asked = self._answering or self._size_bytes > 0
        if tls or not has_asked or self.waits is not None or self.written is not None:
            return None
        # After what it has asked for.
        self._handler.close()
        return True

    def pause_writing(self) -> None:
        """Pass it on; close a connection of which nothing is taken for too long."""
        self._handler.pause_writing()
        if self.written is None and self._transport is not None:
            self._untaken = asyncio.get_running_loop().call_later(UNTAKEN_S, self._transport.abort)

    def resume_writing(self) -> None:
        """Pass it on; everything is written."""
        self._taken()
        self._handler.resume_writing()
        if self.written is not None:
            self.written()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Take note of the end."""
        self._expect_no_more()
        self._taken()
        self._server.forget(self._handler)
        self._handler.connection_lost(exc)
        self._ended = True
        at_end, self.at_end = self.at_end, []
        for each in at_end:
            each()

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def _expect(self) -> None:
        """Close the connection unless a whole request arrives in time."""
        assert self._transport is not None, "it is made"
        self._timer = asyncio.get_running_loop().call_later(
            self._server.request_s, self._transport.abort
        )

    def _expect_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Connection(web.RequestHandler):
    """A connection of aiohttp; what aiohttp itself answers has the form of all other errors."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to what is not HTTP, or to a request that the front end failed on.

        Raises ConnectionError if a response has begun.
        """
        sentence = _NOT_HTTP
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # Logs it, unless the client has gone. Anyone can send what is not HTTP, which is not.
            if not isinstance(exc, ConnectionError):
                super().handle_error(request, status, exc, message)
            sentence = "the front end failed on this request; its log says why."
        made = requests.http_error_response(status, sentence)
        made.headers["Server"] = _NAME
        made.force_close()
        return made

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write a response; one of aiohttp's own in the form of all others."""
        if isinstance(resp, web.HTTPException):
            sentence = "there is nothing at this URL."
            if resp.status != HTTPStatus.NOT_FOUND:
                sentence = f"the request is refused: {resp.reason}."
            resp = requests.http_error_response(resp.status, sentence)
        return await super().finish_response(request, resp, start_time)


async def _named(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = _NAME


class HttpServer:
    """A server for these routes. `request_s`: how long the headers of a request may take.

    `names`: where no key is checked, the host names that web pages may use beside those of this
    machine, see `web_origin`; None: keys are checked.
    """

    def __init__(
        self,
        admit: Admit,
        healthy: Callable[[], bool],
        administration: Administration,
        messages: Messages,
        turns: Turns,
        *,
        connections_max: int,
        request_s: float,
        names: Collection[str] | None = None,
    ) -> None:
        self.request_s = request_s
        self.turns = turns
        self._names = names
        self._admit = admit
        self._healthy = healthy
        self._administration = administration
        self._messages = messages
        self._connections_max = connections_max
        self.doors: Doors[Guard] = Doors(connections_max)
        self._guards: dict[web.RequestHandler, Guard] = {}
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=END_S)
        self._ports: list[asyncio.Server | TlsPort] = []

    async def start(self) -> None:
        """Get ready for connections. Call it before all others."""
        await self._runner.setup()

    def protocol(self) -> Guard:
        """Return what handles a new connection."""
        handlers = self._runner.server
        assert handlers is not None, "it is started"
        loop = asyncio.get_running_loop()
        return Guard(self, _Connection(handlers, loop=loop, **_CONNECTION))

    async def open(self, address: str, tls: ssl.SSLContext | None) -> int:
        """Listen at HOST:PORT; return the port."""
        if tls is not None:
            port = TlsPort(
                self.protocol,
                tls,
                connections_max=self._connections_max,
                handshake_s=self.request_s,
            )
            self._ports.append(port)
            return await port.open(address)
        host, _, number = address.rpartition(":")
        server = await asyncio.get_running_loop().create_server(
            self.protocol, host.strip("[]"), int(number), backlog=BACKLOG
        )
        self._ports.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    def take(self, handler: web.RequestHandler, guard: Guard) -> bool:
        """Take note of a connection; return whether there are not too many."""
        if not self.doors.room():
            return False
        self.doors.enter(guard, guard.abort)
        self._guards[handler] = guard
        return True

    def forget(self, handler: web.RequestHandler) -> None:
        """Take note that a connection is gone."""
        guard = self._guards.pop(handler, None)
        if guard is not None:
            self.doors.leave(guard)

    def recheck(self) -> None:
        """End requests that wait with tokens that are no longer good."""
        self._messages.recheck()

    def stop_listening(self) -> None:
        """Accept no more connections, and let no request wait for messages."""
        self._messages.stop()
        for port in self._ports:
            port.close()

    async def close(self) -> None:
        """Close the open connections. Call `stop_listening` first."""
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        made = web.Application(middlewares=[self._guarded])
        made.router.add_get("/", self._welcome)
        made.router.add_get(HEALTH, self._health)
        made.router.add_get(websockets.ROUTE, self._websocket)
        made.router.add_route("*", r"/{_:[\s\S]*}", self._serve, expect_handler=requests.expects)
        made.on_response_prepare.append(_named)
        return made

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        guard = self._guard(request)
        guard.heard()
        # Parsing it was a turn; answering it is another one.
        await guard.own_turn()
        try:
            if self._names is not None:
                origins = request.headers.getall("Origin", None)
                origin = None if origins is None else ",".join(origins)
                why = web_origin.refusal(request.headers.get("Host"), origin, self._names)
                if why is not None:
                    return requests.http_error_response(HTTPStatus.FORBIDDEN, why)
            return await handler(request)
        finally:
            guard.answered()

    async def _welcome(self, request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            return await self._administer(request)
        return web.Response(text=_WELCOME)

    async def _health(self, request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            # Of a client of an SDK, to which this is the name of a queue or topic.
            return await self._administer(request)
        if self._healthy():
            return web.json_response({"status": "healthy", "message": "Service is healthy."})
        said = {"status": "unhealthy", "message": "No partition answers."}
        return web.json_response(said, status=503)

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        return await websockets.serve(request, self._admit, self._guard(request))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = message_paths.parse(request.method, request.rel_url.raw_path)
        if path is not None:
            return await self._messages.handle(request, path, self._guard(request))
        return await self._administer(request)

    async def _administer(self, request: web.Request) -> web.StreamResponse:
        return await self._administration.handle(request, self._guard(request).known)

    def _guard(self, request: web.Request) -> Guard:
        # One that was closed meanwhile guards nothing.
        return self._guards.get(request.protocol) or Guard(self, request.protocol)
