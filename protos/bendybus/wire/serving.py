"""What every gRPC server of the bus does the same way: limits, health, reflection, logs, the end.

Used by the partition server and the front end; clients never import this. `Health` is
grpc.health.v1 with bounds: it needs no credentials, so its cost is limited. The servicer of
grpcio-health-checking keeps a lock while it writes to a watcher: one that does not read would keep
the state of the server from ever changing. Here a slow watcher delays only itself, and the number
of watchers is limited.
"""

import asyncio
import gc
import ipaddress
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from bendybus.domain import limits
from bendybus.wire import readiness, tls

logger = logging.getLogger(__name__)
# Kubernetes sets it in every container.
IN_A_POD: Final = "KUBERNETES_SERVICE_HOST"
HEALTH_SERVICE: Final = "grpc.health.v1.Health"
# Files and connections of a process besides those of its callers.
FILES_SPARE: Final = 128
# A question about health is a name.
HEALTH_BYTES_MAX: Final = 4 * 1024
# Calls under way on one connection to the port of health, and those whose answers are not read.
HEALTH_CALLS_MAX: Final = 8
# Lines of libraries in a while; each may be a traceback.
LIBRARY_LINES_MAX: Final = 20
LIBRARY_EVERY_S: Final = 10.0
# A service name of grpc.health.v1 that is SERVING as long as the event loop answers.
LIVE: Final = "live"
HEALTH_STOP_S: Final = 0.2
# Calls under way on one connection; a stream is one. As many as a queue may have receivers.
CONNECTION_CALLS_MAX: Final = limits.RECEIVERS_PER_ENTITY
OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", limits.GRPC_FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", limits.GRPC_FRAME_BYTES_MAX),
    # Two processes never share a port by accident.
    ("grpc.so_reuseport", 0),
    # What a stream may send ahead of its reader. Where gRPC measures that itself, it is many MB:
    # twenty streams whose requests came too fast took 340 MB of a front end.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", limits.MB),
    # Clients behind a NAT may ping; a dead peer is noticed.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A kilobyte of gzip is a megabyte, and gRPC unpacks before it checks the size. Our clients do
    # not compress; others get UNIMPLEMENTED. Bit 0: uncompressed bodies.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Pings are answered, however many. Where they are counted, a connection that sends too many is
    # to be closed when all is written, which is never while it sends; each ping adds an error of
    # 3 KB to those that wait.
    ("grpc.http2.max_ping_strikes", 0),
    # Calls of one connection, also those that the caller has reset and the server not yet ended:
    # without it 30,000 a second are taken and wait, 10 KB each.
    ("grpc.max_concurrent_streams", CONNECTION_CALLS_MAX),
    # For callers that connect and do not speak HTTP/2.
    ("grpc.server_handshake_timeout_ms", 20_000),
]
_RECONNECT_MS_MAX: Final = 2_000
_PEER_OPTIONS: Final[list[tuple[str, int]]] = [
    *OPTIONS,
    # A pool of its own: streams that must not block each other do not share a connection.
    ("grpc.use_local_subchannel_pool", 1),
    # A pod comes back under another address.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS_MAX),
    # http_proxy in the environment is for the web, not for the bus.
    ("grpc.enable_http_proxy", 0),
]
_WATCHERS_MAX: Final = 64
Context = grpc.aio.ServicerContext[Any, Any]
Status = Any
_Response = health_pb2.HealthCheckResponse


def options(request_bytes_max: int) -> list[tuple[str, int]]:
    """Return the options of a server whose requests are at most so large."""
    name = "grpc.max_receive_message_length"
    return [*(each for each in OPTIONS if each[0] != name), (name, request_bytes_max)]


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message and the fields given as `extra`."""

    _KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            # Libraries attach whole objects; a line of ours holds words and numbers.
            if name not in self._KNOWN and isinstance(value, str | int | float):
                facts[name] = value
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts, default=str)


class LibraryLines(logging.Filter):
    """Lets through so many lines of gRPC and asyncio in a while: callers can cause them at will."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._began_s = -LIBRARY_EVERY_S
        self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a line; the next one logged has the number suppressed."""
        if not record.name.startswith(("grpc", "asyncio")):
            return True
        now_s = self._clock()
        if now_s - self._began_s >= LIBRARY_EVERY_S:
            record.unsaid = max(0, self._lines - LIBRARY_LINES_MAX)
            self._began_s, self._lines = now_s, 0
        self._lines += 1
        return self._lines <= LIBRARY_LINES_MAX


def configure_logging(level: str) -> None:
    """Send JSON lines to standard error; called once, by a process's main."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(LibraryLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class Health(health_pb2_grpc.HealthServicer):
    """The state of a server and its services."""

    def __init__(self, watchers_max: int = _WATCHERS_MAX) -> None:
        self._statuses: dict[str, Status] = {}
        self._changed = asyncio.Event()
        self._watchers_max = watchers_max
        self.watchers = 0

    async def set(self, service: str, status: Status) -> None:
        """Set the state of a service, "" is the server, and notify watchers."""
        self._statuses[service] = status
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(self, request: Any, context: Context) -> Any:
        """Return the state of a service; NOT_FOUND for an unknown name."""
        status = self._statuses.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        return _Response(status=status)

    async def Watch(self, request: Any, context: Context) -> AsyncGenerator[Any, None]:
        """Return the state of a service, now and whenever it changes."""
        if self.watchers >= self._watchers_max:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"at most {self._watchers_max} watches are served at a time; use Check.",
            )
        self.watchers += 1
        try:
            async for response in self.changes(request.service):
                yield response
        finally:
            self.watchers -= 1

    async def changes(self, service: str) -> AsyncGenerator[Any, None]:
        """Yield the state of a service, now and whenever it changes; the caller bounds how many."""
        shown: Status = None
        while True:
            changed = self._changed
            status = self._statuses.get(service, _Response.SERVICE_UNKNOWN)
            if status != shown:
                yield _Response(status=status)
                shown = status
            await changed.wait()


async def add_health_and_reflection(
    server: grpc.aio.Server, services: Sequence[str], servicer: Health | None = None
) -> Health:
    """Add grpc.health.v1 and reflection; everything is NOT_SERVING until `set_serving`."""
    servicer = servicer or Health()
    # Its own beginning is SERVING: a pod would be sent clients before its port is open.
    await set_serving(servicer, services, False)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    names = (*services, HEALTH_SERVICE, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    return servicer


def open_port(
    server: grpc.aio.Server,
    listen: str,
    directory: tls.Directory | None,
    *,
    demand_client_certificate: bool,
) -> int:
    """Open the port of a server, with TLS if there is a directory for it; return its number."""
    if directory is None:
        host = listen.rpartition(":")[0]
        if not is_loopback(host):
            logger.warning(
                "listening at %s WITHOUT TLS: anyone who can connect can read and change the "
                "traffic, including keys; use --tls-directory, or listen at 127.0.0.1",
                listen,
                extra={"action": "plain-text"},
            )
        with readiness.listening(listen):
            return int(server.add_insecure_port(listen))
    credentials = tls.server_credentials(
        directory, demand_client_certificate=demand_client_certificate
    )
    with readiness.listening(listen):
        return int(server.add_secure_port(listen, credentials))


def connections_max(wanted: int, files_each: int = 1) -> int:
    """Return how many connections a server may take: `wanted`, or what the machine has files for.

    `files_each`: how many files it has open for each at most, where several listeners may take so
    many. Without files left it could neither take nor make any connection.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * files_each + FILES_SPARE
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        while soft < most:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
                break
            except (OSError, ValueError):
                # macOS has a limit of its own for a process, which may be lower.
                most //= 2
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - FILES_SPARE) // files_each))


def metrics_host(given: str, listen: str, env: Mapping[str, str]) -> str:
    """Return where `/metrics` listens; they name entities and count their messages.

    Beyond loopback only where the NetworkPolicies of the operator, or of the chart, say who may
    read them, or where somebody chose the host.
    """
    host = listen.rsplit(":", 1)[0]
    if given or IN_A_POD in env or is_loopback(host):
        return given or host
    return "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name counts as reachable by others."""
    if host == "localhost" or host.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def start_health(listen: str, servicer: Health) -> grpc.aio.Server:
    """Answer health, and nothing else, in plain text at `listen`; "": nowhere.

    A server of its own: what the other port demands of callers must have no way around it.
    """
    name = "grpc.max_concurrent_streams"
    kept = [each for each in options(HEALTH_BYTES_MAX) if each[0] != name]
    server = grpc.aio.server(options=[*kept, (name, HEALTH_CALLS_MAX)])
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    await servicer.set(LIVE, health_pb2.HealthCheckResponse.SERVING)
    if listen:
        with readiness.listening(listen):
            server.add_insecure_port(listen)
    await server.start()
    return server


def tls_directory(path: Path | None) -> tls.Directory | None:
    """Return the files of a process's TLS; None: it speaks plain text. Raises TlsError."""
    return None if path is None else tls.Directory(path)


async def set_serving(servicer: Health, services: Sequence[str], serving: bool) -> None:
    """Set the health of the server ("") and of its services."""
    status = health_pb2.HealthCheckResponse
    value = status.SERVING if serving else status.NOT_SERVING
    for name in ("", *services):
        await servicer.set(name, value)


def freeze_imports() -> None:
    """Keep what was imported out of every search for garbage. Call it before serving.

    A full search looks at all objects, and those of the imported modules are the most of them: a
    tenth of a partition server's processor time under sends.
    """
    gc.freeze()


def exit_with_parent() -> None:
    """End this process when its standard input is closed: the parent is gone."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def leave(code: int) -> NoReturn:
    """End the process at once, when everything of ours is closed.

    gRPC's own threads may take two more seconds to end after there was TLS, for nothing.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def run_until_signal(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main`, setting its event at SIGTERM or SIGINT: stop is an event, not a cancellation."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await main(stop)
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        # A task group also wraps what its own body raises, such as CannotListen.
        raise group.exceptions[0] from group


def peer_channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    """Return a channel; in plain text without credentials."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=_PEER_OPTIONS)
    return grpc.aio.secure_channel(address, credentials, options=_PEER_OPTIONS)
