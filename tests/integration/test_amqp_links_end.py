"""What becomes of messages that were on their way to a client as its link ended."""

import signal
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bendybus.amqp import frames
from bendybus.amqp.performatives import Accepted, Attach, Detach, Disposition, Open, Transfer
from bendybus.client import ServiceBusMessage
from tests.integration.amqp import AmqpBus
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, RawAmqp, attach_of, flow_of


@pytest.fixture
def amqp_bus(tmp_path: Path) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path, partitions=1, front_end_options=("--drain-s=1",))
    yield made
    made.end()


def waiting(amqp_bus: AmqpBus) -> tuple[str, RawAmqp]:
    """Return a queue of ten messages, and a client with credit for all and room for one."""
    queue = f"queue-{uuid.uuid4().hex[:12]}"
    with amqp_bus.administration() as administration:
        administration.create_queue(queue)
    with amqp_bus.client() as client, client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(10)])
    raw = RawAmqp(amqp_bus.amqp_address)
    assert raw.sasl() == 0
    raw.write(frames.AMQP_HEADER)
    raw.send(Open("raw"))
    raw.wait(Open)
    raw.begin(incoming_window=1)
    raw.send(attach_of(queue, RECEIVER, 0), flow_of(0, 10, incoming_window=1))
    raw.wait(Attach)
    raw.wait(Transfer)
    return queue, raw


def free(amqp_bus: AmqpBus, queue: str) -> list[int]:
    """Return the delivery counts of the messages that are not locked."""
    with amqp_bus.client() as client, client.get_queue_receiver(queue) as receiver:
        found: list[int] = []
        while more := receiver.receive_messages(10, max_wait_time=1):
            found += [each.delivery_count or 0 for each in more]
        return found


def test_what_the_client_had_no_window_for_is_free_once_it_detached(amqp_bus: AmqpBus) -> None:
    queue, raw = waiting(amqp_bus)
    with raw:
        raw.send(Detach(0, True))
        raw.wait(Detach)

        assert free(amqp_bus, queue) == [0] * 9


def test_what_the_client_had_no_window_for_is_free_after_a_hand_over(amqp_bus: AmqpBus) -> None:
    queue, raw = waiting(amqp_bus)
    with raw:
        amqp_bus.front_end.terminate()
        assert eventually(lambda: not raw.read() and raw.ended)
        amqp_bus.start_front_end()

        assert free(amqp_bus, queue) == [0] * 9
    assert raw.said(Transfer) == []


def test_a_hand_over_takes_no_longer_than_what_is_under_way(amqp_bus: AmqpBus) -> None:
    amqp_bus.front_end.end()
    amqp_bus.start_front_end("--drain-s=20")
    queue, raw = waiting(amqp_bus)
    with raw, ThreadPoolExecutor() as pool:
        raw.send(flow_of(0, 10, next_incoming_id=1, incoming_window=10))
        eventually(lambda: raw.read() and len(raw.said(Transfer)) == 9)
        amqp_bus.partitions[0].signal(signal.SIGSTOP)
        raw.send(Disposition(True, 0, 9, True, Accepted()))
        ending = pool.submit(amqp_bus.front_end.terminate)
        time.sleep(1.5)
        amqp_bus.partitions[0].signal(signal.SIGCONT)

        assert ending.result() < 10
        amqp_bus.start_front_end()
        assert free(amqp_bus, queue) == []
