"""The listeners beside gRPC, as the settings name them: AMQP, HTTP, and ports that all share.

Who has none of them does not load them.
"""

import ssl
from typing import TYPE_CHECKING, Final

from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.security.authenticator import Authenticator
from bendybus.frontend.settings import Settings
from bendybus.wire import readiness, serving, tls, web_origin

if TYPE_CHECKING:
    import grpc

    from bendybus.frontend.listeners.amqp.listener import AmqpListener
    from bendybus.frontend.listeners.web.server import HttpServer

_LOOPBACK: Final = "127.0.0.1"
# Files of a shared port: a connection that is not known yet, and three of one that is spliced.
_SHARED_FILES: Final = 1 + 3


def files_each(settings: Settings) -> int:
    """Return how many files a front end may have open for each of `max_connections`.

    Each protocol may have so many connections, and so may each shared port; and so many may be in
    their handshake at each port with TLS.
    """
    shared = len(settings.shared_listen)
    amqp = any((settings.amqp_listen, settings.amqps_listen, settings.http_listen, shared))
    http = any((settings.http_listen, shared))
    tls_ports = [settings.amqps_listen, settings.tls_directory and settings.http_listen]
    return 1 + amqp + http + sum(map(bool, tls_ports)) + _SHARED_FILES * shared


class BesideGrpc:
    """The listeners of one front end. Order: `share`, `open`, `close`."""

    def __init__(
        self,
        settings: Settings,
        front_end: FrontEnd,
        authenticator: Authenticator,
        directory: tls.Directory | None,
    ) -> None:
        self._settings = settings
        self._front_end = front_end
        self._authenticator = authenticator
        self._directory = directory
        self._context = None if directory is None else tls.server_context(directory)
        own = serving.tls_directory(settings.shared_tls_directory)
        self._shared_directory = own or directory
        self._shared_context: ssl.SSLContext | None = None
        self._amqp: AmqpListener | None = None
        self._web: HttpServer | None = None
        # Where the gRPC server takes what comes through shared ports.
        self._grpc = ""
        if any((settings.amqp_listen, settings.amqps_listen, self._has_http)):
            from bendybus.frontend.listeners.amqp import client_connection, idle_limits, listener

            idle = idle_limits.IdleLimits() if settings.amqp_idle_limits else None
            self._amqp = listener.AmqpListener(
                front_end,
                authenticator,
                connections_max=settings.max_connections,
                times=client_connection.Times(idle=idle),
            )

    @property
    def _has_http(self) -> bool:
        return bool(self._settings.http_listen or self._settings.shared_listen)

    def share(self, server: "grpc.aio.Server") -> None:
        """Let a gRPC server, not started yet, take what comes through shared ports."""
        if self._settings.shared_listen:
            self._grpc = f"{_LOOPBACK}:{server.add_insecure_port(f'{_LOOPBACK}:0')}"

    async def open(self) -> None:
        """Listen. Raises CannotListen."""
        settings, amqp = self._settings, self._amqp
        if amqp is None:
            return
        for address, context in (
            (settings.amqp_listen, None),
            (settings.amqps_listen, self._context),
        ):
            if address:
                with readiness.listening(address):
                    await amqp.open(address, context)
        if not self._has_http:
            return
        http = await self._http(amqp)
        if settings.http_listen:
            with readiness.listening(settings.http_listen):
                await http.open(settings.http_listen, self._context)
        if settings.shared_listen:
            await self._open_shared(amqp, http)

    async def _http(self, amqp: "AmqpListener") -> "HttpServer":
        # Imported only when used: aiohttp is larger than all the rest.
        from bendybus.frontend.listeners.web.administration import Administration
        from bendybus.frontend.listeners.web.messages import Messages
        from bendybus.frontend.listeners.web.server import HttpServer

        names = web_origin.given_names(self._settings.host_names)
        made = HttpServer(
            amqp.admit,
            self._front_end.ready,
            Administration(self._front_end, self._authenticator),
            Messages(self._front_end, self._authenticator),
            self._front_end.quota.turns,
            connections_max=self._settings.max_connections,
            request_s=amqp.times.first_s,
            names=None if self._authenticator.required else names,
        )
        await made.start()
        amqp.serve_also(made)
        self._web = made
        return made

    async def _open_shared(self, amqp: "AmqpListener", http: "HttpServer") -> None:
        from bendybus.frontend.listeners import shared_port
        from bendybus.frontend.listeners.amqp.listener import AmqpProtocol

        if self._shared_directory is not None:
            self._shared_context = tls.server_context(self._shared_directory)
            self._shared_context.set_alpn_protocols(shared_port.ALPN)
        for address in self._settings.shared_listen:
            port = shared_port.SharedPort(
                lambda: AmqpProtocol(amqp),
                http.protocol,
                self._grpc,
                connections_max=self._settings.max_connections,
                known_s=amqp.times.first_s,
                strangers=self._front_end.quota.strangers,
            )
            with readiness.listening(address):
                await port.open(address, self._shared_context)
            amqp.serve_also(port)

    async def close(self) -> None:
        """Close all connections."""
        if self._amqp is not None:
            await self._amqp.close(self._settings.drain_s)

    def recheck(self) -> None:
        """Detach AMQP links, and end receives over HTTP, whose tokens are no longer good."""
        if self._amqp is not None:
            self._amqp.recheck()
        if self._web is not None:
            self._web.recheck()

    def renew(self) -> None:
        """Use the certificates that are there now."""
        for context, directory in (
            (self._context, self._directory),
            (self._shared_context, self._shared_directory),
        ):
            if context is not None and directory is not None:
                tls.renew(context, directory)
