"""Small sends go together, are spread evenly and have turns: time is passed in."""

from collections import Counter
from dataclasses import dataclass

import pytest

from bendybus.domain import limits
from bendybus.frontend.core.send_lines import (
    BYTES_MAX,
    HOLD_S,
    MESSAGES_MAX,
    REQUESTS_MAX,
    Batch,
    SendLine,
)
from bendybus.partition_server.state import producer_memory

pytestmark = pytest.mark.requirement("R639")


@dataclass(frozen=True)
class Send:
    """A request of a connection."""

    connection: str
    number: int = 0
    count: int = 1
    size_bytes: int = 300
    policy: str = ""


def line(partitions: int, first: int = 0) -> SendLine[Send]:
    return SendLine(range(partitions), first)


def pinned() -> SendLine[Send]:
    return SendLine((3,), 0)


def reached(_: int) -> bool:
    return True


def taken(batch: Batch[Send] | None) -> list[tuple[str, int]]:
    assert batch is not None
    return [(each.connection, each.number) for each in batch.requests]


def test_what_comes_while_a_batch_is_under_way_goes_with_the_next() -> None:
    waiting = pinned()
    waiting.put(Send("a", 1))
    first = waiting.next(0.0, reached)
    for name in "bcd":
        waiting.put(Send(name, 1))

    assert taken(first) == [("a", 1)]
    assert waiting.next(0.0, reached) is None
    waiting.answered(3, 0.0)
    assert taken(waiting.next(0.0, reached)) == [("b", 1), ("c", 1), ("d", 1)]
    assert waiting.next(0.0, reached) is None
    waiting.answered(3, 0.0)
    assert waiting.is_idle


def test_what_must_not_wait_is_sent_behind_what_is_under_way_and_without_others() -> None:
    waiting = pinned()
    waiting.put(Send("a", 1))
    waiting.next(0.0, reached)
    for send in (Send("a", 2), Send("b", 1), Send("a", 3)):
        waiting.put(send)

    assert taken(waiting.next_of("a")) == [("a", 2), ("a", 3)]
    assert waiting.next_of("a") is None
    waiting.answered(3, 0.0)
    # One of the two is still under way.
    assert waiting.next(0.0, reached) is None
    waiting.answered(3, 0.0)
    assert taken(waiting.next(0.0, reached)) == [("b", 1)]


def test_what_must_not_wait_is_bounded_as_any_batch() -> None:
    waiting = pinned()
    for number in range(REQUESTS_MAX + 1):
        waiting.put(Send("a", number))

    assert len(taken(waiting.next_of("a"))) == REQUESTS_MAX
    assert taken(waiting.next_of("a")) == [("a", REQUESTS_MAX)]
    assert not waiting


@pytest.mark.parametrize("size_bytes", [20, 300])
def test_a_connection_with_very_much_waits_for_the_turns_of_others(size_bytes: int) -> None:
    waiting = pinned()
    for number in range(1_000):
        waiting.put(Send("many", number, size_bytes=size_bytes))
    waiting.put(Send("one"))

    found = []
    for batch in range(2):
        order = taken(waiting.next(0.0, reached))
        waiting.answered(3, 0.0)
        found += order
        # It sends on as fast as it is answered.
        for number in range(len(order)):
            waiting.put(Send("many", 1_000 * (batch + 1) + number, size_bytes=size_bytes))

    assert ("one", 0) in found


def test_connections_have_turns_and_each_keeps_its_order() -> None:
    waiting = pinned()
    for number in range(100):
        waiting.put(Send("many", number, size_bytes=1_000))
    for number in range(3):
        waiting.put(Send("large", number, size_bytes=10_000))
    waiting.put(Send("one", 0))

    order = taken(waiting.next(0.0, reached))

    assert order[:5] == [("many", 0), ("large", 0), ("one", 0), ("many", 1), ("large", 1)]
    for name in ("many", "large"):
        numbers = [number for name_, number in order if name_ == name]
        assert numbers == sorted(numbers)
    assert len(order) == 104


def test_connections_with_many_requests_leave_room_in_each_batch() -> None:
    waiting = pinned()
    for number in range(20 * 100):
        waiting.put(Send(f"many-{number // 20}", number, size_bytes=40))
    waiting.put(Send("one"))

    assert ("one", 0) in taken(waiting.next(0.0, reached))


def test_policies_have_turns_however_many_connections_each_has() -> None:
    waiting = pinned()
    for number in range(1_000):
        waiting.put(Send(f"many-{number}", number, policy="theirs"))
    waiting.put(Send("one", 1, policy="mine"))
    waiting.put(Send("two", 1, policy="mine"))
    waiting.put(Send("one", 2, policy="mine"))

    order = taken(waiting.next(0.0, reached))

    assert order[1:7:2] == [("one", 1), ("two", 1), ("one", 2)]
    assert order[::2][:4] == [(f"many-{number}", number) for number in range(4)]
    assert len(order) == REQUESTS_MAX


def test_a_connection_that_changes_its_policy_keeps_its_order() -> None:
    waiting = pinned()
    for number in range(5):
        waiting.put(Send("a", number, policy=f"policy-{number % 2}"))

    assert taken(waiting.next(0.0, reached)) == [("a", number) for number in range(5)]
    waiting.answered(3, 0.0)
    waiting.put(Send("a", 5, policy="policy-1"))
    assert taken(waiting.next_of("a")) == [("a", 5)]
    waiting.answered(3, 0.0)
    assert waiting.is_idle


@pytest.mark.parametrize(
    ("send", "most"),
    [
        (Send("a"), REQUESTS_MAX),
        (Send("a", count=16), MESSAGES_MAX // 16),
        (Send("a", size_bytes=16_000), BYTES_MAX // 16_000),
    ],
)
def test_a_batch_is_bounded_in_requests_messages_and_bytes(send: Send, most: int) -> None:
    waiting = pinned()
    for _ in range(most + 1):
        waiting.put(send)

    assert len(taken(waiting.next(0.0, reached))) == most
    waiting.answered(3, 0.0)
    assert len(taken(waiting.next(0.0, reached))) == 1


def test_one_client_that_awaits_each_send_goes_round_the_partitions() -> None:
    waiting = line(16, first=5)
    found = []
    for number in range(160):
        waiting.put(Send("a", number))
        batch = waiting.next(number * 0.001, reached)
        assert batch is not None
        found.append(batch.partition)
        waiting.answered(batch.partition, number * 0.001)

    assert Counter(found) == dict.fromkeys(range(16), 10)
    assert found[:3] == [5, 6, 7]


def test_a_slow_partition_holds_up_only_what_is_bound_for_it() -> None:
    waiting = line(4)
    waiting.put(Send("a"))
    stuck = waiting.next(0.0, reached)
    assert stuck is not None

    done = 0
    for number in range(1_000):
        waiting.put(Send("b", number))
        batch = waiting.next(number * 0.001, reached)
        assert batch is not None
        assert batch.partition != stuck.partition
        done += len(batch.requests)
        waiting.answered(batch.partition, number * 0.001)
    assert done == 1_000


def test_partitions_that_do_not_answer_soon_hold_up_no_others() -> None:
    waiting = line(4)
    now_s = 10.0
    # Much was sent within the last second, so what few clients send is far from a run.
    for number in range(4_000):
        waiting.put(Send("a", number))
        batch = waiting.next(now_s + number * 0.0002, reached)
        assert batch is not None
        waiting.answered(batch.partition, now_s + number * 0.0002)
    now_s += 0.8
    stuck = set()
    for name in "ab":
        waiting.put(Send(name))
        batch = waiting.next(now_s, reached)
        assert batch is not None
        stuck.add(batch.partition)

    waiting.put(Send("c"))
    assert waiting.next(now_s, reached) is None
    for number in range(1_000):
        now_s += 0.0005
        batch = waiting.next(now_s + HOLD_S, reached)
        assert taken(batch) == [("c", number)]
        assert batch is not None
        assert batch.partition not in stuck
        waiting.answered(batch.partition, now_s + HOLD_S)
        waiting.put(Send("c", number + 1))


def test_a_batch_that_takes_longer_than_usual_holds_up_smaller_ones_no_more() -> None:
    waiting = line(4)
    now_s = 10.0
    for number in range(200):
        waiting.put(Send("a", number))
        batch = waiting.next(now_s, reached)
        assert batch is not None
        now_s += 0.005
        waiting.answered(batch.partition, now_s)
    for name in "abc":
        waiting.put(Send(name))
    stuck = waiting.next(now_s, reached)
    assert stuck is not None

    waiting.put(Send("d"))
    assert waiting.next(now_s + 0.009, reached) is None
    assert waiting.held_up_s(now_s + 0.009) == pytest.approx(0.001)
    assert taken(waiting.next(now_s + 0.0101, reached)) == [("d", 0)]


def test_whole_runs_use_every_free_partition() -> None:
    waiting = line(8)
    for client in range(64):
        waiting.put(Send(f"c{client}"))

    batches = []
    while batch := waiting.next(0.0, reached):
        batches.append(batch)

    assert len({each.partition for each in batches}) == len(batches) == 8


def test_what_cannot_be_reached_gets_nothing_and_does_not_catch_up_all_at_once() -> None:
    waiting = line(4)
    away = {2}
    found: list[int] = []

    def send(number: int) -> None:
        waiting.put(Send("a", number))
        batch = waiting.next(number * 0.001, lambda each: each not in away)
        assert batch is not None
        found.append(batch.partition)
        waiting.answered(batch.partition, number * 0.001)

    for number in range(3_000):
        send(number)
    assert 2 not in found
    away.clear()
    found.clear()
    for number in range(3_000, 7_000):
        send(number)

    assert found[:1] == [2]
    assert found.count(2) < 1_400
    # The sends learn that none can be reached.
    away |= {0, 1, 2, 3}
    send(7_000)


def test_a_line_without_waiting_sends_is_idle_only_when_all_are_answered() -> None:
    waiting = pinned()
    waiting.put(Send("a"))
    waiting.put(Send("b"))

    assert (bool(waiting), waiting.is_idle) == (True, False)
    waiting.next(0.0, reached)
    assert (bool(waiting), waiting.is_idle) == (False, False)
    waiting.answered(3, 0.0)
    assert waiting.is_idle


def test_a_partition_remembers_batches_for_longer_than_sends_are_repeated() -> None:
    """A partition recognises a repeat while it remembers the batch: one entry of 65,536."""
    waiting, batches, under_way = pinned(), 0, 0
    # 15,000 sends a second for two seconds, to a partition that answers within a millisecond.
    for millisecond in range(2_000):
        if under_way:
            waiting.answered(3, millisecond / 1_000)
            under_way = 0
        for number in range(15):
            waiting.put(Send(f"client{number}", millisecond))
        if waiting.next(millisecond / 1_000, reached) is not None:
            batches, under_way = batches + 1, 1

    remembered_s = producer_memory.ENTRIES_MAX / (batches / 2)
    assert remembered_s > limits.SEND_TIMEOUT_MS_DEFAULT / 1_000
