"""`bendybus up`: the processes of one local bus, from start to end.

Start: lock the folder → identity → partition servers → front ends → manifests → ready. End: front
ends first, so that nothing is accepted that partitions could not store; then partition servers.
Each child has one task; a child that never comes to serve stops everything with its own words.
"""

import asyncio
import errno
import tempfile
from collections.abc import Awaitable, Callable, Mapping
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
_AMQP_OPTION: Final = "--amqp-port"
_WHY_NOT: Final = {errno.EACCES: "is only for programs with more privileges"}


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
        # Where each front end speaks AMQP.
        self._amqp: dict[int, str] = {}
        self._telling = False
        self._serving = False
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

    def facts(self) -> dict[str, Any]:
        """Return what run.json holds."""
        fronts = [child.address for child in self._children if child.role == FRONTEND]
        return {
            # Of the first; each of the others serves the same bus.
            "connection_string": endpoint.local(fronts[0]),
            "endpoint": fronts[0],
            "endpoints": fronts,
            # The same bus for the official SDKs.
            "amqp_connection_string": endpoint.local(self._amqp[0]),
            "amqp_endpoints": [address for _, address in sorted(self._amqp.items())],
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

        await asyncio.to_thread(certificate.ensure, self._settings.data)
        count = self._settings.front_ends
        for first in filter(None, (self._settings.port, self._settings.amqp_port)):
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
        listen = f"{programs.HOST}:{first + number if first else programs.free_port()}"
        metrics_port = programs.port_near(first, count + 2 * number + 1)
        command = self._settings.programs.frontend_command(
            addresses,
            listen=listen,
            shared_listen=self._amqp_address(number),
            tls_directory=self._settings.data / data_directory.TLS,
            health_listen=f"{programs.HOST}:{programs.port_near(first, count + 2 * number)}",
            metrics_port=metrics_port,
        )
        return Start(listen, command, _metrics_url(metrics_port))

    def _amqp_address(self, number: int) -> str:
        """Return where a front end speaks AMQP; another address if the last one is taken."""
        wanted, last = self._settings.amqp_port, self._amqp.get(number)
        if wanted:
            port = wanted + number
        elif last and programs.is_free_port(int(last.rpartition(":")[2])):
            return last
        elif wanted is None:
            port = programs.port_near(endpoint.AMQP_PORT, number)
        else:
            port = programs.free_port()
        self._amqp[number] = f"{programs.HOST}:{port}"
        return self._amqp[number]

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


def _metrics_url(port: int) -> str:
    return f"http://{programs.HOST}:{port}/metrics"


def check_ports(port: int, front_ends: int = 1, *, option: str = "--port") -> None:
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
        if error := programs.why_not(each):
            raise CliError(
                f"Port {each} {_WHY_NOT.get(error, 'is taken')}. "
                f"Choose another with {option} (0: any free one)."
            )


def check_amqp_ports(amqp_port: int, port: int, front_ends: int) -> None:
    """Raise UsageError or CliError unless the front ends can speak AMQP there, beside `port`."""
    check_ports(amqp_port, front_ends, option=_AMQP_OPTION)
    if port and amqp_port and abs(amqp_port - port) < front_ends:
        raise UsageError(
            f"{_AMQP_OPTION}: port {max(amqp_port, port)} is needed for --port. "
            f"Choose another (0: any free one)."
        )
