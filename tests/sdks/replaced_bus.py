"""A bus whose front ends are replaced behind one address: what a rolling upgrade is to programs."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bendybus.client.management import ServiceBusAdministrationClient
from tests.azure_sdk.live_bus import AMQPS_PORT, HTTPS_PORT
from tests.integration.amqp import AmqpBus
from tests.integration.balancer import Balancer
from tests.integration.processes import Bus
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, free_port, loopback_address

PARTITIONS: Final = 2


class ReplacedBus:
    """The bus. `ca_file`: what its clients trust; empty if it has no TLS. Options: those of `Bus`.

    With TLS it is at the ports that SDKs know: 5671, and 443 for WebSockets.
    """

    def __init__(self, folder: Path, *, tls: bool = False, **options: Any) -> None:
        self.connection_string = self.ca_file = ""
        self._stack = ExitStack()
        self._balancers: list[Balancer] = []
        options = {"partitions": PARTITIONS, **options}
        try:
            if tls:
                self._start_with_tls(folder, options)
            else:
                self._start(folder, options)
        except BaseException:
            self.end()
            raise

    def create_queues(self, names: Sequence[str]) -> None:
        """Create queues."""
        with self._administration as administration:
            for name in names:
                administration.create_queue(name)

    def replace_front_end(self) -> None:
        """Start a front end; when it is ready, new connections go there, and the old one ends."""
        old = self._bus.front_end
        listens = self._bus.start_front_end_elsewhere([each.target for each in self._balancers])
        for balancer, target in zip(self._balancers, listens, strict=True):
            balancer.target = target
        old.terminate()

    def restart_partition(self, index: int) -> None:
        """Stop the server of a partition, and start it again."""
        self._bus.partitions[index].terminate()
        self._bus.start_partition(index)

    def end(self) -> None:
        """End all processes."""
        self._stack.close()

    def _start(self, folder: Path, options: Mapping[str, Any]) -> None:
        bus = AmqpBus(folder, **options)
        self._stack.callback(bus.end)
        self._serves(bus, {f"{HOST}:0": bus.amqp_address})
        address = self._balancers[0].address
        self.connection_string = bus.connection_string.replace(bus.front_end_address, address)
        self._administration: ServiceBusAdministrationClient = bus.administration()

    def _start_with_tls(self, folder: Path, options: Mapping[str, Any]) -> None:
        address = loopback_address(AMQPS_PORT, HTTPS_PORT)
        amqps, https = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
        secured = SecuredBus(
            folder,
            addresses=(HOST, address),
            **options,
            front_end_options=(
                f"--amqps-listen={amqps}",
                f"--http-listen={https}",
                *options.get("front_end_options", ()),
            ),
        )
        self._stack.callback(secured.end)
        ports = {f"{address}:{AMQPS_PORT}": amqps, f"{address}:{HTTPS_PORT}": https}
        self._serves(secured.bus, ports)
        self.connection_string = (
            f"Endpoint=sb://{address};SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}"
        )
        self.ca_file = str(secured.ca_file)
        self._administration = secured.administration()

    def _serves(self, bus: Bus, targets: Mapping[str, str]) -> None:
        self._bus = bus
        self._balancers = [
            self._stack.enter_context(Balancer(target, address))
            for address, target in targets.items()
        ]
