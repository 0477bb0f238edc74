"""Asks, cache and credit of one receiver."""

import itertools
from typing import Any

import pytest

from bendybus.frontend import receiving
from bendybus.frontend.receiving import (
    AskPartition,
    ClientAsk,
    GiveBack,
    HandOver,
    Link,
    WithdrawAsk,
)


class Receiver:
    """A link with a clock, and what it did."""

    def __init__(self, partitions: int = 4, down: tuple[int, ...] = ()) -> None:
        self.now = 10_000
        self.down = set(down)
        ids = itertools.count(1)
        self.link = Link(
            range(partitions), lambda p: p not in self.down, lambda: next(ids), self.now
        )
        self.tags = itertools.count(1)
        self.asked: dict[int, AskPartition] = {}
        self.handed: list[tuple[Any, list[str]]] = []
        self.given_back: list[str] = []
        self.withdrawn: list[int] = []

    def take(self, actions: list[Any]) -> None:
        """Note what is to be done."""
        for action in actions:
            if isinstance(action, AskPartition):
                self.asked[action.partition] = action
            elif isinstance(action, WithdrawAsk):
                self.withdrawn.append(action.partition)
                self.asked.pop(action.partition, None)
            elif isinstance(action, HandOver):
                names = [n for data, start, end, _ in action.slices for n in data[start:end]]
                self.handed.append((action.tag, names))
            else:
                assert isinstance(action, GiveBack)
                self.given_back += action.data[action.start : action.end]

    def ask(self, messages: int = 1, wait_ms: int = 1_000, size_bytes: int = 1 << 20) -> int:
        """Open a receive; return its tag."""
        tag = next(self.tags)
        self.take(self.link.ask(ClientAsk(tag, messages, size_bytes, self.now + wait_ms), self.now))
        return tag

    def reserve(self, partition: int, *names: str, complete: bool = False, size: int = 10) -> None:
        """Let a partition answer its open ask."""
        ask = self.asked[partition]
        if complete:
            del self.asked[partition]
        self.take(
            self.link.reserved(
                ask.ask_id,
                partition,
                list(names),
                [size] * len(names),
                lock_remaining_ms=60_000,
                complete=complete,
                now_ms=self.now,
            )
        )

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock; what was due is done, so that no alarm rings again at once."""
        self.now += milliseconds
        self.take(self.link.due(self.now))
        following = self.link.next_due()
        assert following is None or following > self.now


@pytest.mark.requirement("R11")
def test_a_small_receive_asks_every_partition_for_one_message_at_once() -> None:
    receiver = Receiver()

    receiver.ask(3)

    assert {a.partition: a.messages for a in receiver.asked.values()} == dict.fromkeys(range(4), 1)


@pytest.mark.requirement("R11")
def test_the_first_message_that_arrives_is_handed_over_at_once() -> None:
    receiver = Receiver()
    tag = receiver.ask(3)

    receiver.reserve(2, "a", complete=True)

    assert receiver.handed == [(tag, ["a"])]


@pytest.mark.requirement("R12")
def test_what_other_partitions_gave_is_cached_and_handed_over_by_the_next_receive() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", complete=True)

    second = receiver.ask(2)

    assert receiver.handed[1] == (second, ["m1", "m2"])
    assert receiver.link.cached() == 1


def test_a_receive_hands_over_no_more_than_was_asked_for() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(5)
    receiver.reserve(0, "a", "b", complete=False)

    assert receiver.handed == [(1, ["a", "b"])]


def test_a_receive_without_messages_ends_empty_when_its_wait_is_over() -> None:
    receiver = Receiver()
    tag = receiver.ask(1, wait_ms=500)

    receiver.pass_time(499)
    assert receiver.handed == []
    receiver.pass_time(1)

    assert receiver.handed == [(tag, [])]


def test_asks_that_nobody_waits_for_are_withdrawn() -> None:
    receiver = Receiver()
    receiver.ask(1, wait_ms=500)
    receiver.pass_time(500)

    receiver.pass_time(receiving.WITHDRAW_MS)

    assert sorted(receiver.withdrawn) == [0, 1, 2, 3]


def test_a_plain_queue_is_asked_for_exactly_the_callers_credit() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(5)
    assert receiver.asked[0].messages == 5

    receiver.reserve(0, "a")

    assert receiver.withdrawn == [0]


def test_what_comes_after_a_withdrawal_is_kept_for_the_next_receive() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(2, wait_ms=100)
    asked = dict(receiver.asked)
    receiver.pass_time(100)
    receiver.asked = asked

    receiver.reserve(0, "late", complete=True)
    receiver.ask(1)

    assert receiver.handed[-1][1] == ["late"]


@pytest.mark.requirement("R36")
def test_an_idle_receiver_gives_its_cache_back() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", complete=True)

    receiver.pass_time(receiving.IDLE_MS - 1)
    assert receiver.given_back == []
    receiver.pass_time(1)

    assert receiver.given_back == ["m1", "m2", "m3"]
    assert receiver.link.idle(receiver.now)


@pytest.mark.requirement("R36")
def test_a_receiver_that_ends_gives_everything_back() -> None:
    receiver = Receiver()
    receiver.ask(1)
    receiver.reserve(0, "a", complete=True)
    receiver.reserve(1, "b", complete=True)

    receiver.take(receiver.link.close())

    assert receiver.given_back == ["b"]
    assert sorted(receiver.withdrawn) == [2, 3]


def test_what_arrives_for_a_closed_receiver_goes_back() -> None:
    receiver = Receiver()
    receiver.ask(1)
    asked = dict(receiver.asked)
    receiver.take(receiver.link.close())
    receiver.asked = asked

    receiver.reserve(3, "late", complete=True)

    assert receiver.given_back == ["late"]


def test_a_message_is_handed_over_only_with_half_of_its_lock_left() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", complete=True)
    for _ in range(8):
        # The receiver is in use, so that idleness is not what gives the cache back.
        receiver.now += 3_750
        receiver.take(receiver.link.ask(ClientAsk("x", 0, 1, receiver.now), receiver.now))

    receiver.pass_time(1)

    assert receiver.link.cached() == 0


def test_a_partition_that_is_lost_takes_its_cached_messages_with_it() -> None:
    receiver = Receiver()
    receiver.ask(1)
    for partition in range(4):
        receiver.reserve(partition, f"m{partition}", complete=True)

    receiver.take(receiver.link.partition_lost(2))
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

    receiver.take(receiver.link.partition_back(3, receiver.now))

    assert sorted(receiver.asked) == [3]


def test_large_receives_get_whole_frames_from_partitions_in_turn() -> None:
    receiver = Receiver()
    receiver.ask(400)
    for partition in range(4):
        receiver.reserve(partition, *["x"] * receiver.asked[partition].messages, complete=True)
    receiver.ask(400)
    receiver.asked.clear()

    turns = []
    for _ in range(4):
        receiver.ask(400)
        [(partition, ask)] = receiver.asked.items()
        turns.append(partition)
        assert ask.messages == 400
        receiver.reserve(partition, *["x"] * 400, complete=True)

    assert sorted(turns) == [0, 1, 2, 3]


def test_a_large_receive_does_not_wait_for_one_partition_that_ran_dry() -> None:
    receiver = Receiver()
    receiver.ask(400)
    receiver.reserve(0, *["x"] * 100, complete=True)
    for partition in (1, 2, 3):
        receiver.take(
            receiver.link.ask_ended(receiver.asked.pop(partition).ask_id, partition, receiver.now)
        )
    receiver.ask(400)
    assert sorted(receiver.asked) == [0]

    receiver.pass_time(receiving.BROADEN_MS)

    assert sorted(receiver.asked) == [0, 1, 2, 3]


def test_receives_are_answered_in_their_order() -> None:
    receiver = Receiver(partitions=1)
    first, second = receiver.ask(1), receiver.ask(1)

    receiver.reserve(0, "a", "b", complete=True)

    assert receiver.handed == [(first, ["a"]), (second, ["b"])]


def test_a_receive_is_bounded_in_bytes_but_gets_one_message() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(5, size_bytes=25)
    receiver.reserve(0, "a", "b", "c", complete=True, size=10)
    receiver.ask(5, size_bytes=1)

    assert [names for _, names in receiver.handed] == [["a", "b"], ["c"]]


def test_a_cancelled_receive_is_answered_empty() -> None:
    receiver = Receiver()
    tag = receiver.ask(1)

    receiver.take(receiver.link.cancel(tag, receiver.now))

    assert receiver.handed == [(tag, [])]


def test_an_idle_link_needs_no_alarm() -> None:
    assert Receiver().link.next_due() is None


def test_nothing_is_handed_over_or_asked_for_while_the_client_does_not_read() -> None:
    receiver = Receiver(partitions=1)
    receiver.ask(5)
    receiver.link.pause()

    receiver.reserve(0, "a")
    assert receiver.handed == []
    receiver.take(receiver.link.resume(receiver.now))

    assert receiver.handed == [(1, ["a"])]


def test_a_receiver_that_waits_while_a_partition_is_down_rings_no_alarm_for_it() -> None:
    receiver = Receiver(down=(3,))
    receiver.ask(400, wait_ms=60_000)

    receiver.pass_time(receiving.BROADEN_MS)

    assert receiver.link.next_due() == receiver.now - receiving.BROADEN_MS + 60_000


def test_a_paused_receiver_rings_no_alarm() -> None:
    receiver = Receiver()
    receiver.ask(400, wait_ms=60_000)
    receiver.link.pause()
    receiver.reserve(0, "a")

    receiver.pass_time(receiving.BROADEN_MS)

    assert receiver.link.next_due() > receiver.now + 1_000  # type: ignore[operator]


def test_large_receives_that_asked_at_different_times_still_ask_the_others() -> None:
    receiver = Receiver()
    receiver.ask(400)
    for partition in (0, 1):
        receiver.reserve(partition, f"m-{partition}", complete=True)
    for partition in (2, 3):
        ask = receiver.asked.pop(partition)
        receiver.take(receiver.link.ask_ended(ask.ask_id, partition, receiver.now))
    receiver.ask(1)
    # Both had messages: each is asked first, by receives that come one after the other.
    receiver.ask(150, wait_ms=60_000)
    receiver.pass_time(receiving.BROADEN_MS // 2)
    receiver.ask(150, wait_ms=60_000)
    assert set(receiver.asked) == {0, 1}

    until = receiver.now + 2 * receiving.BROADEN_MS
    while (due := receiver.link.next_due()) is not None and due <= until:
        receiver.pass_time(due - receiver.now)

    assert set(receiver.asked) == {0, 1, 2, 3}
