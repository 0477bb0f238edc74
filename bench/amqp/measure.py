"""Measures AMQP 1.0: a Proton program, also with other brokers; and Azure's SDK."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import loads
from bench.amqp import brokers, clients, exchange, flat
from bench.amqp.exchange import Server
from bench.amqp.orders import Place
from bench.bus import running
from bench.loads import Loads
from bench.peers import peer
from bench.row import Row

SYSTEM: Final = "Bendybus, AMQP"


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure the bus, then the others, in one run."""
    with (
        peer.skipping([SYSTEM], emit),
        running.bus(folder, loads.PARTITIONS, running.PARTITION_SERVERS) as bus,
    ):
        server = bus_server(bus)
        with clients.running(server.place) as processes:
            exchange.measure(server, load, processes, emit)
            flat.measure(server, load, processes, emit)
    brokers.measure(load, folder, emit)


def bus_server(bus: running.Bus) -> Server:
    """Return the server that a bus is for Proton's clients. Judged is its front end."""
    # Every message is stored before it is accepted, whether it asks for that or not.
    place = Place(bus.amqp_address, running.QUEUE, durable=False, echoes=True)
    return Server(SYSTEM, place, bus.roles, "front end", commits=bus.commits)
