"""Measures connections that each await one message at a time: the bus, and AMQP brokers beside it.

The same Proton program with each server, in the same run; in its place our own client over gRPC,
and bare sockets over HTTP, to RabbitMQ's management interface, too.
Judged is the processor time of all processes of the server, which other programs of the machine
change less than the rate.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import processes
from bench.amqp import brokers, clients
from bench.amqp.exchange import cpu_s
from bench.amqp.measure import bus_server
from bench.amqp.orders import Place
from bench.amqp.orders import Role as Bulk
from bench.bus import running
from bench.loads import Loads
from bench.many import http_worker, workers
from bench.many.http_worker import RabbitMq, ServiceBus
from bench.many.orders import REPLIES, Role
from bench.many.workers import Workers
from bench.marks import MANY, MANY_HTTP, MANY_OWN, RABBITMQ_HTTP
from bench.peers import artemis, peer, rabbitmq
from bench.recorder import Roles
from bench.row import Row

PARTITIONS: Final = (4, 1, 16)
_FRONT_END: Final = "front end"
TITLES: Final = {
    Role.SEND: "send, accepted",
    Role.RECEIVE: "receive, settled",
    Role.REQUEST: "request, reply",
}
# Messages that wait when receives begin, for each second that these take. The measurement of a
# server that gives more ends with the last one.
_FILL_A_SECOND: Final = 8_000
_FILL_LIMIT_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server to measure, with all its processes. `suffix`: of its rows' names."""

    system: str
    roles: Roles
    suffix: str = ""
    note: str = ""


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure the bus with 4, 1 and 16 partitions, then the brokers."""
    with peer.skipping([MANY], emit):
        for partitions in PARTITIONS:
            here = folder / f"bus-{partitions}"
            here.mkdir()
            servers = min(partitions, running.PARTITION_SERVERS)
            with running.bus(here, partitions, servers) as bus:
                _bus(load, bus, partitions, emit)
    with peer.skipping([brokers.ARTEMIS], emit):
        here = folder / "artemis"
        here.mkdir()
        with artemis.server(load, here, "AMQP") as (port, pid):
            place = Place(f"127.0.0.1:{port}", peer.NAME, durable=True, echoes=False)
            server = Server(brokers.ARTEMIS, {"server": [[pid]]}, "", brokers.NO_ECHO)
            _place(load, server, place, emit)
    with peer.skipping(brokers.RABBITMQ, emit):
        _rabbitmq(load, folder / "rabbitmq", emit)
    with peer.skipping([RABBITMQ_HTTP], emit):
        _rabbitmq_over_http(load, folder / "rabbitmq-http", emit)


def _bus(load: Loads, bus: running.Bus, partitions: int, emit: Callable[[Row], None]) -> None:
    place = bus_server(bus).place
    words = f"{partitions} partition{'s' if partitions > 1 else ''}"
    _place(load, Server(MANY, bus.roles, f"_{partitions}", words), place, emit)
    if partitions != PARTITIONS[0]:
        return
    server = Server(MANY_OWN, bus.roles, f"_{partitions}", words)
    with (
        workers.over_grpc(bus.connection_string, running.QUEUE) as many,
        clients.running(place) as filling,
    ):
        _run(load, server, many, filling, (Role.SEND, Role.RECEIVE), emit)
    server = Server(MANY_HTTP, bus.roles, f"_{partitions}", words)
    with (
        workers.over_http(place.address, ServiceBus(running.QUEUE)) as many,
        clients.running(place) as filling,
    ):
        _run(load, server, many, filling, (Role.SEND, Role.RECEIVE), emit)


def _rabbitmq(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    folder.mkdir()
    with brokers.rabbitmq_server(folder) as (port, pids):
        for system, kind in brokers.RABBITMQ.items():
            for suffix in ("", REPLIES):
                rabbitmq.declare(port, kind, suffix)
            queue = f"/amq/queue/{peer.NAME}-{kind}"
            place = Place(f"127.0.0.1:{port}", queue, durable=True, echoes=False)
            _place(load, Server(system, {"server": [pids]}, "", brokers.NO_ECHO), place, emit)


def _rabbitmq_over_http(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure its management interface, the only one over HTTP that it sends and receives with."""
    folder.mkdir()
    web_port = processes.free_port()
    settings = [
        "management.tcp.ip = 127.0.0.1",
        f"management.tcp.port = {web_port}",
        # Else it closes each connection after 1,000 requests.
        "management.tcp.max_keepalive = 100000000",
    ]
    plugins = [brokers.PLUGIN, "rabbitmq_management"]
    with brokers.rabbitmq_server(folder, plugins, settings) as (port, pids):
        name = rabbitmq.declare(port, "classic")
        address, dialect = f"127.0.0.1:{web_port}", RabbitMq(name)
        asyncio.run(http_worker.serves(address, dialect, peer.BODY))
        place = Place(f"127.0.0.1:{port}", f"/amq/queue/{name}", durable=True, echoes=False)
        server = Server(RABBITMQ_HTTP, {"server": [pids]}, "", "classic queue; deleted when read")
        with workers.over_http(address, dialect) as many, clients.running(place) as filling:
            _run(load, server, many, filling, (Role.SEND, Role.RECEIVE), emit)


def _place(load: Loads, server: Server, place: Place, emit: Callable[[Row], None]) -> None:
    with workers.over_amqp(place) as many, clients.running(place) as filling:
        # Requests first: nothing else may wait in their queues.
        _run(load, server, many, filling, (Role.REQUEST, Role.SEND, Role.RECEIVE), emit)


def _run(
    load: Loads,
    server: Server,
    many: Workers,
    filling: clients.Clients,
    roles: tuple[Role, ...],
    emit: Callable[[Row], None],
) -> None:
    """Measure each number of connections, each role by itself."""
    # A JVM compiles what runs often; and what the first connections pay for is no message's.
    many.run(many.attach(roles[0], load.many[-1], load.many_s))
    for role in roles:
        if role is Role.RECEIVE:
            filling.attach(Bulk.SEND, count=round(_FILL_A_SECOND * load.many_s * len(load.many)))
            filling.run(_FILL_LIMIT_S)
        for connections in load.many:
            if role is not Role.REQUEST or connections > 1:
                _once(load, server, many, role, connections, emit)


def _once(
    load: Loads,
    server: Server,
    many: Workers,
    role: Role,
    connections: int,
    emit: Callable[[Row], None],
) -> None:
    taking = many.attach(role, connections, load.many_s)
    every = [group for groups in server.roles.values() for group in groups]
    front = server.roles.get(_FRONT_END, [])
    before_s, front_before_s = cpu_s(every), cpu_s(front)
    report = many.run(taking)
    used_s, count = cpu_s(every) - before_s, len(report.took_s)
    front_s = cpu_s(front) - front_before_s
    what = f"many_{role.name.lower()}_{connections}{server.suffix}"
    title = f"{TITLES[role]}, {connections} connection{'s' if connections > 1 else ''}"
    title += f", {server.note}" if server.note and server.note != brokers.NO_ECHO else ""
    note = f"p50 {report.milliseconds(0.5):.2f} ms, p99 {report.milliseconds(0.99):.1f} ms"
    if server.note == brokers.NO_ECHO and role is not Role.SEND:
        note += f"; {server.note}"
    emit(Row(server.system, what, title, "/s", [count / report.lasted_s], "1", note=note))
    cost_us = [1e6 * used_s / count] if count else []
    emit(Row(server.system, f"{what}_cpu", f"{title}: all processes", "µs CPU", cost_us))
    if _FRONT_END in server.roles:
        cost_us = [1e6 * front_s / count] if count else []
        emit(Row(server.system, f"{what}_front_cpu", f"{title}: front end", "µs CPU", cost_us))
