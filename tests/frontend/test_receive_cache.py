"""Asks, cache and credit of one receiver."""

import itertools
from typing import Any

import pytest

from bendybus.frontend.core import cached_messages, partition_asks, receive_cache
from bendybus.frontend.core.receive_actions import (
    AskPartition,
    ClientAsk,
    GiveBack,
    HandOver,
    WithdrawAsk,
)
from bendybus.frontend.core.receive_cache import Cache


class Receiver:
    """A cache with a clock, and what it did."""

    def __init__(self, partitions: int = 4, down: tuple[int, ...] = ()) -> None:
        self.now = 10_000
        self.down = set(down)
        ids = itertools.count(1)
        self.cache = Cache(
            range(partitions), lambda p: p not in self.down, lambda: next(ids), self.now
        )
        self.tags = itertools.count(1)
        self.asked: dict[int, AskPartition] = {}
        self.handed: list[tuple[Any, list[str]]] = []
        self.unanswered: list[Any] = []
        self.given_back: list[str] = []
        self.withdrawn: dict[int, WithdrawAsk] = {}

    def take(self, actions: list[Any]) -> None:
        """Note what is to be done."""
        for action in actions:
            if isinstance(action, AskPartition):
                self.asked[action.partition] = action
            elif isinstance(action, WithdrawAsk):
                self.withdrawn[action.partition] = action
                self.asked.pop(action.partition, None)
            elif isinstance(action, HandOver):
                names = [n for data, start, end, _, _ in action.slices for n in data[start:end]]
                self.handed.append((action.tag, names))
                if action.unanswered:
                    self.unanswered.append(action.tag)
            else:
                assert isinstance(action, GiveBack)
                self.given_back += action.data[action.start : action.end]

    def ask(
        self, messages: int = 1, wait_ms: int = 1_000, size_bytes: int = 1 << 20, owner: str = "me"
    ) -> int:
        """Open a receive; return its tag."""
        tag = next(self.tags)
        ask = ClientAsk(tag, messages, size_bytes, self.now + wait_ms, owner)
        self.take(self.cache.ask(ask, self.now))
        return tag

    def reserve(
        self, partition: int, *names: str, more: bool = False, size: int = 10, lock_ms: int = 60_000
    ) -> None:
        """Let a partition answer its open ask."""
        ask = self.asked.pop(partition)
        self.take(
            self.cache.reserved(
                ask.ask_id,
                partition,
                list(names),
                [size] * len(names),
                locked_until_ms=self.now + lock_ms,
                lock_ms=lock_ms,
                more=more,
                now_ms=self.now,
            )
        )

    def confirm(self, *partitions: int) -> None:
        """Let partitions answer the withdrawal of their asks."""
        for partition in partitions or list(self.withdrawn):
            withdrawn = self.withdrawn.pop(partition)
            self.take(self.cache.ask_ended(withdrawn.ask_id, partition, self.now))

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock; what was due is done, so that no alarm rings again at once."""
        self.now += milliseconds
        self.take(self.cache.due(self.now))
        following = self.cache.next_due()
        assert following is None or following > self.now


@pytest.mark.requirement("R11")
@pytest.mark.requirement("R49")
def test_a_small_receive_asks_every_partition_for_one_message_at_once() -> None:
    receiver = Receiver()

    receiver.ask(3)

    assert {a.partition: a.messages for a in receiver.asked.values()} == dict.fromkeys(range(4), 1)


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

    receiver.pass_time(receive_cache.CLOSING_MS)
    receiver.asked.clear()
    receiver.withdrawn.clear()
    receiver.pass_time(2_000)
    receiver.pass_time(receive_cache.CLOSING_MS)

    assert receiver.handed == [(first, []), (second, [])]
    assert receiver.unanswered == [second]


def test_a_partition_that_is_lost_while_a_receive_ends_did_not_answer() -> None:
    receiver = Receiver(partitions=1)
    tag = receiver.ask(1, wait_ms=500)
    receiver.pass_time(500)

    receiver.take(receiver.cache.partition_lost(0))

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

    receiver.take(receiver.cache.cancel(second, receiver.now))
    assert set(receiver.withdrawn) == {0}
    receiver.take(receiver.cache.cancel(first, receiver.now))
    receiver.confirm()

    assert receiver.cache.next_due() is None


def test_what_comes_after_a_withdrawal_is_kept_for_the_next_receive() -> None:
    receiver = Receiver(partitions=1)
    tag = receiver.ask(2)
    asked = dict(receiver.asked)
    receiver.take(receiver.cache.cancel(tag, receiver.now))
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

    # The front end was suspended while they were on their way to it.
    receiver.take(
        receiver.cache.reserved(
            ask.ask_id,
            0,
            ["old"],
            [10],
            locked_until_ms=receiver.now + 1_000,
            lock_ms=10_000,
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

    receiver.take(receiver.cache.partition_lost(2))
    receiver.ask(9)

    assert receiver.handed[-1][1] == ["m1", "m3"]
    assert receiver.given_back == []


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


def test_a_cancelled_receive_is_answered_empty() -> None:
    receiver = Receiver()
    tag = receiver.ask(1)

    receiver.take(receiver.cache.cancel(tag, receiver.now))

    assert receiver.handed == [(tag, [])]


def test_an_idle_link_needs_no_alarm() -> None:
    assert Receiver().cache.next_due() is None


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


def test_a_receiver_that_waits_while_a_partition_is_down_rings_no_alarm_for_it() -> None:
    receiver = Receiver(down=(3,))
    receiver.ask(400, wait_ms=60_000)

    receiver.pass_time(partition_asks.BROADEN_MS)

    assert receiver.cache.next_due() == receiver.now - partition_asks.BROADEN_MS + 60_000


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
    receiver.cache._paused.clear()

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
    held = cached_messages.HeldBytes()
    ids = itertools.count(1)
    cache = Cache(range(4), lambda p: True, lambda: next(ids), 0, held)
    receiver = Receiver()
    receiver.cache = cache
    receiver.ask(1, owner="mine")
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", size=100)
    assert (held.total, held.by_owner) == (300, {"mine": 300})

    receiver.ask(1, owner="other")
    receiver.take(cache.partition_lost(2))
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
    receiver.pass_time(receive_cache.CLOSING_MS)

    assert receiver.handed == [(tag, [])]
    assert receiver.unanswered == [tag]


def test_deadlines_of_receives_that_ended_early_are_forgotten() -> None:
    receiver = Receiver()
    receiver.ask(1, wait_ms=1_000, owner="slow")
    receiver.cache.pause("slow")
    for _ in range(10_000):
        receiver.take(receiver.cache.cancel(receiver.ask(1, wait_ms=10**9), receiver.now))

    assert len(receiver.cache._deadlines) <= receive_cache.DEADLINES_SPARE + 10


def test_thousands_of_waits_that_end_together_cost_one_look_each() -> None:
    receiver = Receiver()
    for index in range(5_000):
        receiver.ask(1, wait_ms=1_000, owner=f"worker-{index}")
    compared = 0

    class Counting(dict[Any, Any]):
        def values(self) -> Any:
            nonlocal compared
            compared += len(self)
            return super().values()

    receiver.cache._closing = Counting()
    receiver.pass_time(1_000)
    receiver.confirm()

    assert len(receiver.unanswered) == 0
    assert len(receiver.handed) == 5_000
    assert compared < 100 * 5_000
