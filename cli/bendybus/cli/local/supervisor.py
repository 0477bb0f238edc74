"""`bendybus up`: the processes of one local bus, from start to end.

Start: lock the folder → identity → partition servers → front ends → manifests → ready. End: front
ends first, so that nothing is accepted that partitions could not store; then partition servers.
Each child has one task; a child that never comes to serve stops everything with its own words.
"""

import asyncio
import errno
import ipaddress
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from bendybus.cli import endpoint
from bendybus.cli.errors import CliError, NotFound, UsageError
from bendybus.cli.local import control, data_directory, programs
from bendybus.cli.local.child import READY_S, Child, Start
from bendybus.cli.local.data_directory import Identity
from bendybus.cli.local.programs import FRONTEND, PARTITION_SERVER, Programs

_LOG_CHECK_S: Final = 10.0
_KILLED_S: Final = 5.0
# As many processes as any machine has a use for.
FRONT_ENDS_MAX: Final = 16
_WHY_NOT: Final = {
    errno.EACCES: "is only for programs with more privileges",
    errno.EADDRNOTAVAIL: "cannot be used: --host is not an address of this machine",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What `up` was asked for. A port 0: any free one."""

    data: Path
    process_count: int
    port: int = endpoint.PORT_DEFAULT
    # How many front ends, at `port` and the ports after it.
    front_ends: int = 1
    # That of the first front end; None: the usual one where it is free.
    amqp_port: int | None = None
    # That of another such port of the first front end, for HTTP; None: nowhere.
    http_port: int | None = None
    # The address at which front ends listen; partition servers listen on loopback.
    host: str = programs.HOST
    # Clients find the front ends only after `publish`: until then, nothing listens at these ports.
    publish_late: bool = False
    # Other names of this machine that clients use, for the certificate.
    host_names: Sequence[str] = ()
    programs: Programs = field(default_factory=Programs)


class Supervisor:
    """The processes of one bus; the caller holds the lock of the data directory."""

    def __init__(self, settings: Settings, identity: Identity) -> None:
        self._settings = settings
        self._identity = identity
        self._children: list[Child] = []
        self._tasks: asyncio.TaskGroup | None = None
        self._control = ""
        # The address of each partition, and whether they are chosen for good.
        self._peers: dict[int, str] = {}
        # The port of each front end for official SDKs, and the other one for HTTP.
        self._amqp: dict[int, str] = {}
        self._http: dict[int, str] = {}
        self._telling = False
        self._serving = False
        self._public = not settings.publish_late
        self._stop = asyncio.Event()

    async def run(self, when_ready: Callable[["Supervisor"], Awaitable[None]]) -> None:
        """Start everything, call `when_ready`, and run until `stop`.

        Raises CliError when a process does not come to serve.
        """
        try:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                stack.push_async_callback(self._serve_nothing)
                starting = tasks.create_task(self._start(stack, when_ready), name="start")
                await self._stop.wait()
                starting.cancel()
                await self._end()
        except BaseExceptionGroup as group:
            raise _first(group) from group
        finally:
            for child in self._children:
                child.kill()
            data_directory.remove_run(self._settings.data)

    def stop(self) -> None:
        """End: politely the first time, at once the second."""
        if self._stop.is_set():
            for child in self._children:
                child.kill()
        self._stop.set()

    async def publish(self) -> None:
        """Let the front ends listen where clients look for them: the entities are there now.

        What waits for a port or for /health would else go on before they are.
        """
        if self._public:
            return
        self._public = True
        fronts = [child for child in self._children if child.role == FRONTEND]
        for child in fronts:
            child.hold()
            await child.down.wait()
            child.choose_again()
            child.release()
        await self._all_ready()

    def facts(self) -> dict[str, Any]:
        """Return what run.json holds."""
        fronts = [
            endpoint.reachable(child.address) for child in self._children if child.role == FRONTEND
        ]
        amqp = _in_order(self._amqp)
        return {
            # Of the first; each of the others serves the same bus.
            "connection_string": endpoint.local(fronts[0]),
            "endpoint": fronts[0],
            "endpoints": fronts,
            # The same bus for the official SDKs.
            "amqp_connection_string": endpoint.local(amqp[0]) if amqp else "",
            "amqp_endpoints": amqp,
            "http_endpoints": _in_order(self._http),
            # What their administration clients must trust, which use TLS.
            "ca_file": str(self._settings.data / data_directory.CA_FILE),
            "data": str(self._settings.data),
            "namespace": self._identity.namespace.name,
            "control": self._control,
            "processes": [child.facts() for child in self._children],
            "metrics": {child.name: child.metrics for child in self._fronts_first()},
        }

    def _fronts_first(self) -> list[Child]:
        return sorted(self._children, key=lambda child: child.role != FRONTEND)

    def logs(self) -> dict[int, Path]:
        """Return where the process of each partition writes its log."""
        return {
            partition: self._log(child.name)
            for child in self._children
            for partition in child.partitions
        }

    async def _start(
        self, stack: AsyncExitStack, when_ready: Callable[["Supervisor"], Awaitable[None]]
    ) -> None:
        await self._serve_control(stack)
        await self._start_partition_servers()
        await self._start_frontends()
        self._serving = True
        self._changed()
        await when_ready(self)
        while True:
            await asyncio.sleep(_LOG_CHECK_S)
            for child in self._children:
                child.keep_log_small()

    async def _serve_control(self, stack: AsyncExitStack) -> None:
        # Not in a folder for temporary files: there an `up` that is killed would leave it behind.
        path = self._settings.data.absolute() / "control"
        try:
            server = await control.serve(path, self._answer)
        except OSError:
            # Paths of sockets end at about 100 characters, and not every volume has sockets.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bendybus-"))
            path = Path(folder) / "control"
            server = await control.serve(path, self._answer)
        path.chmod(0o600)
        stack.callback(path.unlink, missing_ok=True)
        stack.callback(server.close)
        self._control = str(path)

    async def _serve_nothing(self) -> None:
        self._serving = False

    async def _start_partition_servers(self) -> None:
        namespace = self._identity.namespace
        dealt = programs.deal_partitions(namespace.partition_count, self._settings.process_count)
        # Chosen before the first one starts, since each is told all of them.
        for partitions in dealt:
            self._peers.update(dict.fromkeys(partitions, f"{programs.HOST}:{programs.free_port()}"))
        tried: set[tuple[int, ...]] = set()
        moved: set[tuple[int, ...]] = set()
        for number, partitions in enumerate(dealt):

            def choose(partitions: tuple[int, ...] = partitions) -> Start:
                if partitions in tried and not self._telling:
                    # Another process took the port meanwhile.
                    moved.add(partitions)
                    self._peers.update(
                        dict.fromkeys(partitions, f"{programs.HOST}:{programs.free_port()}")
                    )
                tried.add(partitions)
                return self._partition_server(partitions)

            self._add(
                Child(
                    f"partition-server-{number}",
                    PARTITION_SERVER,
                    partitions=partitions,
                    choose=choose,
                    log=self._log(f"partition-server-{number}"),
                    on_change=self._changed,
                )
            )
        await self._all_ready()
        if moved:
            await self._tell_peers()

    async def _tell_peers(self) -> None:
        """Start partition servers again, which know addresses that are no longer right."""
        self._telling = True
        for child in self._children:
            child.hold()
            await child.down.wait()
            child.choose_again()
            child.release()
        await self._all_ready()

    def _partition_server(self, partitions: tuple[int, ...]) -> Start:
        listen, metrics_port = self._peers[partitions[0]], programs.free_port()
        command = self._settings.programs.partition_server_command(
            self._identity,
            data=self._settings.data,
            partitions=partitions,
            listen=listen,
            metrics_port=metrics_port,
            peers=self._peers,
        )
        return Start(listen, command, _metrics_url(metrics_port))

    async def _start_frontends(self) -> None:
        addresses = {
            partition: child.address for child in self._children for partition in child.partitions
        }
        # Here, since only `up` pays for importing it.
        from bendybus.cli.local import certificate

        settings = self._settings
        await asyncio.to_thread(certificate.ensure, settings.data, settings.host_names)
        count = settings.front_ends
        for first in filter(None, (settings.port, settings.amqp_port, settings.http_port)):
            programs.reserve(first, count)
        for number in range(count):
            name = FRONTEND if count == 1 else f"{FRONTEND}-{number}"
            self._add(
                Child(
                    name,
                    FRONTEND,
                    partitions=(),
                    choose=partial(self._frontend, number, addresses),
                    log=self._log(name),
                    on_change=self._changed,
                )
            )
        await self._all_ready()

    def _frontend(self, number: int, addresses: Mapping[int, str]) -> Start:
        """Return how to start a front end.

        Clients have its port, so that it is the one asked for; those for health and metrics come
        after the ports of all front ends where they are free.
        """
        first, count = self._settings.port, self._settings.front_ends
        if not self._public:
            return self._hidden_frontend(addresses)
        listen = self._listen(first + number if first else programs.free_port())
        metrics_port = programs.port_near(first, count + 2 * number + 1)
        command = self._settings.programs.frontend_command(
            addresses,
            listen=listen,
            health_listen=f"{programs.HOST}:{programs.port_near(first, count + 2 * number)}",
            metrics_port=metrics_port,
            shared_listen=[
                each for each in (self._amqp_address(number), self._http_address(number)) if each
            ],
            tls_directory=self._settings.data / data_directory.TLS,
            created_at=self._identity.created_at,
        )
        return Start(listen, command, _metrics_url(metrics_port))

    def _hidden_frontend(self, addresses: Mapping[int, str]) -> Start:
        """Return how to start a front end that only this process knows."""
        listen = f"{programs.HOST}:{programs.free_port()}"
        command = self._settings.programs.frontend_command(
            addresses, listen=listen, health_listen="", metrics_port=0
        )
        return Start(listen, command)

    def _listen(self, port: int) -> str:
        host = self._settings.host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _amqp_address(self, number: int) -> str:
        """Return where a front end has the port for official SDKs."""
        usual = None if self._settings.amqp_port is not None else endpoint.AMQP_PORT
        return self._address(self._amqp, number, self._settings.amqp_port, usual)

    def _http_address(self, number: int) -> str:
        """Return where a front end has another such port; "": nowhere."""
        wanted = self._settings.http_port
        return "" if wanted is None else self._address(self._http, number, wanted)

    def _address(
        self, known: dict[int, str], number: int, wanted: int | None, usual: int | None = None
    ) -> str:
        """Return an address of a front end, which is kept; another one if it is taken meanwhile.

        `wanted`: the port of the first front end; `usual`: one to take if it is free.
        """
        last = known.get(number)
        if wanted:
            port = wanted + number
        elif last and programs.is_free_port(int(last.rpartition(":")[2]), self._settings.host):
            return last
        elif usual is not None:
            port = programs.port_near(usual, number)
        else:
            port = programs.free_port()
        known[number] = self._listen(port)
        return known[number]

    def _add(self, child: Child) -> None:
        assert self._tasks is not None
        self._children.append(child)
        self._tasks.create_task(child.run(), name=child.name)

    async def _all_ready(self) -> None:
        # Each child has its own deadline for the ready line; this is the fence behind it.
        async with asyncio.timeout(READY_S + 10):
            for child in self._children:
                await child.ready.wait()

    def _log(self, name: str) -> Path:
        folder = self._settings.data / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    def _changed(self) -> None:
        if self._serving and not self._stop.is_set():
            # Processes come and go even when the disk is full: an old run.json does less harm
            # than a bus that ends for it.
            with suppress(CliError):
                data_directory.write_run(self._settings.data, self.facts())

    async def _end(self) -> None:
        """The order of the end, in one place."""
        fronts = [child for child in self._children if child.role == FRONTEND]
        others = [child for child in self._children if child.role != FRONTEND]
        await asyncio.gather(*(child.end() for child in fronts))
        await asyncio.gather(*(child.end() for child in others))

    async def _answer(self, request: control.Facts) -> control.Facts:
        match request.get("action"):
            case "ps":
                return {"processes": [child.live_facts() for child in self._children]}
            case "stop":
                return await self._hold(self._host_of(request.get("partition")))
            case "start":
                return await self._start_again(self._host_of(request.get("partition")))
            case other:
                raise CliError(f"Unknown action: {other!r}.")

    async def _hold(self, child: Child) -> control.Facts:
        pid = child.pid
        child.hold()
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_S):
                await child.down.wait()
        return {"partitions": list(child.partitions), "pid": pid}

    async def _start_again(self, child: Child) -> control.Facts:
        child.release()
        try:
            async with asyncio.timeout(READY_S):
                await child.ready.wait()
        except TimeoutError as error:
            raise CliError(f"{child.name} is not ready yet; see its log.") from error
        return {"partitions": list(child.partitions), "pid": child.pid}

    def _host_of(self, partition: object) -> Child:
        for child in self._children:
            if partition in child.partitions and not isinstance(partition, bool):
                return child
        last = self._identity.namespace.partition_count - 1
        raise NotFound(f"Partition {partition} does not exist; this bus has 0 to {last}.")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to show to the user."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _in_order(addresses: Mapping[int, str]) -> list[str]:
    """Return where clients on this machine find the front ends, the first one first."""
    return [endpoint.reachable(address) for _, address in sorted(addresses.items())]


def _metrics_url(port: int) -> str:
    return f"http://{programs.HOST}:{port}/metrics"


def check_host(host: str) -> None:
    """Raise UsageError unless `host` is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise UsageError(
            f"--host: {host!r} is not an IP address. Give one of this machine, or 0.0.0.0 for "
            "all of them."
        ) from error


def check_ports(
    port: int, front_ends: int = 1, *, option: str = "--port", host: str = programs.HOST
) -> None:
    """Raise UsageError or CliError unless the front ends can listen there."""
    if not 1 <= front_ends <= FRONT_ENDS_MAX:
        raise UsageError(f"--front-ends: {front_ends} is outside 1 to {FRONT_ENDS_MAX}.")
    if not 0 <= port <= programs.PORT_MAX:
        raise UsageError(f"{option}: {port} is outside 0 to {programs.PORT_MAX}.")
    if port and port + front_ends - 1 > programs.PORT_MAX:
        raise UsageError(
            f"{option}: {front_ends} front ends need ports {port} to {port + front_ends - 1}, and "
            f"{programs.PORT_MAX} is the last. Choose a lower one."
        )
    for each in range(port, port + front_ends) if port else ():
        if error := programs.why_not(each, host):
            raise CliError(
                f"Port {each} {_WHY_NOT.get(error, 'is taken')}. "
                f"Choose another with {option} (0: any free one)."
            )


def check_listeners(ports: Mapping[str, int | None], front_ends: int, host: str) -> None:
    """Raise UsageError or CliError unless the front ends can listen at all of these ports.

    `ports`: by option, that of the first front end; None: none is asked for.
    """
    check_host(host)
    checked: dict[str, int] = {}
    for option, port in ports.items():
        check_ports(port or 0, front_ends, option=option, host=host)
        for other, taken in checked.items():
            if port and taken and abs(port - taken) < front_ends:
                raise UsageError(
                    f"{option}: port {max(port, taken)} is needed for {other}. "
                    "Choose another (0: any free one)."
                )
        checked[option] = port or 0
