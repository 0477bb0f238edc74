"""The bus under test: partitions, two front ends, and lines before each of them."""

import random
import signal
from pathlib import Path
from typing import Final

from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain.limits import Tier
from tests.chaos.lines import Line, Lines
from tests.integration.processes import Process
from tests.ports import HOST, free_port

PARTITIONS: Final = 3
FRONT_ENDS: Final = 2


class Cluster:
    """All processes of one bus and the lines between them; every part can be broken alone.

    `beside`: the source of another version. Whatever starts is of it, or of this version, by
    `seed`: so versions are mixed, and parts go forward and back under load.
    """

    def __init__(self, folder: Path, beside: Path | None = None, seed: int = 0) -> None:
        self.folder = folder
        self._beside = beside
        self._chance = random.Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = Lines()
        self._listen = {name: f"{HOST}:{free_port()}" for name in self.names()}
        # Where front ends speak AMQP.
        self._amqp = [f"{HOST}:{free_port()}" for _ in range(FRONT_ENDS)]
        self.processes: dict[str, Process] = {}
        self.line: dict[str, Line] = {}
        # By front end.
        self.amqp_line: dict[str, Line] = {}
        try:
            for name in self.names():
                self.line[name] = self.lines.add(name, self._listen[name])
            for index, address in enumerate(self._amqp):
                name = f"front-end-{index}"
                self.amqp_line[name] = self.lines.add(f"{name}, AMQP", address)
            self.start_all()
        except BaseException:
            self.end()
            raise

    @staticmethod
    def names() -> list[str]:
        """Return the names of the processes: partitions first."""
        partitions = [f"partition-{index}" for index in range(PARTITIONS)]
        return [*partitions, *(f"front-end-{index}" for index in range(FRONT_ENDS))]

    def start_all(self) -> None:
        """Start all processes, none of which runs."""
        for name in self.names():
            self.start(name, wait=False)
        for process in self.processes.values():
            process.ready()

    def start(self, name: str, *, wait: bool = True) -> None:
        """Start a process at the address that it always had."""
        role, _, index = name.rpartition("-")
        common = (f"--listen={self._listen[name]}",)
        if role == "partition":
            options: tuple[str, ...] = (
                *("bendybus.partition_server", "serve", f"--data={self.folder}"),
                # Plain entities beside partitioned ones: what these forward crosses partitions.
                *("--namespace-name=chaos", "--namespace-uid=uid", f"--tier={Tier.STANDARD}"),
                *(f"--partition-count={PARTITIONS}", f"--partitions={index}"),
                *(
                    f"--peer={n}={self.line[f'partition-{n}'].address}"
                    for n in range(PARTITIONS)
                    if n != int(index)
                ),
            )
        else:
            through = [
                f"--partition={n}={self.line[f'partition-{n}'].address}" for n in range(PARTITIONS)
            ]
            amqp = f"--amqp-listen={self._amqp[int(index)]}"
            options = ("bendybus.frontend", "serve", amqp, *through)
        log = self.folder / f"{name}.log"
        tree = self._beside if self._beside and self._chance.random() < 0.5 else None
        self.processes[name] = Process(*options, *common, log=log, wait=wait, tree=tree)

    def kill(self, name: str) -> None:
        """End a process as a power cut would; nothing if it is down."""
        if name in self.processes:
            self.processes.pop(name).kill()

    def stop(self, name: str) -> None:
        """Let a process stand still."""
        self.processes[name].signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let a process go on."""
        if name in self.processes:
            self.processes[name].signal(signal.SIGCONT)

    def ended_in_order(self, name: str) -> None:
        """Ask a process to end, and wait for it."""
        if name in self.processes:
            process = self.processes.pop(name)
            process.signal(signal.SIGTERM)
            try:
                process.server.wait(30)
            finally:
                process.end()

    def front_end_address(self, front_end: int) -> str:
        """Return the address of a front end's line."""
        return self.line[f"front-end-{front_end}"].address

    def connection_string(self, front_end: int) -> str:
        """Return what clients of a front end need; they go through its line."""
        return self.connection_string_of(self.front_end_address(front_end))

    def amqp_connection_string(self, front_end: int) -> str:
        """Return what the official SDKs need; they go through a line, too."""
        return self.connection_string_of(self.amqp_line[f"front-end-{front_end}"].address)

    def lines_to(self, name: str) -> list[Line]:
        """Return the lines before a process."""
        amqp = [self.amqp_line[name]] if name in self.amqp_line else []
        return [self.line[name], *amqp]

    @staticmethod
    def connection_string_of(address: str) -> str:
        """Return what clients of an address need."""
        return (
            f"Endpoint=sb://{address};"
            "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=local;"
            "UseDevelopmentEmulator=true"
        )

    def administration(self) -> ServiceBusAdministrationClient:
        """Return an administration client."""
        return ServiceBusAdministrationClient.from_connection_string(self.connection_string(0))

    def end(self) -> None:
        """End everything."""
        for process in self.processes.values():
            process.end()
        self.lines.close()
