"""What a receive cache keeps for each connection, and connections that do not read."""

import itertools

import pytest

from bendybus.frontend.core import partition_asks, receive_cache
from bendybus.frontend.core.receive_cache import Cache
from tests.frontend.receiver import Receiver


def test_nothing_is_handed_over_or_asked_for_while_the_client_does_not_read() -> None:
    receiver = Receiver()
    tag = receiver.ask(5, owner="slow")
    receiver.cache.pause("slow")

    receiver.reserve(0, "a", "b")
    assert receiver.handed == []
    # Another connection that waits here gets it at once.
    other = receiver.ask(1, owner="quick")
    receiver.take(receiver.cache.resume("slow", receiver.now))

    assert receiver.handed == [(other, ["a"]), (tag, ["b"])]


def test_a_paused_receiver_rings_no_alarm() -> None:
    receiver = Receiver()
    receiver.ask(400, wait_ms=60_000)
    receiver.cache.pause("me")
    receiver.reserve(0, "a")

    receiver.pass_time(partition_asks.BROADEN_MS)
    receiver.pass_time(partition_asks.WITHDRAW_MS)
    receiver.confirm()

    assert receiver.cache.next_due() > receiver.now + 1_000  # type: ignore[operator]


@pytest.mark.requirement("R12")
def test_a_cached_message_goes_first_to_the_connection_that_it_was_asked_for() -> None:
    receiver = Receiver()
    receiver.ask(1, owner="mine")
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}")
    receiver.cache.pause("mine")
    receiver.cache.pause("other")
    # The other one waits longer.
    other = receiver.ask(1, owner="other")
    mine = receiver.ask(1, owner="mine")
    receiver.cache._credits._paused.clear()

    receiver.take(receiver.cache.due(receiver.now))

    assert receiver.handed[1:] == [(mine, ["m1"]), (other, ["m2"])]


@pytest.mark.requirement("R12")
def test_any_receiver_that_waits_at_this_front_end_gets_cached_messages_at_once() -> None:
    receiver = Receiver(partitions=16)
    tags = [receiver.ask(1, owner=f"worker-{index}") for index in range(16)]

    for partition in range(16):
        receiver.reserve(partition, f"m{partition}")

    assert sorted(receiver.handed) == [(tag, [f"m{i}"]) for i, tag in enumerate(tags)]


def test_what_waits_for_a_connection_goes_back_when_that_ends() -> None:
    receiver = Receiver()
    receiver.ask(1, owner="mine")
    receiver.reserve(0, "a")
    receiver.reserve(1, "b")

    receiver.take(receiver.cache.owner_gone("mine"))

    assert receiver.given_back == ["b"]


def test_what_caches_hold_is_counted_over_all_and_by_connection() -> None:
    held = receive_cache.HeldBytes()
    ids = itertools.count(1)
    cache = Cache(range(4), lambda p: True, lambda: next(ids), 0, held)
    receiver = Receiver()
    receiver.cache = cache
    receiver.ask(1, owner="mine")
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", size=100)
    assert (held.total, held.by_owner) == (300, {"mine": 300})

    receiver.ask(1, owner="other")
    receiver.take(cache.partition_lost(2, receiver.now))
    receiver.take(cache.give_back_all())

    assert (held.total, held.by_owner) == (0, {})


def test_messages_without_a_byte_are_counted_in_and_out() -> None:
    receiver = Receiver()
    tag = receiver.ask(1)

    receiver.reserve(0, "a", "b", size=0)
    receiver.cache.pause("me")
    receiver.take(receiver.cache.give_back_all())

    assert receiver.handed == [(tag, ["a"])]
    assert receiver.given_back == ["b"]
    assert not receiver.cache._held.by_owner


def test_a_paused_connection_is_not_told_that_there_is_nothing() -> None:
    receiver = Receiver()
    tag = receiver.ask(1, wait_ms=500)
    receiver.cache.pause("me")
    for partition in range(4):
        receiver.reserve(partition, "a")

    receiver.pass_time(500)
    receiver.confirm()
    receiver.pass_time(receive_cache.DRAIN_MS)

    assert receiver.handed == [(tag, [])]
    assert receiver.unanswered == [tag]


def test_a_receiver_that_has_stopped_gets_no_message_that_was_asked_for_it() -> None:
    receiver = Receiver(partitions=1)
    gone = receiver.grant(1, owner="gone")
    receiver.cache.forget([receiver.credits[gone]])

    receiver.reserve(0, "a")
    assert receiver.handed == []
    other = receiver.ask(1, owner="other")
    receiver.take(receiver.cache.drop([receiver.credits[gone]], receiver.now))

    assert receiver.handed == [(other, ["a"])]
