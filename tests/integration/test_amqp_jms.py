"""What other clients of AMQP 1.0 ask for, such as Qpid JMS: selectors, copies, settled outcomes."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from bendybus.amqp import sections
from bendybus.amqp.composites import as_written, known
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Declared,
    Detach,
    Discharge,
    Disposition,
    Target,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.sections import Message
from bendybus.amqp.values import Described, Symbol, Ulong
from tests.amqp.peers import message
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp, attach_of, ended


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("jms"), partitions=1)
    with made.administration() as administration:
        administration.create_queue("orders", lock_duration="PT1M")
    yield made
    made.end()


@pytest.fixture
def peer(amqp_bus: AmqpBus) -> Iterator[RawAmqp]:
    with RawAmqp(amqp_bus.amqp_address).open() as made:
        yield made


def refused(peer: RawAmqp, attach: Attach) -> str:
    return refused_with(peer, attach)[0]


def refused_with(peer: RawAmqp, attach: Attach) -> tuple[str, str]:
    """Attach a link that is refused; return the condition and the sentence."""
    peer.send(attach)
    answer = peer.wait(Attach, lambda each: each.name == attach.name)
    detach = peer.wait(Detach, lambda each: each.handle == answer.handle)
    return ended(detach), str(known(detach.error).description)


def delivered(peer: RawAmqp) -> tuple[Transfer, Message]:
    _, found, payload = peer.wait_on_channel(Transfer, lambda _, __: True)
    return found, sections.decode(payload)


@pytest.mark.requirement("R514")
def test_a_receiver_that_selects_is_refused(peer: RawAmqp) -> None:
    selector = Described(Ulong(0x468C00000004), "colour = 'red'")
    attach = attach_of("orders", RECEIVER, 5, filter={Symbol("jms-selector"): selector})

    assert refused(peer, attach) == "amqp:not-allowed"


@pytest.mark.requirement("R514")
def test_a_receiver_that_copies_is_refused(peer: RawAmqp) -> None:
    attach = attach_of("orders", RECEIVER, 5)
    attach.source.distribution_mode = "copy"

    assert refused(peer, attach) == "amqp:not-allowed"


@pytest.mark.requirement("R514")
@pytest.mark.parametrize("settled", [True, False])
def test_what_was_settled_in_a_transaction_that_is_rolled_back_comes_again_at_once(
    peer: RawAmqp, settled: bool
) -> None:
    for role in (SENDER, RECEIVER):
        assert peer.attach("orders", role) is None
    peer.transfer("orders", message())
    peer.flow("orders", 1)
    first, _ = delivered(peer)
    declared = peer.declare()
    assert isinstance(declared, Declared)
    state = TransactionalState(declared.txn_id, as_written(Accepted()))

    peer.send(Disposition(RECEIVER, first.delivery_id or 0, settled=settled, state=state))
    asked = Message(value=as_written(Discharge(declared.txn_id, True)), has_value=True)
    told = peer.transfer("coordinator", sections.encode(asked))
    if not settled:
        # It is still this client's, which may decide otherwise.
        done = Disposition(RECEIVER, first.delivery_id or 0, settled=True, state=Accepted())
        peer.send(done)
        time.sleep(0.5)
    peer.flow("orders", 1, delivery_count=1, next_incoming_id=2)

    assert told == Accepted()
    if settled:
        second, again = delivered(peer)
        assert again.header is not None
        assert again.header.delivery_count == 1
        peer.send(Disposition(RECEIVER, second.delivery_id or 0, settled=True, state=Accepted()))
    peer.read(0.5)
    assert peer.said(Transfer) == []


@pytest.mark.requirement("R567")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"durable": 2, "distribution_mode": "copy"}, "durable and shared subscriptions of JMS"),
        ({"capabilities": ("shared", "global", "topic")}, "TOPIC/Subscriptions/NAME"),
        ({"distribution_mode": "copy"}, "messages cannot be browsed on a link"),
        ({"dynamic": True, "address": None}, "temporary queues and topics"),
    ],
)
def test_a_refusal_names_what_a_consumer_of_jms_asked_for(
    peer: RawAmqp, changes: dict[str, Any], sentence: str
) -> None:
    attach = attach_of("orders", RECEIVER, 5)
    for name, value in changes.items():
        setattr(attach.source, name, value)

    condition, description = refused_with(peer, attach)

    assert condition == "amqp:not-allowed"
    assert sentence in description


@pytest.mark.requirement("R567")
@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (Target(), "a sender without an address"),
        (Target(dynamic=True), "temporary queues and topics"),
    ],
)
def test_a_refusal_names_what_a_producer_of_jms_asked_for(
    peer: RawAmqp, target: Target, sentence: str
) -> None:
    attach = attach_of("orders", SENDER, 6)
    attach.target = target

    condition, description = refused_with(peer, attach)

    assert condition == "amqp:not-allowed"
    assert sentence in description
