"""When a receive ends without messages: its wait, answers of partitions, alarms."""

from typing import Any

from bendybus.frontend.core import credit, partition_asks, receive_cache
from tests.frontend.receiver import Receiver


def test_a_receive_ends_empty_when_its_wait_is_over_and_partitions_say_that_they_have_none() -> (
    None
):
    receiver = Receiver()
    tag = receiver.ask(1, wait_ms=500)

    receiver.pass_time(500)
    assert receiver.handed == []
    receiver.confirm()

    assert receiver.handed == [(tag, [])]
    assert not receiver.unanswered


def test_a_receive_without_a_wait_gets_what_a_partition_has() -> None:
    receiver = Receiver()
    tag = receiver.ask(1, wait_ms=0)
    asked = dict(receiver.asked)

    receiver.pass_time(0)
    receiver.confirm(0, 1, 2)
    receiver.asked = asked
    receiver.reserve(3, "a")

    assert receiver.handed == [(tag, ["a"])]


def test_an_unreachable_queue_is_not_an_empty_one() -> None:
    receiver = Receiver(down=(0, 1, 2, 3))
    tag = receiver.ask(1, wait_ms=500)

    receiver.pass_time(500)

    assert receiver.unanswered == [tag]


def test_partitions_that_say_nothing_are_waited_for_only_briefly() -> None:
    receiver = Receiver()
    first, second = receiver.ask(1, wait_ms=500), receiver.ask(1, wait_ms=2_000)
    receiver.pass_time(500)
    receiver.confirm(2)

    receiver.pass_time(receive_cache.DRAIN_MS)
    receiver.asked.clear()
    receiver.withdrawn.clear()
    receiver.pass_time(2_000)
    receiver.pass_time(receive_cache.DRAIN_MS)

    assert receiver.handed == [(first, []), (second, [])]
    assert receiver.unanswered == [second]


def test_a_partition_that_is_lost_while_a_receive_ends_did_not_answer() -> None:
    receiver = Receiver(partitions=1)
    tag = receiver.ask(1, wait_ms=500)
    receiver.pass_time(500)

    receiver.take(receiver.cache.partition_lost(0, receiver.now))

    assert receiver.unanswered == [tag]


def test_receives_that_end_one_after_the_other_do_not_ask_partitions_each_time() -> None:
    receiver = Receiver()
    for wait_ms in (500, 700, 800):
        receiver.ask(1, wait_ms=wait_ms)
    receiver.pass_time(500)
    receiver.confirm()
    assert set(receiver.asked) == {0, 1, 2, 3}

    receiver.pass_time(200)

    assert not receiver.withdrawn
    assert [tag for tag, _ in receiver.handed] == [1, 2]


def test_a_cancelled_receive_is_answered_empty() -> None:
    receiver = Receiver()
    tag = receiver.ask(1)

    receiver.cancel(tag)

    assert receiver.handed == [(tag, [])]


def test_an_idle_link_needs_no_alarm() -> None:
    assert Receiver().cache.next_due() is None


def test_a_receiver_that_waits_while_a_partition_is_down_rings_no_alarm_for_it() -> None:
    receiver = Receiver(down=(3,))
    receiver.ask(400, wait_ms=60_000)

    receiver.pass_time(partition_asks.BROADEN_MS)

    assert receiver.cache.next_due() == receiver.now - partition_asks.BROADEN_MS + 60_000


def test_deadlines_of_receives_that_ended_early_are_forgotten() -> None:
    receiver = Receiver()
    receiver.ask(1, wait_ms=1_000, owner="slow")
    receiver.cache.pause("slow")
    for _ in range(10_000):
        receiver.cancel(receiver.ask(1, wait_ms=10**9))

    assert len(receiver.cache._credits._deadlines) <= credit.DEADLINES_SPARE + 10


def test_thousands_of_waits_that_end_together_cost_one_look_each() -> None:
    receiver = Receiver()
    for index in range(5_000):
        receiver.ask(1, wait_ms=1_000, owner=f"worker-{index}")
    compared = 0

    class Counting(dict[Any, Any]):
        def __iter__(self) -> Any:
            nonlocal compared
            compared += len(self)
            return super().__iter__()

    receiver.cache._credits._draining = Counting()
    receiver.pass_time(1_000)
    receiver.confirm()

    assert len(receiver.unanswered) == 0
    assert len(receiver.handed) == 5_000
    assert compared < 100 * 5_000
