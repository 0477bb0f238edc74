"""Processes that are asked to end, and connections that grow old, under load."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import WITHIN_S, Bus, eventually
from tests.integration.traffic import Traffic, send_one


@pytest.fixture
def make_bus(tmp_path: Path) -> Iterator[Callable[..., Bus]]:
    """Return a function that starts a bus with the queue `orders`; it is ended with the test."""
    made: list[Bus] = []

    def make(**options: Any) -> Bus:
        bus = Bus(tmp_path / f"bus-{len(made)}", **options)
        made.append(bus)
        with bus.administration() as administration:
            administration.create_queue("orders")
        return bus

    yield make
    for bus in made:
        bus.end()


def test_an_idle_bus_with_a_connected_client_ends_in_a_moment(
    make_bus: Callable[..., Bus],
) -> None:
    bus = make_bus(partitions=2)
    with bus.client() as client, client.get_queue_receiver("orders") as receiver:
        send_one(client)
        receiver.complete_messages(receiver.receive_messages(1, max_wait_time=5))

        # Partitions first: the worse order, front ends hold their streams.
        took_s = [bus.partitions[index].terminate() for index in (1, 0)]
        took_s.append(bus.front_end.terminate())

    assert max(took_s) < 2.0
    wal = [path for path in bus.folder.glob("*.db-wal") if path.stat().st_size]
    assert wal == []


@pytest.mark.slow
def test_a_front_end_that_is_replaced_loses_nothing_and_shows_no_error(
    make_bus: Callable[..., Bus],
) -> None:
    bus = make_bus(partitions=2)
    # A new process may take longer to start than three tries do, on a machine that is busy.
    with (
        bus.client(retry_total=30) as client,
        Traffic(client, keyed=True) as traffic,
    ):
        for _ in range(3):
            traffic.goes_on()
            assert bus.front_end.terminate() < 4.0
            bus.start_front_end()
        traffic.goes_on()
    traffic.check()


@pytest.mark.slow
def test_a_partition_that_is_replaced_stops_no_keyless_traffic(
    make_bus: Callable[..., Bus],
) -> None:
    bus = make_bus(partitions=4)
    # Locks end with the process that held them: what was not settled by then comes again.
    with bus.client() as client, Traffic(client, locks_may_go=True) as traffic:
        for index in (1, 2):
            traffic.goes_on()
            bus.partitions[index].terminate()
            traffic.sent_more()
            bus.start_partition(index)
        traffic.goes_on()

    assert traffic.errors == [], repr(traffic.errors)
    with bus.client() as client, client.get_queue_receiver("orders") as receiver:
        while messages := receiver.receive_messages(100, max_wait_time=1):
            receiver.complete_messages(messages)
            traffic.received += map(str, messages)
    assert set(traffic.sent) <= set(traffic.received)


@pytest.mark.slow
def test_connections_that_grow_old_move_unseen(make_bus: Callable[..., Bus]) -> None:
    bus = make_bus(partitions=2, front_end_options=("--max-connection-age-s=1",))
    seen: set[str] = set()
    with (
        bus.client(retry_total=0) as client,
        Traffic(client, keyed=True) as traffic,
        bus.client(retry_total=0) as other,
        other.get_queue_receiver("orders") as receiver,
    ):
        port = int(bus.front_end_address.rsplit(":", 1)[1])
        ends_s = time.monotonic() + WITHIN_S
        # Two clients: each has moved at least twice then.
        while len(seen) < 8 and not traffic.errors and time.monotonic() < ends_s:
            messages = receiver.receive_messages(10, max_wait_time=3)
            receiver.complete_messages(messages)
            traffic.also(messages)
            seen.update(_connections_to(port))
    traffic.check()

    assert len(seen) >= 8


def test_new_connections_are_made_when_old_ones_have_their_age(
    make_bus: Callable[..., Bus],
) -> None:
    bus = make_bus(partitions=1, front_end_options=("--max-connection-age-s=1",))
    port = int(bus.front_end_address.rsplit(":", 1)[1])
    seen: set[str] = set()

    with bus.client() as client, Traffic(client):

        def three() -> bool:
            seen.update(_connections_to(port))
            return len(seen) >= 3

        eventually(three, what="a third connection")


def _connections_to(port: int) -> set[str]:
    """Return the other ends of established connections to a local port."""
    found = set()
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    for line in (line for table in tables for line in table.read_text().splitlines()[1:]):
        _, local, remote, state = line.split()[:4]
        if state == "01" and int(local.rsplit(":", 1)[1], 16) == port:
            found.add(remote)
    return found
