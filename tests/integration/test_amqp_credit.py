"""Credit that a client changes while messages are on their way, and many deliveries at once."""

import signal
import time
import uuid
from collections.abc import Iterator

import pytest

from bendybus.amqp.performatives import Accepted, Disposition, Transfer
from bendybus.client import ServiceBusMessage
from tests.integration.amqp import AmqpBus
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, RawAmqp, flow_of

SETTLED_AT_ONCE = 6_000


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("amqp"), partitions=1)
    yield made
    made.end()


@pytest.fixture
def queue(amqp_bus: AmqpBus) -> str:
    name = f"queue-{uuid.uuid4().hex[:12]}"
    with amqp_bus.administration() as administration:
        administration.create_queue(name)
    return name


def fill(amqp_bus: AmqpBus, queue: str, count: int) -> None:
    with amqp_bus.client() as client, client.get_queue_sender(queue) as sender:
        for _ in range(0, count, 500):
            sender.send_messages([ServiceBusMessage("x") for _ in range(min(500, count))])


@pytest.mark.parametrize("settled", [False, True])
def test_one_disposition_settles_as_many_deliveries_as_there_are(
    amqp_bus: AmqpBus, queue: str, settled: bool
) -> None:
    fill(amqp_bus, queue, SETTLED_AT_ONCE)
    with RawAmqp(amqp_bus.amqp_address).open() as raw, amqp_bus.administration() as administration:
        raw.attach(queue, RECEIVER)
        raw.send(flow_of(0, SETTLED_AT_ONCE, incoming_window=SETTLED_AT_ONCE))
        eventually(lambda: raw.read() and len(raw.said(Transfer)) == SETTLED_AT_ONCE)
        raw.send(Disposition(True, 0, SETTLED_AT_ONCE - 1, settled, Accepted()))

        def left() -> int:
            return administration.get_queue_runtime_properties(queue).active_message_count

        eventually(lambda: not left())
        answered: set[int] = set()

        def all_answered() -> bool:
            raw.read()
            for each in raw.said(Disposition):
                answered.update(range(each.first, (each.last or each.first) + 1))
            return settled or len(answered) == SETTLED_AT_ONCE

        eventually(all_answered)

    assert answered == (set() if settled else set(range(SETTLED_AT_ONCE)))


def receive(raw: RawAmqp, within_s: float) -> int:
    """Return how many transfers come in a time, and take them."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        raw.read(0.01)
    found = len(raw.said(Transfer))
    raw.frames.clear()
    return found


def test_a_drain_that_the_client_takes_back_leaves_its_credit(
    amqp_bus: AmqpBus, queue: str
) -> None:
    with RawAmqp(amqp_bus.amqp_address).open() as raw:
        raw.attach(queue, RECEIVER)
        raw.flow(queue, 5)
        raw.flow(queue, 5, drain=True)
        raw.flow(queue, 5)
        receive(raw, 0.3)
        # The same, while a partition does not answer the drain.
        partition = amqp_bus.partitions[0]
        partition.signal(signal.SIGSTOP)
        raw.flow(queue, 5, drain=True)
        receive(raw, 0.1)
        raw.flow(queue, 5)
        partition.signal(signal.SIGCONT)
        receive(raw, 0.3)

        fill(amqp_bus, queue, 3)

        eventually(lambda: raw.read() and len(raw.said(Transfer)) == 3)


def test_lowered_credit_is_not_exceeded_by_what_is_deleted_for_it(
    amqp_bus: AmqpBus, queue: str
) -> None:
    fill(amqp_bus, queue, 5_000)
    received = 0
    with RawAmqp(amqp_bus.amqp_address).open() as raw:
        raw.attach(queue, RECEIVER, snd_settle_mode=1)
        for attempt in range(40):
            place = {"delivery_count": received, "next_incoming_id": received}
            raw.flow(queue, 100, **place)
            time.sleep(0.0005 * (attempt % 5))
            raw.flow(queue, 50, **place)
            found = receive(raw, 0.05)
            received += found

            # What was being deleted came, though there is less credit now; nothing more did.
            assert found <= 100
    assert received >= 50
