"""Measures AMQP 1.0: a Proton program, also with other brokers; and Azure's SDK."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import loads
from bench.amqp import brokers, clients, exchange, flat, sdk
from bench.amqp.exchange import Server
from bench.amqp.orders import Place
from bench.bus import running
from bench.loads import Loads
from bench.peers import peer
from bench.row import Row

SYSTEM: Final = "Bendybus, AMQP"


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure the SDK, then the Proton program with the bus and with others."""
    # Each with a bus of its own: the Proton program leaves a million messages behind.
    with _bus(folder / "sdk") as bus:
        sdk.measure(bus, load, folder, emit)
    with peer.skipping([SYSTEM], emit), _bus(folder / "proton") as bus:
        server = bus_server(bus)
        with clients.running(server.place) as processes:
            exchange.measure(server, load, processes, emit)
            flat.measure(server, load, processes, emit)
    brokers.measure(load, folder, emit)


@contextmanager
def _bus(folder: Path) -> Iterator[running.Bus]:
    folder.mkdir()
    with running.bus(folder, loads.PARTITIONS, running.PARTITION_SERVERS) as bus:
        yield bus


def bus_server(bus: running.Bus) -> Server:
    """Return the server that a bus is for Proton's clients. Judged is its front end."""
    # Every message is stored before it is accepted, whether it asks for that or not.
    place = Place(bus.amqp_address, running.QUEUE, durable=False, echoes=True)
    return Server(SYSTEM, place, bus.roles, "front end", commits=bus.commits)
