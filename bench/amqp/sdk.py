"""Sends of Azure's SDK: to Bendybus, and to a server that accepts at once and stores nothing.

A send to Bendybus may take as long as one to that server plus `FACTOR` times the least that a call
to a partition and its commit take, which the bare pipeline measures. All are measured alternately,
because the machine's speed drifts.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from bench import row
from bench.bare import measure as bare
from bench.bus import running
from bench.bus.running import Bus
from bench.loads import Loads
from bench.peers import peer
from bench.recorder import Recorder, Roles
from bench.row import Row
from bendybus.cli import endpoint

BUS: Final = "Azure's SDK, Bendybus"
MEMORY: Final = "Azure's SDK, in memory"
SINGLE: Final = "sdk_single"
SENDERS: Final = "sdk_senders"
LIMIT: Final = "sdk_single_limit"
FACTOR: Final = 1.6
SENDERS_COUNT: Final = 16
_SINGLE_TITLE: Final = "one awaited send at a time"
_SENDERS_TITLE: Final = f"{SENDERS_COUNT} senders in one process, each awaits its sends"


@dataclass(slots=True)
class _Place:
    """A server, and what was measured of it."""

    system: str
    connection_string: str
    roles: Roles
    commits: Callable[[], float] = lambda: 0.0
    """Returns how many commits there were so far."""
    took_s: list[float] = field(default_factory=list)
    commit_messages: list[float] = field(default_factory=list)
    """Messages of a commit while all senders send, of each repetition."""


def measure(bus: Bus, load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure both in turns, and what the limit is made of."""
    with (
        bare.serving("bench.amqp.memory_server", folder) as (memory_port, memory_pid),
        bare.servers(folder) as (bare_port, _),
        bare.serving("bench.bare.echo", folder) as (echo_port, _),
    ):
        memory = endpoint.local(f"127.0.0.1:{memory_port}")
        places = [
            _Place(MEMORY, memory, {"server": [[memory_pid]]}),
            _Place(BUS, bus.amqp_connection_string, bus.roles, bus.commits),
        ]
        recorders = [Recorder(each.system, each.roles) for each in places]
        bare_s, echo_s = list[float](), list[float]()
        for _ in range(load.repeats):
            for place, recorder in zip(places, recorders, strict=True):
                asyncio.run(_sends(place, recorder, load))
            bare_s += asyncio.run(bare.single_sends(bare_port, load.sdk_singles))
            echo_s += asyncio.run(bare.single_sends(echo_port, load.sdk_singles))
    for place, recorder in zip(places, recorders, strict=True):
        for each in row.latency_rows(place.system, SINGLE, _SINGLE_TITLE, place.took_s):
            emit(each)
        together = "1 a transfer"
        if place.commit_messages:
            together += f"; {statistics.median(place.commit_messages):.1f} a commit"
        emit(recorder.row(SENDERS, _SENDERS_TITLE, together))
    emit(limit_row(places[0].took_s, bare_s, echo_s))


def limit_row(
    memory_s: Sequence[float], bare_s: Sequence[float], round_trip_s: Sequence[float]
) -> Row:
    """Return the longest that a send to Bendybus may take at p50, and what it is made of."""
    memory, bare_send, round_trip = (
        1_000 * row.percentile(each, 0.5) for each in (memory_s, bare_s, round_trip_s)
    )
    limit = memory + FACTOR * (bare_send - round_trip)
    title = f"limit: {memory:.2f} + {FACTOR} x ({bare_send:.2f} bare - {round_trip:.2f} round trip)"
    return Row(BUS, LIMIT, title, "ms", [limit])


async def _sends(place: _Place, recorder: Recorder, load: Loads) -> None:
    async with ServiceBusClient.from_connection_string(place.connection_string) as client:
        senders = [client.get_queue_sender(running.QUEUE) for _ in range(SENDERS_COUNT)]
        # The first send connects, which takes the SDK half a second.
        await asyncio.gather(*(_send(each, 1) for each in senders))
        for _ in range(load.sdk_singles):
            began = time.perf_counter()
            await senders[0].send_messages(ServiceBusMessage(peer.BODY))
            place.took_s.append(time.perf_counter() - began)
        count, before = SENDERS_COUNT * load.sdk_senders_each, place.commits()
        with recorder.timing(SENDERS, count):
            await asyncio.gather(*(_send(each, load.sdk_senders_each) for each in senders))
        if commits := place.commits() - before:
            place.commit_messages.append(count / commits)
        await asyncio.gather(*(each.close() for each in senders))


async def _send(sender: ServiceBusSender, count: int) -> None:
    for _ in range(count):
        await sender.send_messages(ServiceBusMessage(peer.BODY))
