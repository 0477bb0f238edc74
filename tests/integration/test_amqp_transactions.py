"""Transactions of a client that does not wait for answers: all of one is done, or nothing of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.amqp import sections
from bendybus.amqp.composites import as_written
from bendybus.amqp.performatives import (
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Rejected,
    Source,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.sections import Message
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import SENDER, RawAmqp

CONTROL = "control"


@pytest.fixture
def amqp_bus(tmp_path: Path) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path, partitions=1)
    with made.administration() as administration:
        administration.create_queue("orders")
        administration.create_queue("sessions", requires_session=True)
    yield made
    made.end()


def requested(asked: Declare | Discharge) -> bytes:
    return sections.encode(Message(value=as_written(asked), has_value=True))


def declared(peer: RawAmqp) -> bytes:
    """Attach a coordinator's link and declare a transaction; return its id."""
    target, handle = Coordinator(), 9
    attach = Attach(CONTROL, handle, SENDER, source=Source(), target=target)
    attach.initial_delivery_count = 0
    peer.send(attach)
    peer.wait(Attach, lambda each: each.name == CONTROL)
    peer.handles[CONTROL, SENDER] = handle
    state = peer.transfer(CONTROL, requested(Declare()))
    assert isinstance(state, Declared)
    return state.txn_id


@pytest.mark.requirement("R492")
def test_nothing_is_done_if_a_part_is_refused_that_was_settled_first(amqp_bus: AmqpBus) -> None:
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        for name in ("orders", "sessions"):
            assert peer.attach(name, SENDER) is None
        transaction_id = declared(peer)
        state, body = TransactionalState(transaction_id), sections.encode(Message(data=[b"a"]))
        # The second one is refused: it has no session.
        for number, name in enumerate(("orders", "sessions"), 100):
            handle, tag = peer.handles[name, SENDER], str(number).encode()
            peer.send(Transfer(handle, number, tag, 0, settled=True, state=state), payload=body)

        told = peer.transfer(CONTROL, requested(Discharge(transaction_id)))

    assert isinstance(told, Rejected)
    assert told.error.condition == "amqp:transaction:rollback"
    with amqp_bus.administration() as administration:
        assert administration.get_queue_runtime_properties("orders").total_message_count == 0
