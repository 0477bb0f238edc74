"""Which partitions are asked, and for how many messages."""

import time

import pytest

from bendybus.frontend.core import partition_asks, receive_cache
from tests.frontend.receiver import Receiver


@pytest.mark.requirement("R11")
@pytest.mark.requirement("R49")
def test_a_small_receive_asks_every_partition_for_one_message_at_once() -> None:
    receiver = Receiver()

    receiver.ask(3)

    assert {a.partition: a.messages for a in receiver.asked.values()} == dict.fromkeys(range(4), 1)


def test_asks_that_nobody_waits_for_are_withdrawn() -> None:
    receiver = Receiver()
    receiver.ask(1)
    receiver.reserve(0, "a")

    receiver.pass_time(partition_asks.WITHDRAW_MS)

    assert sorted(receiver.withdrawn) == [1, 2, 3]


def test_a_plain_queue_is_asked_for_exactly_the_callers_credit() -> None:
    receiver = Receiver(partitions=1)
    first = receiver.ask(5)
    assert receiver.asked[0].messages == 5
    second = receiver.ask(2)
    assert receiver.asked[0].messages == 2

    receiver.cancel(second)
    assert set(receiver.withdrawn) == {0}
    receiver.cancel(first)
    receiver.confirm()

    assert receiver.cache.next_due() is None


@pytest.mark.requirement("R02")
def test_partitions_that_are_down_are_not_asked_and_not_waited_for() -> None:
    receiver = Receiver(down=(0, 1))

    receiver.ask(1)

    assert sorted(receiver.asked) == [2, 3]


def test_a_partition_that_returns_is_asked_for_those_who_wait() -> None:
    receiver = Receiver(down=(0, 1, 2, 3))
    receiver.ask(1)
    assert not receiver.asked
    receiver.down = {0, 1, 2}

    receiver.take(receiver.cache.partition_back(3, receiver.now))

    assert sorted(receiver.asked) == [3]


def fill(receiver: Receiver, *partitions: int) -> None:
    """Let it know that these partitions have a backlog and the others have nothing."""
    receiver.ask(len(partitions))
    for partition in partitions:
        receiver.reserve(partition, f"first-{partition}", more=True)
    receiver.pass_time(partition_asks.WITHDRAW_MS)
    receiver.confirm()
    receiver.ask(len(partitions))
    receiver.handed.clear()
    receiver.asked.clear()


@pytest.mark.parametrize("messages", [5, 10, 50, 99, 100, 400])
def test_receives_get_whole_frames_from_partitions_in_turn(messages: int) -> None:
    receiver = Receiver()
    fill(receiver, 0, 1, 2, 3)

    turns = []
    for _ in range(4):
        receiver.ask(messages)
        [(partition, ask)] = receiver.asked.items()
        turns.append(partition)
        assert ask.messages == messages
        receiver.reserve(partition, *["x"] * messages, more=True)

    assert sorted(turns) == [0, 1, 2, 3]
    assert [len(names) for _, names in receiver.handed] == [messages] * 4


def test_no_partition_waits_behind_the_backlog_of_another_one() -> None:
    receiver = Receiver()
    receiver.ask(500)
    receiver.reserve(0, *["x"] * 125, more=True)

    for _ in range(4):
        receiver.ask(500)
        # One whole frame of the full partition, and small asks of the others stay open.
        assert set(receiver.asked) == {0, 1, 2, 3}
        receiver.reserve(0, *["x"] * 500, more=True)
    receiver.ask(500)
    receiver.reserve(2, "waited")

    assert receiver.handed[-1][1] == ["waited"]


def test_a_hot_key_costs_no_more_than_a_plain_queue() -> None:
    receiver = Receiver()
    receiver.ask(500)
    receiver.reserve(1, *["x"] * 125, more=True)
    for _ in range(5):
        receiver.ask(500)
        assert receiver.asked[1].messages == 500
        receiver.reserve(1, *["x"] * 500, more=True)
        # The small asks of the others stay open: they are not asked each time.
        assert not receiver.withdrawn

    assert [len(names) for _, names in receiver.handed[1:]] == [500] * 5


def test_a_large_receive_does_not_wait_for_one_partition_that_ran_dry() -> None:
    receiver = Receiver()
    fill(receiver, 0, 1, 2, 3)
    receiver.ask(400)
    assert len(receiver.asked) == 1

    receiver.pass_time(partition_asks.BROADEN_MS)

    assert sorted(receiver.asked) == [0, 1, 2, 3]


def loop_quickly(receiver: Receiver, milliseconds: int) -> None:
    """Receive a message a millisecond, one at a time, as a plain loop does."""
    for _ in range(milliseconds):
        receiver.ask(1)
        while receiver.cache.waiting():
            partition = next(iter(receiver.asked))
            count = receiver.asked[partition].messages
            receiver.reserve(partition, *["m"] * count, more=True)
        receiver.now += 1


def test_for_a_quick_loop_partitions_are_asked_for_what_it_takes_in_a_moment() -> None:
    receiver = Receiver()

    loop_quickly(receiver, 3 * partition_asks.AHEAD_MS)
    while receiver.cache.cached():
        receiver.ask(1)
    receiver.asked.clear()
    receiver.ask(1)

    asked = [ask.messages for ask in receiver.asked.values()]
    assert sum(asked) > 10
    assert sum(asked) <= partition_asks.AHEAD_MAX


def test_a_slow_receiver_has_one_message_of_each_partition_asked_for() -> None:
    receiver = Receiver()
    for _ in range(10):
        receiver.ask(1)
        for partition in list(receiver.asked):
            assert receiver.asked[partition].messages == 1
            receiver.reserve(partition, "m", more=True)
        receiver.pass_time(2 * partition_asks.AHEAD_MS)


def test_what_was_asked_for_ahead_goes_back_soon_after_the_loop_stops() -> None:
    receiver = Receiver()
    loop_quickly(receiver, 3 * partition_asks.AHEAD_MS)
    while (held := receiver.cache.cached()) < 5:
        loop_quickly(receiver, 1)

    receiver.pass_time(receive_cache.AHEAD_IDLE_MS)

    assert receiver.cache.cached() == 0
    assert len(receiver.given_back) == held


def test_a_plain_queue_is_asked_for_exactly_what_is_wanted_also_by_a_quick_loop() -> None:
    receiver = Receiver(partitions=1)

    loop_quickly(receiver, 3 * partition_asks.AHEAD_MS)

    assert receiver.cache.cached() == 0


def leaving_s(count: int) -> float:
    """Return how long it takes until all receivers of a plain queue have left at once."""
    receiver = Receiver(partitions=1)
    waiting = [receiver.grant(1) for _ in range(count)]
    began_s = time.process_time()

    for tag in waiting:
        receiver.take(receiver.cache.drop([receiver.credits[tag]], receiver.now))

    assert receiver.cache.waiting() == 0
    assert not receiver.asked
    return time.process_time() - began_s


def test_a_receiver_that_leaves_costs_the_same_however_many_others_there_are() -> None:
    few_s = min(leaving_s(500) for _ in range(3))

    # Ten times as many receivers take ten times as long, and not a hundred times.
    assert leaving_s(5_000) < 40 * few_s


def test_of_the_asks_of_a_plain_queue_the_latest_ones_are_withdrawn() -> None:
    receiver = Receiver(partitions=1)
    asks = []
    for messages in (1, 2, 3):
        tag = receiver.grant(messages)
        asks.append((tag, receiver.asked[0]))

    receiver.cancel(asks[0][0])

    assert receiver.withdrawn[0].ask_id == asks[2][1].ask_id
    assert receiver.asked[0].messages == 2
