"""Answers of a partition that are lost: AMQP clients hear what became of what they asked for."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp.performatives import (
    Accepted,
    Disposition,
    Modified,
    Rejected,
    Transfer,
)
from tests.amqp.peers import message
from tests.chaos.lines import Line, Lines
from tests.integration.amqp import AmqpBus
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path, partitions=1)
    with made.administration() as administration:
        administration.create_queue("orders")
    yield made
    made.end()


@pytest.fixture
def line(bus: AmqpBus) -> Iterator[Line]:
    """What lies between the front end and its partition."""
    lines = Lines()
    made = lines.add("partition", bus.partitions[0].address)
    bus._addresses[0] = made.address
    bus.front_end.terminate()
    bus.start_front_end()
    yield made
    lines.close()


@pytest.mark.slow
@pytest.mark.requirement("R495")
@pytest.mark.parametrize(
    "outcome",
    [
        Accepted(),
        Modified(undeliverable_here=True),
        Rejected(),
    ],
    ids=["complete", "defer", "dead-letter"],
)
def test_a_settlement_whose_answer_is_lost_is_confirmed(
    bus: AmqpBus, line: Line, outcome: Any
) -> None:
    with RawAmqp(bus.amqp_address).open() as peer:
        assert peer.attach("orders", SENDER) is None
        assert peer.attach("orders", RECEIVER) is None
        assert isinstance(peer.transfer("orders", message()), Accepted)
        peer.flow("orders", 1)
        held = peer.wait(Transfer).delivery_id or 0
        line.swallow()

        peer.send(Disposition(RECEIVER, held, held, False, outcome))
        time.sleep(0.5)
        line.reset()

        told = peer.wait(Disposition, lambda each: each.first == held, within_s=25)
        assert type(told.state) is type(outcome)
        assert getattr(told.state, "error", None) is None
    with bus.administration() as administration:
        eventually(
            lambda: administration.get_queue_runtime_properties("orders").active_message_count == 0
        )
