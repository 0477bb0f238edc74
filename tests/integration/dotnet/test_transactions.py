"""Transactions of the SDK for .NET, also across entities."""

import pytest

from bendybus.amqp.performatives import Accepted, Modified
from bendybus.amqp.values import Array, Uint
from tests.integration.dotnet.bus import LONGS, UUIDS, bodies, connected, created, message, total
from tests.integration.dotnet.client import DotnetPeer
from tests.integration.guarded import Guarded


@pytest.mark.requirement("R513")
@pytest.mark.parametrize("cross_entity", [False, True])
def test_a_transaction_that_sends_before_it_settles_is_committed_as_a_whole(
    guarded: Guarded, cross_entity: bool
) -> None:
    source = created(guarded)
    target = created(guarded) if cross_entity else source
    with connected(guarded, cross_entity=cross_entity) as peer:
        receiver = peer.receiver(source)
        peer.send(peer.sender(source), message("one"))
        [found] = peer.receive(receiver)
        sender = peer.sender(target)

        txn_id = peer.declare()
        sent = peer.send(sender, message("two"), txn_id=txn_id)
        completed = peer.dispose(found, Accepted(), txn_id)
        before = total(guarded, target)
        committed = peer.discharge(txn_id)
    with connected(guarded) as other:
        [after] = other.receive(other.receiver(target))

    assert (sent.outcome, completed.outcome) == (Accepted(), Accepted())
    assert committed == Accepted()
    assert before == (0 if cross_entity else 1)
    assert bodies([after]) == ["two"]


@pytest.mark.requirement("R513")
def test_a_request_to_management_is_part_of_a_transaction(
    guarded: Guarded, peer: DotnetPeer, queue: str
) -> None:
    peer.send(peer.sender(queue), message("one"))
    receiver = peer.receiver(queue)
    [found] = peer.receive(receiver)
    peer.dispose(found, Modified(undeliverable_here=True))
    numbers = Array(LONGS, [found.sequence_number])
    asked = {"sequence-numbers": numbers, "receiver-settle-mode": Uint(1)}
    [entry] = peer.manage(queue, "receive-by-sequence-number", asked, receiver).body["messages"]
    tokens = Array(UUIDS, [entry["lock-token"]])
    done = {"lock-tokens": tokens, "disposition-status": "completed"}

    rolled_back = peer.declare()
    peer.manage(queue, "update-disposition", done, receiver, txn_id=rolled_back)
    peer.discharge(rolled_back, fail=True)
    before = total(guarded, queue)
    committed = peer.declare()
    peer.manage(queue, "update-disposition", done, receiver, txn_id=committed)
    told = peer.discharge(committed)

    assert told == Accepted()
    assert (before, total(guarded, queue)) == (1, 0)
