"""Official SDKs: sends one after the other, and lists of many queues.

Sends are measured in turns with the same SDK on a server that accepts at once and stores nothing.
The programs are those of the tests.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from azure.servicebus.management import ServiceBusAdministrationClient as Azure

from bench import loads, row
from bench.bare import measure as bare
from bench.bus import running
from bench.bus.running import Bus
from bench.loads import Loads
from bench.peers import peer
from bench.peers.peer import UnavailableError
from bench.row import Row
from bendybus.cli import endpoint
from bendybus.client.aio.management import ServiceBusAdministrationClient
from tests.sdks.programs import PROGRAMS, Program

_CREATED_AT_ONCE: Final = 16
_SENDS: Final = "one awaited send at a time"


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure the sends of each SDK, then the lists of each."""
    with running.bus(folder, loads.PARTITIONS, running.PARTITION_SERVERS) as bus:
        built = []
        for each in PROGRAMS:
            with peer.skipping([f"SDK for {each.sdk}"], emit):
                _build(each)
                built.append(each)
        with bare.serving("bench.amqp.memory_server", folder) as (memory_port, _):
            memory = endpoint.local(f"127.0.0.1:{memory_port}")
            for each in built:
                _sends(each, bus, memory, load, emit)
        asyncio.run(_create(bus, load.listed))
        _list("python", _timed_list(bus), load, emit)
        for each in built:
            _list(each.sdk, each.timed(bus.amqp_connection_string, bus.ca_file, "list"), load, emit)


def _build(program: Program) -> None:
    try:
        program.built()
    except AssertionError as error:
        raise UnavailableError(str(error).splitlines()[0]) from error


def _sends(
    program: Program, bus: Bus, memory: str, load: Loads, emit: Callable[[Row], None]
) -> None:
    places = {"in memory": memory, "Bendybus": bus.amqp_connection_string}
    took: dict[str, list[float]] = {name: [] for name in places}
    for _ in range(load.repeats):
        for name, connection_string in places.items():
            took[name] += program.timed(
                connection_string, bus.ca_file, "sends", running.QUEUE, str(load.sdk_singles)
            )
    for name, seconds in took.items():
        system = f"SDK for {program.sdk}, {name}"
        for each in row.latency_rows(system, "sdk_sends", _SENDS, seconds):
            emit(each)


async def _create(bus: Bus, count: int) -> None:
    """Create queues until the bus has `count` of them."""
    names = (f"listed-{number:05}" for number in range(count - len(running.QUEUES)))
    async with ServiceBusAdministrationClient.from_connection_string(
        bus.connection_string
    ) as administration:

        async def create() -> None:
            for name in names:
                await administration.create_queue(name)

        await asyncio.gather(*(create() for _ in range(_CREATED_AT_ONCE)))


def _timed_list(bus: Bus) -> list[float]:
    with Azure.from_connection_string(
        bus.amqp_connection_string, connection_verify=bus.ca_file
    ) as azure:
        azure.get_namespace_properties()
        began = time.perf_counter()
        count = sum(1 for _ in azure.list_queues())
        return [time.perf_counter() - began, count]


def _list(sdk: str, timed: list[float], load: Loads, emit: Callable[[Row], None]) -> None:
    seconds, count = timed
    assert count == load.listed, f"{sdk} listed {count:.0f} of {load.listed} queues"
    title = f"list {load.listed:,} queues, with their counts"
    emit(Row(f"SDK for {sdk}, Bendybus", "sdk_list", title, "s", [seconds]))
