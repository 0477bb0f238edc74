"""What one entity takes of what all share: its part, and nothing that others have."""

from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition as D
from bendybus.domain.message_state import EVERY_STATE
from bendybus.partition_server.broker import inbox
from bendybus.partition_server.broker.inbox import Inbox
from bendybus.partition_server.state import budget, publications, shares, unfinished_work
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    DeleteMessages,
    EntityRef,
    SendFenced,
    Settle,
)
from bendybus.partition_server.state.due_times import DueTimes
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.shares import Shares
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver

PRODUCER = b"p" * 16


@pytest.fixture
def both(driver: Driver) -> Driver:
    """Return a partition with two queues, `orders` and `other`."""
    driver.create()
    driver.create("other")
    return driver


# Dealing out


@pytest.mark.parametrize(
    ("uses", "bound", "expected"),
    [
        ([], 9, 9),
        ([4], 9, 9),
        ([12], 9, 9),
        ([1, 20], 9, 8),
        ([1, 3, 20, 20], 10, 3),
        ([5, 5, 5], 10, 3),
        ([0, 0], 1, 1),
    ],
)
def test_a_level_is_what_each_may_have_at_most(uses: list[int], bound: int, expected: int) -> None:
    found = shares.level(uses, bound)

    assert found == expected
    assert sum(min(use, found) for use in uses) <= bound


@pytest.mark.requirement("R341")
def test_a_lone_user_has_all_but_the_last_tenth_and_others_find_some_of_it() -> None:
    known: Shares[str] = Shares()

    def take(user: str) -> int:
        taken = 0
        while known.has_room(user, 1, 100):
            known.add(user, 1)
            taken += 1
        return taken

    assert take("greedy") == 90
    assert [take(user) for user in "abc"] == [5, 3, 1]
    # What it gives back is free for all; users that hold less get it first.
    known.add("greedy", -60)
    assert take("a") >= 40
    assert take("greedy") == 0
    assert take("b") > 0


# Places: refused by name


def delay(driver: Driver, name: str, count: int) -> list[str]:
    """Abandon messages with a delay; return what is said to those that are refused."""
    [appended] = driver.run(Append("t", driver.ref(name), Batch([b"m"] * count)))
    assert isinstance(appended, Appended)
    [reserved] = driver.run(Ask("s", 9, driver.ref(name), False, count, 1 << 20))
    tokens = b"".join(token for _, token in driver.tokens(reserved))
    [settled] = driver.run(Settle("s", 1, D.ABANDON, tokens, delay_ms=60_000))
    return [str(error) for _, error in settled.failures]


@pytest.mark.requirement("R341")
def test_one_queue_cannot_take_all_places_for_delayed_messages(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DELAYED_MESSAGES_MAX", 40)

    refused = delay(both, "orders", 40)

    assert len(refused) == 4
    assert "'orders'" in refused[0]
    assert "36 of its messages" in refused[0]
    assert len(delay(both, "other", 3)) == 1
    both.restart()
    assert delay(both, "orders", 1)
    # What is over makes room.
    both.advance(60_000)
    assert delay(both, "other", 3) == []


@pytest.mark.requirement("R341")
def test_subscriptions_have_one_share_with_their_topic(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_changes.make_news(driver)
    driver.create()
    names = [e.name for e in driver.partition.state.catalogue.existing() if e.topic_key]

    users = {
        shares.user_of(entity)
        for entity in driver.partition.state.catalogue.existing()
        if entity.name in names
    }

    assert len(names) > 2
    assert users == {"news"}
    assert shares.user_of(driver.partition.state.catalogue.existing()[-1]) == "orders"


def fenced(driver: Driver, name: str, producer: int) -> Any:
    batch, id_ = Batch([b"m"]), b"%016d" % producer
    [value] = driver.run(SendFenced("t", driver.ref(name), id_, 1, [1], batch))
    return value


@pytest.mark.requirement("R341")
def test_one_queue_cannot_take_all_fences_and_none_is_forgotten(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 20)

    given = [fenced(both, "orders", n) for n in range(20)]

    refused = [value.error for value in given if isinstance(value, Failed)]
    assert len(refused) == 2
    assert isinstance(refused[0], errors.QuotaExceeded)
    assert "remembers 18 producers of its data pipelines" in str(refused[0])
    assert not isinstance(fenced(both, "other", 100), Failed)
    assert [fenced(both, "orders", n).repeated for n in range(18)] == [1] * 18


@pytest.mark.requirement("R437")
def test_producers_that_are_refused_are_not_counted_again_for_each(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 20)
    counted = counts_of_fences(both, monkeypatch)

    given = [fenced(both, "orders", n) for n in range(100)]

    assert sum(isinstance(value, Failed) for value in given) == 82
    assert len(counted) == 1
    # What became free is seen within a second.
    both.advance(limits.FENCE_MS + shares.COUNT_MS)
    assert not isinstance(fenced(both, "orders", 100), Failed)
    assert len(counted) == 2


@pytest.mark.requirement("R437")
def test_a_producer_whose_commit_failed_takes_no_place(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 20)
    for n in range(17):
        fenced(both, "orders", n)
    for n in range(17, 27):
        command = SendFenced("t", both.ref("orders"), b"%016d" % n, 1, [1], Batch([b"m"]))
        both.partition.take_back(both.partition.decide([command], both.now))

    assert not isinstance(fenced(both, "orders", 30), Failed)
    assert isinstance(fenced(both, "orders", 31), Failed)


def counts_of_fences(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry each time that all producers are counted."""
    pipelines, counted = driver.store.pipelines, list[int]()
    real = pipelines.fence_counts

    def counts(since_ms: int = 0) -> dict[int, int]:
        counted.append(since_ms)
        return real(since_ms)

    monkeypatch.setattr(pipelines, "fence_counts", counts)
    return counted


@pytest.mark.requirement("R341")
def test_one_queue_cannot_have_all_batch_deletes_under_way(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_work, "DELETIONS_MAX", 10)
    monkeypatch.setattr(budget, "TURN_ROWS", 2)
    for name in ("orders", "other"):
        both.run(Append("t", both.ref(name), Batch([b"m"] * 99)))

    def delete(name: str) -> list[Any]:
        return both.run(DeleteMessages("t", both.ref(name), 99, 0, EVERY_STATE))

    assert [bool(delete("orders")) for _ in range(10)] == [False] * 9 + [True]
    assert delete("other") == []


@pytest.mark.requirement("R341")
def test_settlements_of_one_queue_that_wait_leave_room_for_those_of_others(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 2)
    tokens = {}
    for name in ("orders", "other"):
        both.run(Append("t", both.ref(name), Batch([b"m"] * 40)))
        [reserved] = both.run(Ask("s", 9, both.ref(name), False, 40, 1 << 20))
        tokens[name] = [token for _, token in both.tokens(reserved)]
    one = Settle("s", 1, D.DEFER, b"".join(tokens["orders"][:4]))
    monkeypatch.setattr(unfinished_work, "BYTES_MAX", 10 * unfinished_work.size_bytes(one))

    frames = [
        Settle("s", n, D.DEFER, b"".join(tokens["orders"][4 * n : 4 * n + 4])) for n in range(10)
    ]
    busy = [value for value in both.run(*frames) if value.failures]
    answers = both.run(Settle("s", 11, D.DEFER, b"".join(tokens["other"][:4])))

    assert len(busy) == 1
    assert all(isinstance(error, errors.ServerBusy) for _, error in busy[0].failures)
    assert answers == []


@pytest.mark.requirement("R341")
def test_sends_of_one_queue_that_wait_leave_room_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "SEND_FRAMES_MAX", 20)
    waiting = Inbox()

    def put(uid: str) -> bool:
        return waiting.put(Append("t", EntityRef(uid, 1), Batch([b"m"])))

    assert [put("a") for _ in range(20)] == [True] * 18 + [False] * 2
    assert put("b")
    waiting.take(0)
    assert put("a")


@pytest.mark.requirement("R341")
def test_frames_of_one_topic_that_wait_leave_room_for_those_of_others(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = publications.Publications()
    frame = publications.Frame(Append("t", EntityRef("u", 1), Batch([b"m" * 1_000])))
    monkeypatch.setattr(publications, "BYTES_MAX", 30 * frame.size_bytes())
    from bendybus.partition_server.state.stage import Stage

    def park(slot: int) -> None:
        known.check_room(slot, frame)
        known.park(Stage(Journal(), DueTimes(Journal())), slot, frame)

    for _ in range(27):
        park(1)
    with pytest.raises(errors.ServerBusy, match="of the topic"):
        park(1)
    park(2)
    park(2)
