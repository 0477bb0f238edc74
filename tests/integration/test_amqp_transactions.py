"""Transactions of a client that does not wait for answers: all of one is done, or nothing of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp import sections, values
from bendybus.amqp.composites import as_written
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Disposition,
    Rejected,
    Source,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Array
from tests.amqp.peers import framed
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp
from tests.integration.test_amqp_many_requests import scheduled

CONTROL, NODE = "control", "orders/$management"


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


def schedules(peer: RawAmqp, number: int, transaction_id: bytes) -> bytes:
    """Return the frame that schedules a message in a transaction."""
    properties, name = Properties(message_id=str(number)), "com.microsoft:schedule-message"
    asked = Message(
        properties=properties,
        application_properties={"operation": name},
        value=scheduled(number),
        has_value=True,
    )
    handle, state = peer.handles[NODE, SENDER], TransactionalState(transaction_id)
    transfer = Transfer(handle, number, number.to_bytes(4), 0, settled=True, state=state)
    return framed(transfer, sections.encode(asked))


def reply_of(peer: RawAmqp) -> tuple[int, Any]:
    """Return the status and the body of the next reply."""
    _, _, payload = peer.wait_on_channel(Transfer, lambda *_: True)
    reply = sections.decode(payload)
    assert isinstance(reply.application_properties, dict)
    return int(reply.application_properties["statusCode"]), reply.value


@pytest.fixture
def scheduler(amqp_bus: AmqpBus) -> Iterator[RawAmqp]:
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        assert peer.attach(NODE, SENDER) is None
        assert peer.attach(NODE, RECEIVER) is None
        peer.flow(NODE, 10_000, incoming_window=100_000)
        yield peer


@pytest.mark.requirement("R580")
def test_a_commit_waits_for_what_was_scheduled_before_it(scheduler: RawAmqp) -> None:
    transaction_id = declared(scheduler)
    discharge = Transfer(scheduler.handles[CONTROL, SENDER], 101, b"101", 0)

    scheduler.write(
        schedules(scheduler, 100, transaction_id)
        + framed(discharge, requested(Discharge(transaction_id)))
    )

    status, found = reply_of(scheduler)
    assert status == 200
    assert found["sequence-numbers"].items == [1]
    outcome = scheduler.wait(Disposition, lambda each: each.first == 101).state
    assert isinstance(outcome, Accepted)
    cancelled = scheduler.manage(
        "orders", "cancel-scheduled-message", {"sequence-numbers": Array(values.LONG, [1])}
    )
    assert cancelled[0] == 200


@pytest.mark.requirement("R580")
def test_no_numbers_are_given_to_what_its_transaction_does_not_take(scheduler: RawAmqp) -> None:
    transaction_id = declared(scheduler)

    scheduler.write(
        b"".join(
            schedules(scheduler, number, each)
            for number, each in enumerate([bytes(16)] * 10 + [transaction_id] * 110, 100)
        )
    )
    codes = [reply_of(scheduler)[0] for _ in range(120)]
    status, _, found = scheduler.manage("orders", "schedule-message", scheduled(1))

    assert (status, codes.count(200)) == (200, 100)
    assert found["sequence-numbers"].items == [101]
