"""Links that a client attaches while the front end that it is connected to stops."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.amqp import frames
from bendybus.amqp.performatives import Accepted, Disposition, Flow, Transfer
from tests.amqp.peers import message
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp
from tests.ports import HOST, free_port

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R518")]
# A message that may be delivered is there after a few milliseconds.
LOOKS_S = 0.5


@pytest.fixture
def amqp_bus(tmp_path: Path) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path, partitions=1)
    with made.administration() as administration:
        for queue in ("orders", "invoices", "payments"):
            administration.create_queue(queue)
    yield made
    made.end()


@pytest.fixture
def peer(amqp_bus: AmqpBus) -> Iterator[RawAmqp]:
    """A client that holds a message while its front end stops."""
    with RawAmqp(amqp_bus.amqp_address).open() as made, RawAmqp(amqp_bus.amqp_address) as other:
        for queue in ("orders", "invoices"):
            assert made.attach(queue, SENDER) is None
            assert isinstance(made.transfer(queue, message(b"one")), Accepted)
        assert made.attach("orders", RECEIVER) is None
        made.flow("orders", 1)
        made.wait(Transfer)
        other.open()
        amqp_bus.front_end.signal(signal.SIGTERM)
        # This one has nothing under way, so it is the first to go.
        other.wait_for_end()
        yield made


def test_a_receiver_gets_no_messages(amqp_bus: AmqpBus, peer: RawAmqp) -> None:
    assert peer.attach("invoices", RECEIVER) is None
    peer.flow("invoices", 1)
    ends = time.monotonic() + LOOKS_S
    while time.monotonic() < ends:
        peer.read()

    assert [*peer.said(Transfer)] == []
    peer.send(Disposition(True, 0, 0, False, Accepted()))
    assert peer.wait(Disposition).state == Accepted()
    assert peer.wait_for_end() < 1


def test_a_sender_gets_no_credit_once_others_have_none(peer: RawAmqp) -> None:
    peer.send(Disposition(True, 0, 0, False, Accepted()))
    peer.wait(Flow, lambda each: each.link_credit == 0)
    peer.frames.clear()

    assert peer.attach("payments", SENDER) is None
    peer.wait_for_end()

    assert [each for each in peer.said(Flow) if each.link_credit] == []


def test_a_connection_that_speaks_its_first_words_later_is_refused(tmp_path: Path) -> None:
    shared = f"{HOST}:{free_port()}"
    bus = AmqpBus(tmp_path, partitions=1, front_end_options=(f"--shared-listen={shared}",))
    try:
        with bus.administration() as administration:
            administration.create_queue("orders")
        with (
            RawAmqp(bus.amqp_address).open() as holds,
            RawAmqp(bus.amqp_address).open() as other,
            RawAmqp(shared) as late,
        ):
            assert holds.attach("orders", SENDER) is None
            assert isinstance(holds.transfer("orders", message(b"one")), Accepted)
            assert holds.attach("orders", RECEIVER) is None
            holds.flow("orders", 1)
            holds.wait(Transfer)
            bus.front_end.signal(signal.SIGTERM)
            other.wait_for_end()

            late.write(frames.SASL_HEADER)

            assert late.wait_for_end() < 1
            # It was not the end of all.
            holds.send(Disposition(True, 0, 0, False, Accepted()))
            assert holds.wait(Disposition).state == Accepted()
    finally:
        bus.end()
