"""Runs the same Proton program against other AMQP 1.0 brokers: Artemis and RabbitMQ."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.amqp import clients, exchange
from bench.amqp.exchange import Server
from bench.amqp.orders import Place
from bench.loads import Loads
from bench.peers import artemis, peer, rabbitmq
from bench.row import Row

ARTEMIS: Final = "ActiveMQ Artemis, AMQP"
RABBITMQ: Final = {"RabbitMQ classic, AMQP 1.0": "classic", "RabbitMQ quorum, AMQP 1.0": "quorum"}
# Of RabbitMQ 3; 4 speaks AMQP 1.0 by itself, and has an empty plug-in of this name.
PLUGIN: Final = "rabbitmq_amqp1_0"
# Artemis 2.44 answers rcv-settle-mode `second` with `first`, RabbitMQ 3.10 refuses it.
NO_ECHO: Final = "settlements are unconfirmed"
_WARM_UP: Final = 2


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure each that can be started."""
    with peer.skipping([ARTEMIS], emit):
        _artemis(load, folder, emit)
    with peer.skipping(RABBITMQ, emit):
        _rabbitmq(load, folder, emit)


def _artemis(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    here = folder / "artemis"
    here.mkdir()
    with artemis.server(load, here, "AMQP") as (port, pid):
        place = Place(f"127.0.0.1:{port}", peer.NAME, durable=True, echoes=False)
        roles = {"server": [[pid]]}
        server = Server(ARTEMIS, place, roles, "server", NO_ECHO, warm_up=_WARM_UP)
        _exchange(server, load, emit)


def _rabbitmq(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    here = folder / "rabbitmq"
    here.mkdir()
    with rabbitmq_server(here) as (port, pids):
        for system, kind in RABBITMQ.items():
            rabbitmq.declare(port, kind)
            place = Place(
                f"127.0.0.1:{port}", f"/amq/queue/{peer.NAME}-{kind}", durable=True, echoes=False
            )
            _exchange(Server(system, place, {"server": [pids]}, "server", NO_ECHO), load, emit)


@contextmanager
def rabbitmq_server(
    folder: Path, plugins: Sequence[str] = (PLUGIN,), settings: Sequence[str] = ()
) -> Iterator[tuple[int, list[int]]]:
    """Run RabbitMQ with AMQP 1.0; give its port, and its processes. Raises UnavailableError."""
    peer.require_client("pika")
    if peer.program("rabbitmq-server") is None:
        raise peer.UnavailableError("not installed: apt install rabbitmq-server")
    with rabbitmq.server(folder, plugins, settings) as found:
        yield found


def _exchange(server: Server, load: Loads, emit: Callable[[Row], None]) -> None:
    with clients.running(server.place) as processes:
        exchange.measure(server, load, processes, emit)
