"""Transfer queues of one entity: how many there are, and which transactions make one."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity
from bendybus.partition_server.state.commands import FenceIdle, Transact
from tests.partition_server.partition_pair import fill, give_room
from tests.partition_server.test_transfer import Sending, entity

ID = b"a transaction id"


@pytest.fixture
def two_destinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSFER_DESTINATIONS_MAX", 2)


def _queues(pair: Sending) -> tuple[int, int, int]:
    """Return how many queues there are, how many are looked at, and transfer queues of `orders`."""
    state = pair.source.partition.state
    transfers = state.queues.transfers_of("uid-orders")
    return len(list(state.queues)), len(state.forwards.sources), len(transfers)


@pytest.mark.requirement("R239")
@pytest.mark.parametrize("why", ["lost lock", "full", "too large"])
def test_a_refused_transaction_takes_no_place_among_the_destinations(
    two_destinations: None, why: str
) -> None:
    names = [f"n{n}" for n in range(6)]
    pair = Sending(*[entity(name, 1, max_message_size_in_kilobytes=1) for name in names])
    lost = pair.received(b"order")
    pair.source.run(lost)
    before = _queues(pair)
    if why == "full":
        fill(pair.source, "orders")
    for n, name in enumerate(names):
        body = b"x" * 2_000 if why == "too large" else b"x"
        after = [lost] if why == "lost lock" else []
        with pytest.raises(errors.BusError) as refused:
            pair.transact(pair.to(name, body), *after, id_=b"%016d" % n)
        assert "other entities" not in refused.value.message
    if why == "full":
        give_room(pair.source, "orders")

    assert _queues(pair) == before
    for n, name in enumerate(names[:2]):
        pair.transact(pair.to(name, b"x"), id_=b"done%012d" % n)
    pair.restart(0)
    pair.finish()
    assert [pair.at(name) for name in names[:3]] == [[b"x"], [b"x"], []]


@pytest.mark.requirement("R239")
def test_a_transaction_whose_commit_fails_takes_no_place_among_the_destinations(
    two_destinations: None,
) -> None:
    pair = Sending(entity("a", 1), entity("b", 1))
    before = _queues(pair)
    source, ref = pair.source, pair.source.ref("orders")
    commands = [
        Transact("t", ref, b"%016d" % n, [pair.to(name, b"x")])
        for n, name in enumerate(["a", "b", "a"])
    ]
    stage = source.partition.decide(commands, source.now)
    source.partition.abandon(stage, errors.PartitionUnavailable("full"), source.now)

    assert _queues(pair) == before
    # What is done next has the numbers of slots that nothing uses.
    pair.transact(pair.to("b", b"x"))
    pair.restart(0)
    pair.finish()
    assert (pair.at("a"), pair.at("b")) == ([], [b"x"])


@pytest.mark.requirement("R239")
def test_a_refused_transaction_leaves_the_queue_that_another_one_of_its_turn_has_made() -> None:
    pair = Sending(entity("a", 1))
    lost = pair.received(b"order")
    pair.source.run(lost)
    ref = pair.source.ref("orders")

    def transact(n: int, *parts: Any) -> Transact:
        return Transact("t", ref, b"%016d" % n, [pair.to("a", b"%d" % n), *parts])

    pair.source.run(transact(1, lost), transact(2), transact(3, lost), transact(4))
    pair.restart(0)
    pair.finish()

    assert pair.at("a") == [b"2", b"4"]
    assert pair.size_bytes() == 0


@pytest.mark.requirement("R146")
def test_what_transactions_send_to_is_not_idle_while_something_waits_for_it() -> None:
    hour = 3_600_000
    a, b = (replace(entity(name, 1), home_partition=1) for name in "ab")
    pair = Sending(a, b)
    pair.source.partition.state.forward_link = None
    pair.transact(pair.to("a", b"x"))
    pair.source.advance(2 * hour)

    def fenced(each: Entity) -> Any:
        return pair.source.run(FenceIdle("t", each.uid, each.generation, hour))

    # Neither has a queue in the partition where the message waits.
    assert (fenced(a), fenced(b)) == ([False], [True])
    # What is about to be deleted gets nothing more, from no partition; if it stays, a moment later.
    with pytest.raises(errors.ServerBusy, match="idle"):
        pair.transact(pair.to("b", b"x"), id_=b"late".ljust(16))
    pair.source.mono_ms += 11_000
    assert pair.transact(pair.to("b", b"x"), id_=b"late".ljust(16)).error is None
    pair.source.partition.state.forward_link = "link"
    pair.finish()
    assert fenced(a) == [True]


@pytest.mark.requirement("R239")
def test_a_destination_that_is_gone_keeps_its_queue_until_the_commit_that_replaces_it(
    two_destinations: None,
) -> None:
    pair = Sending(*[entity(name, 1) for name in "abc"])
    for n, name in enumerate("ab"):
        pair.transact(pair.to(name, b"x"), id_=b"%016d" % n)
    pair.finish()
    pair.put(replace(entity("a", 1, 6), deleted=True))
    before = _queues(pair)
    lost = pair.received(b"order")
    pair.source.run(lost)

    with pytest.raises(errors.MessageLockLost):
        pair.transact(pair.to("c", b"x"), lost)
    assert _queues(pair) == before

    pair.transact(pair.to("c", b"x"), id_=b"done".ljust(16))
    assert _queues(pair) == before
    pair.finish()
    assert pair.at("c") == [b"x"]
