"""Senders and receivers of the SDK for .NET."""

import time

import pytest

from bendybus.amqp import sections
from bendybus.amqp.performatives import Accepted, Error, Modified, Rejected
from bendybus.amqp.values import Array, Int, Symbol, Timestamp, Uint
from tests.integration.dotnet.bus import (
    LONGS,
    UUIDS,
    bodies,
    left,
    message,
)
from tests.integration.dotnet.client import DotnetPeer
from tests.integration.dotnet.frames import Refused
from tests.integration.guarded import Guarded
from tests.integration.secured import SEND_KEY


@pytest.mark.requirement("R510")
def test_what_a_sender_sends_a_receiver_completes(
    guarded: Guarded, peer: DotnetPeer, queue: str
) -> None:
    sender, receiver = peer.sender(queue), peer.receiver(queue)

    sent = [peer.send(sender, message(f"{number}")) for number in range(3)]
    found = peer.receive(receiver, 3)
    done = [peer.dispose(each, Accepted()) for each in found]

    assert sent == [Accepted()] * 3
    assert bodies(found) == ["0", "1", "2"]
    assert done == [Accepted()] * 3
    assert left(guarded, queue) == (0, 0, 0)


@pytest.mark.requirement("R510")
def test_a_batch_has_the_properties_of_its_first_message_around_it(
    peer: DotnetPeer, sessions: str
) -> None:
    sender = peer.sender(sessions)

    told = peer.send(sender, *(message(f"{number}", group_id="a") for number in range(3)))
    found = peer.receive(peer.session_receiver(sessions, "a"), 3)

    assert told == Accepted()
    assert bodies(found) == ["0", "1", "2"]


@pytest.mark.requirement("R510")
def test_the_limit_of_a_batch_is_a_long_with_a_symbol_as_its_name(
    peer: DotnetPeer, queue: str
) -> None:
    [(name, limit)] = peer.sender(queue).properties.items()

    # The SDK finds nothing under a string, and reads no other integer.
    assert (type(name), name) == (Symbol, "com.microsoft:max-message-batch-size")
    assert (type(limit), limit) == (int, 1024 * 1024)


@pytest.mark.requirement("R510")
def test_receive_and_delete_takes_no_locks(guarded: Guarded, peer: DotnetPeer, queue: str) -> None:
    peer.send(peer.sender(queue), message("one"))

    found = peer.receive(peer.receiver(queue, deletes=True))

    assert bodies(found) == ["one"]
    assert left(guarded, queue) == (0, 0, 0)


@pytest.mark.requirement("R510")
def test_a_receive_that_finds_nothing_drains_its_credit(peer: DotnetPeer, queue: str) -> None:
    receiver = peer.receiver(queue)

    peer.drain(receiver)
    peer.send(peer.sender(queue), message("later"))

    assert bodies(peer.receive(receiver)) == ["later"]


@pytest.mark.requirement("R510")
def test_an_abandoned_message_comes_again_with_its_changes(peer: DotnetPeer, queue: str) -> None:
    peer.send(peer.sender(queue), message("one"))
    receiver = peer.receiver(queue)
    [first] = peer.receive(receiver)

    told = peer.dispose(first, Modified(message_annotations={Symbol("tries"): Int(1)}))
    [again] = peer.receive(receiver)

    assert isinstance(told, Modified)
    assert again.message.header is not None
    assert again.message.header.delivery_count == 1
    assert again.message.application_properties == {"tries": 1}


@pytest.mark.requirement("R510")
def test_a_dead_lettered_message_says_why(guarded: Guarded, peer: DotnetPeer, queue: str) -> None:
    peer.send(peer.sender(queue), message("one"))
    [found] = peer.receive(peer.receiver(queue))
    info = {
        Symbol("DeadLetterReason"): "bad",
        Symbol("DeadLetterErrorDescription"): "It is.",
        Symbol("by"): "me",
    }

    told = peer.dispose(found, Rejected(Error("com.microsoft:dead-letter", info=info)))
    [dead] = peer.receive(peer.receiver(f"{queue}/$DeadLetterQueue"))

    # An error would be raised as one of the bus.
    assert told == Rejected()
    assert dead.message.application_properties == {str(name): text for name, text in info.items()}
    assert left(guarded, queue) == (0, 0, 1)


@pytest.mark.requirement("R510")
def test_a_deferred_message_is_settled_over_management(
    guarded: Guarded, peer: DotnetPeer, queue: str
) -> None:
    peer.send(peer.sender(queue), message("one"))
    receiver = peer.receiver(queue)
    [found] = peer.receive(receiver)
    peer.dispose(found, Modified(undeliverable_here=True))
    numbers = Array(LONGS, [found.sequence_number])

    asked = {"sequence-numbers": numbers, "receiver-settle-mode": Uint(1)}
    again = peer.manage(queue, "receive-by-sequence-number", asked, receiver)
    [entry] = again.body["messages"]
    done = peer.manage(
        queue,
        "update-disposition",
        {"lock-tokens": Array(UUIDS, [entry["lock-token"]]), "disposition-status": "completed"},
        receiver,
    )

    assert (again.status, done.status) == (200, 200)
    assert left(guarded, queue) == (0, 0, 0)


@pytest.mark.requirement("R510")
def test_a_lock_is_renewed_by_the_token_that_the_delivery_tag_is(
    peer: DotnetPeer, queue: str
) -> None:
    peer.send(peer.sender(queue), message("one"))
    receiver = peer.receiver(queue)
    [found] = peer.receive(receiver)

    tokens = Array(UUIDS, [found.lock_token])
    reply = peer.manage(queue, "renew-lock", {"lock-tokens": tokens}, receiver)

    assert reply.status == 200
    [until] = reply.body["expirations"].items
    assert type(until) is Timestamp
    assert until > time.time() * 1_000


@pytest.mark.requirement("R510")
def test_messages_are_scheduled_peeked_and_cancelled(
    guarded: Guarded, peer: DotnetPeer, queue: str
) -> None:
    at = Timestamp(int((time.time() + 3_600) * 1_000))
    late = message("late")
    late.message_annotations = {Symbol("x-opt-scheduled-enqueue-time"): at}
    entry = {"message": sections.encode(late), "message-id": "late"}
    sender = peer.sender(queue)

    scheduled = peer.manage(queue, "schedule-message", {"messages": [entry]}, sender)
    numbers = scheduled.body["sequence-numbers"]
    asked = {"from-sequence-number": 1, "message-count": Int(10)}
    peeked = peer.manage(queue, "peek-message", asked)
    cancelled = peer.manage(
        queue, "cancel-scheduled-message", {"sequence-numbers": numbers}, sender
    )
    nothing = peer.manage(queue, "peek-message", asked)

    assert (type(numbers), numbers.code) == (Array, LONGS)
    [shown] = peeked.body["messages"]
    assert b"".join(sections.decode(shown["message"]).data) == b"late"
    assert (scheduled.status, peeked.status, cancelled.status) == (200, 200, 200)
    assert nothing.status == 204
    assert left(guarded, queue) == (0, 0, 0)


@pytest.mark.requirement("R510")
def test_a_token_without_the_right_opens_no_link(guarded: Guarded, queue: str) -> None:
    def token(audience: str) -> str:
        return guarded.token("sender", SEND_KEY, audience.split("/", 3)[3])

    with DotnetPeer(guarded.amqp_address, token) as peer, pytest.raises(Refused) as refused:
        peer.receiver(queue)

    assert refused.value.condition == "amqp:unauthorized-access"
