"""The client processes with many connections that `make bench` measures, against a bus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import loads, marks
from bench.amqp.clients import ClientError
from bench.amqp.measure import bus_server
from bench.amqp.orders import Place
from bench.bus import running
from bench.many import measure, workers
from bench.many.orders import Role
from bench.row import Row

pytestmark = pytest.mark.integration
SECONDS = 0.5


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[running.Bus]:
    with running.bus(tmp_path, partitions=4, servers=1) as bus:
        yield bus


def test_each_connection_awaits_one_message_at_a_time(bus: running.Bus) -> None:
    with workers.over_amqp(bus_server(bus).place) as many:
        for role in Role:
            report = many.run(many.attach(role, 6, SECONDS))

            assert len(report.took_s) > 6
            assert 0 < report.lasted_s <= 2 * SECONDS
            # Six at a time, and never more: their times fill the time that all took.
            at_a_time = 3 if role is Role.REQUEST else 6
            assert sum(report.took_s) <= at_a_time * (report.lasted_s + 0.1)


def test_our_own_client_does_the_same_over_grpc(bus: running.Bus) -> None:
    with workers.over_grpc(bus.connection_string, running.QUEUE) as many:
        sent = many.run(many.attach(Role.SEND, 3, SECONDS))
        received = many.run(many.attach(Role.RECEIVE, 3, SECONDS))

    assert len(sent.took_s) > 3
    assert len(received.took_s) > 3


def test_rows_have_a_rate_its_times_and_the_cost_of_all_processes(bus: running.Bus) -> None:
    rows: list[Row] = []
    load = loads.Loads(many=(1, 4), many_s=SECONDS)

    measure._bus(load, bus, 4, rows.append)

    whats = {row.what for row in rows if row.system == marks.MANY}
    assert {"many_send_1_4", "many_send_4_4_cpu", "many_receive_1_4", "many_request_4_4"} <= whats
    assert all(row.median > 0 for row in rows)
    assert all("p50" in row.note for row in rows if not row.what.endswith("_cpu"))


def test_a_queue_that_does_not_exist_is_an_error_with_the_reason_of_the_server(
    bus: running.Bus,
) -> None:
    place = Place(bus.amqp_address, "no-such-queue", durable=False, echoes=True)

    with workers.over_amqp(place) as many, pytest.raises(ClientError, match="amqp:not-found"):
        many.run(many.attach(Role.SEND, 2, SECONDS))
