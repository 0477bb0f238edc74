"""The client processes that `make bench` measures AMQP with, against a bus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import loads
from bench.amqp import clients, flat, measure
from bench.amqp.clients import ClientError
from bench.amqp.exchange import Server
from bench.amqp.orders import Place, Role
from bench.bus import running
from bench.row import Row

pytestmark = pytest.mark.integration
COUNT = 1_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running.bus(tmp_path, partitions=1, servers=1) as bus:
        yield measure.bus_server(bus)


def test_all_that_is_sent_is_received_and_settled_with_dispositions_of_either_kind(
    server: Server,
) -> None:
    with clients.running(server.place) as processes:
        for receive in (Role.RECEIVE, Role.RECEIVE_JOINED):
            for role in (Role.SEND, receive):
                processes.attach(role, count=COUNT)

                assert processes.run(60) == COUNT
                assert processes.done() == COUNT


def test_a_run_of_some_time_gives_figures_of_its_quarters(server: Server) -> None:
    rows: list[Row] = []
    load = loads.Loads(amqp_s=2.0)

    with clients.running(server.place) as processes:
        flat.measure(server, load, processes, rows.append)

    assert {row.what for row in rows if len(row.values) == flat.QUARTERS} == {
        "amqp_in_flat", "amqp_in_flat_cpu", "amqp_out_flat", "amqp_out_flat_cpu"
    }  # fmt: skip
    assert all(value > 0 for row in rows for value in row.values)


def test_a_queue_that_does_not_exist_is_an_error_with_the_reason_of_the_server(
    server: Server,
) -> None:
    place = Place(server.place.address, "no-such-queue", durable=False, echoes=True)

    with clients.running(place) as processes:
        processes.attach(Role.SEND, count=1)

        with pytest.raises(ClientError, match="amqp:not-found"):
            processes.run(10)
