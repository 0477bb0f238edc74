"""Which messages a receive gets from the cache, and what the cache gives back."""

from typing import Any

import pytest

from bendybus.frontend.core import receive_cache
from bendybus.frontend.core.lease import lease_of_messages
from tests.frontend.receiver import Receiver


@pytest.mark.requirement("R11")
def test_the_first_message_that_arrives_is_handed_over_at_once() -> None:
    receiver = Receiver()
    tag = receiver.ask(3)

    receiver.reserve(2, "a")

    assert receiver.handed == [(tag, ["a"])]


@pytest.mark.requirement("R12")
def test_what_other_partitions_gave_is_cached_and_handed_over_by_the_next_receive() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}")

    second = receiver.ask(2)

    assert receiver.handed[1] == (second, ["m1", "m2"])
    assert receiver.cache.cached() == 1


def test_a_receive_hands_over_no_more_than_was_asked_for() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(5)
    receiver.reserve(0, "a", "b")

    assert receiver.handed == [(1, ["a", "b"])]


def test_what_comes_after_a_withdrawal_is_kept_for_the_next_receive() -> None:
    receiver = Receiver(partitions=1)
    tag = receiver.ask(2)
    asked = dict(receiver.asked)
    receiver.cancel(tag)
    receiver.asked = asked

    receiver.reserve(0, "late")
    receiver.ask(1)

    assert receiver.handed[-1][1] == ["late"]


@pytest.mark.requirement("R36")
def test_an_idle_receiver_gives_its_cache_back() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}")

    receiver.pass_time(receive_cache.IDLE_MS - 1)
    assert receiver.given_back == []
    receiver.pass_time(1)

    assert receiver.given_back == ["m1", "m2", "m3"]
    assert receiver.cache.idle(receiver.now)


@pytest.mark.requirement("R36")
def test_a_receiver_that_ends_gives_everything_back() -> None:
    receiver = Receiver()
    receiver.ask(1)
    receiver.reserve(0, "a")
    receiver.reserve(1, "b")

    receiver.take(receiver.cache.close())

    assert receiver.given_back == ["b"]
    assert sorted(receiver.withdrawn) == [2, 3]


def test_what_arrives_for_a_closed_receiver_goes_back() -> None:
    receiver = Receiver()
    receiver.ask(1)
    asked = dict(receiver.asked)
    receiver.take(receiver.cache.close())
    receiver.asked = asked

    receiver.reserve(3, "late")

    assert receiver.given_back == ["late"]


def test_a_message_is_handed_over_only_with_half_of_its_lock_left() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", lock_ms=4_000)

    receiver.pass_time(2_000)

    assert receiver.given_back == ["m1", "m2", "m3"]


def test_messages_that_arrive_with_less_than_half_of_their_lock_go_back() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(1)
    ask = receiver.asked.pop(0)
    data: Any = ["old"]

    # The front end was suspended while they were on their way to it.
    receiver.take(
        receiver.cache.reserved(
            ask.ask_id,
            0,
            data,
            [10],
            lease=lease_of_messages(receiver.now + 1_000, 10_000),
            more=False,
            now_ms=receiver.now,
        )
    )

    assert receiver.given_back == ["old"]
    assert receiver.handed == []
    assert set(receiver.asked) == {0}


def test_a_partition_that_is_lost_takes_its_cached_messages_with_it() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}")

    receiver.take(receiver.cache.partition_lost(2, receiver.now))
    receiver.ask(9)

    assert receiver.handed[-1][1] == ["m1", "m3"]
    assert receiver.given_back == []


def test_receives_are_answered_in_their_order() -> None:
    receiver = Receiver(partitions=1)
    first, second = receiver.ask(1), receiver.ask(1)

    receiver.reserve(0, "a", "b")

    assert receiver.handed == [(first, ["a"]), (second, ["b"])]


def test_a_receive_is_bounded_in_bytes_but_gets_one_message() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(5, size_bytes=25)
    receiver.reserve(0, "a", "b", "c", size=10)
    receiver.ask(5, size_bytes=1)

    assert [names for _, names in receiver.handed] == [["a", "b"], ["c"]]
