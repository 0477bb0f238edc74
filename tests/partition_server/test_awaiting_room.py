"""Scheduled messages that are due and find no room in their topic: they wait, and come."""

from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.domain.disposition import Disposition as D
from bendybus.partition_server.rules import publish, room
from bendybus.partition_server.state import awaiting_room
from bendybus.partition_server.state.answers import Done
from bendybus.partition_server.state.awaiting_room import AwaitingRoom
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CancelScheduled,
    Counts,
    Deliver,
    Settle,
)
from bendybus.partition_server.state.journal import Journal
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head
from tests.partition_server.running_partition import Runner
from tests.partition_server.test_due_times import Reads

# What a scheduled message takes at its topic, about; a copy of it, as much again.
LARGE = head(text="x" * 400)
BODY = b"b" * 50


def capacity(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    """Let entities have so many bytes, a multiple of their megabytes."""
    monkeypatch.setattr(limits, "MB", -(-size_bytes // limits.QUEUE_SIZE_MB_DEFAULT))


def schedule(driver: Driver, *names: bytes, name: str = "news", **columns: Any) -> list[int]:
    """Schedule messages, due in a second, in two, …; return their numbers."""
    count = len(names)
    batch = Batch(
        [BODY] * count,
        message_ids=[each.decode() for each in names],
        heads=[LARGE] * count,
        formats=[1] * count,
        scheduled_ms=[driver.wall_ms + 1_000 * (n + 1) for n in range(count)],
        **columns,
    )
    [value] = driver.run(Append("t", driver.ref(name), batch, [1] * count))
    assert not value.failures, value
    return list(value.numbers)


def received(driver: Driver, name: str = "news/Subscriptions/a") -> list[str]:
    """Receive and complete what is there of a subscription; return the ids of the messages."""
    from bendybus.partition_server.state.answers import Reserved
    from bendybus.partition_server.state.commands import Ask, Withdraw

    answers = driver.run(Ask("s", 99, driver.ref(name), False, 50, 1 << 20), Withdraw("s", 99))
    pairs = [p for each in answers if isinstance(each, Reserved) for p in driver.tokens(each)]
    if pairs:
        tokens = b"".join(token for _, token in pairs)
        driver.run(Deliver("s", 1, tokens), Settle("s", 1, D.COMPLETE, tokens))
    return [row.message_id for row, _ in pairs]


def topic_slot(driver: Driver) -> int:
    """Return the slot of the topic."""
    return driver.partition.state.queues.main_of(driver.ref("news").uid).slot


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return topic_changes.make_news(driver)


@pytest.mark.requirement("R343")
def test_a_scheduled_message_without_room_for_its_copies_waits_and_comes_in_its_order(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity(monkeypatch, 2_048)
    _, _, third = schedule(news, b"1", b"2", b"3")

    news.advance(10_000)
    size_bytes = room.measured(
        news.partition.state, news.partition.state.queues.main_of(news.ref("news").uid)
    )
    assert size_bytes <= 2_048
    assert received(news) == []
    assert news.counts_of("news").scheduled == 3
    assert news.partition.state.awaiting.count() == 3

    # It can be cancelled; that makes room for one.
    assert isinstance(news.run(CancelScheduled("t", news.ref("news"), [third]))[0], Done)
    news.advance(1)
    assert received(news) == ["1"]
    # What is completed makes room for the next one.
    news.advance(1)
    assert received(news) == ["2"]
    assert received(news, "news/Subscriptions/b") == ["1", "2"]
    assert news.partition.state.awaiting.count() == 0
    assert news.partition.sweep(news.now) is None


@pytest.mark.requirement("R343")
def test_what_waits_for_room_comes_within_a_second_whatever_made_it(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        capacity(patched, 1_024)
        schedule(news, b"1")
        news.advance(5_000)
        news.advance(2_000)
        assert received(news) == []

    news.advance(awaiting_room.RETRY_MS)

    assert received(news) == ["1"]


@pytest.mark.requirement("R343")
def test_what_waits_for_room_comes_after_a_restart_too(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        capacity(patched, 1_024)
        schedule(news, b"1")
        news.advance(5_000)
        news.restart()
        news.sweep()
        assert received(news) == []
        assert news.partition.state.awaiting.count() == 1

    news.advance(awaiting_room.RETRY_MS)

    assert received(news) == ["1"]


@pytest.mark.requirement("R343")
def test_the_time_to_live_of_what_waited_counts_from_when_it_was_due(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        capacity(patched, 1_024)
        due_ms = news.wall_ms + 1_000
        schedule(news, b"1", time_to_live_ms=[20_000])
        news.advance(10_000)

    news.advance(awaiting_room.RETRY_MS)
    queue = news.partition.state.queues.main_of(news.ref("news/Subscriptions/a").uid)
    [row] = news.store.browse(queue.slot, 0, 9, 1 << 20)
    assert row.expires_ms == due_ms + 20_000
    news.advance(20_000)

    assert received(news) == []


@pytest.mark.requirement("R343")
def test_what_would_have_room_does_not_overtake_what_waits(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        capacity(patched, 1_024)
        schedule(news, b"large")
        due = [news.wall_ms + 3_000]
        small = Batch([b""], ["small"], heads=[b""], formats=[1], scheduled_ms=due)
        news.run(Append("t", news.ref("news"), small))
        news.advance(2_000)
        news.advance(2_000)
        assert received(news) == []

    news.advance(awaiting_room.RETRY_MS)

    assert received(news) == ["large", "small"]


@pytest.mark.requirement("R343")
def test_other_topics_and_queues_do_not_wait_for_the_room_of_one(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_changes.topic(news, "small")
    topic_changes.subscription(news, "small/Subscriptions/a")
    news.create()
    capacity(monkeypatch, 1_024)
    schedule(news, b"1")
    schedule(news, b"2", name="small")
    schedule(news, b"3", name="orders")

    news.advance(5_000)

    assert received(news) == []
    assert received(news, "small/Subscriptions/a") == ["2"]
    assert received(news, "orders") == ["3"]


@pytest.mark.requirement("R343")
def test_so_many_that_wait_are_known_and_the_others_come_behind_them(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 2)
    with monkeypatch.context() as patched:
        capacity(patched, 6 * 1_024)
        schedule(news, *[b"%d" % n for n in range(9)])
        patched.setattr(limits, "MB", 1)
        news.advance(5_000)
        # Those that become due later wait behind them.
        news.advance(10_000)
        assert news.partition.state.awaiting.count() == 2

    news.advance(awaiting_room.RETRY_MS)

    assert received(news) == [str(n) for n in range(9)]
    assert received(news, "news/Subscriptions/b") == [str(n) for n in range(9)]


@pytest.mark.requirement("R436")
def test_what_waits_is_not_gone_through_again_for_each_few_that_find_room(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 5)
    capacity(monkeypatch, 60 * 1_024)
    names = [str(n) for n in range(60)]
    schedule(news, *map(str.encode, names))
    # Room for some copies at a time.
    capacity(monkeypatch, news.counts_of("news").size_bytes + 2 * 1_024)
    news.advance(100_000)
    reads, came = Reads(news.store, monkeypatch), list[str]()

    for _ in range(200):
        received(news, "news/Subscriptions/b")
        came += received(news)
        news.advance(1)

    assert came == names
    assert reads.summaries <= len(names)
    assert not news.partition.state.awaiting.waits(topic_slot(news))


@pytest.mark.requirement("R436")
def test_those_behind_the_known_ones_are_of_the_topic_alone(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 2)
    topic_changes.topic(news, "other")
    for each in ("a", "b"):
        topic_changes.subscription(news, f"other/Subscriptions/{each}")
    with monkeypatch.context() as patched:
        capacity(patched, 20 * 1_024)
        for name in ("news", "other"):
            schedule(news, *[b"%s%d" % (name.encode(), n) for n in range(7)], name=name)
        patched.setattr(limits, "MB", 1)
        news.advance(20_000)

    news.advance(awaiting_room.RETRY_MS)

    for name in ("news", "other"):
        assert received(news, f"{name}/Subscriptions/a") == [f"{name}{n}" for n in range(7)]


@pytest.mark.requirement("R436")
def test_those_behind_the_known_ones_may_be_cancelled_or_not_be_due_any_more(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 2)
    with monkeypatch.context() as patched:
        capacity(patched, 20 * 1_024)
        numbers = schedule(news, *[b"%d" % n for n in range(6)])
        patched.setattr(limits, "MB", 1)
        news.advance(20_000)
        news.run(CancelScheduled("t", news.ref("news"), numbers[2:4]))
        # Of what is left behind the known ones, nothing is due for now.
        news.wall_ms -= 18_000

    news.advance(awaiting_room.RETRY_MS)
    assert received(news) == ["0", "1"]
    news.advance(60_000)

    assert received(news) == ["4", "5"]


@pytest.mark.requirement("R464")
def test_those_that_a_clock_set_back_makes_due_later_come_then(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 2)
    with monkeypatch.context() as patched:
        capacity(patched, 20 * 1_024)
        schedule(news, *[b"%d" % n for n in range(6)])
        patched.setattr(limits, "MB", 1)
        news.advance(20_000)
        # Of those behind the known ones, the first is due, and the others not any more.
        news.wall_ms -= 18_000

    news.advance(awaiting_room.RETRY_MS)
    assert received(news) == ["0", "1", "2"]
    news.advance(10_000)

    assert received(news) == ["3", "4", "5"]


@pytest.mark.requirement("R439")
def test_what_waits_for_room_meets_the_rules_once_until_they_change(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[int] = []
    real = publish.portions

    def counted(partition: Any, now: Any, topic: Any, row: Any) -> Any:
        met.append(row.counter)
        return real(partition, now, topic, row)

    with monkeypatch.context() as patched:
        capacity(patched, 1_024)
        schedule(news, b"1")
        patched.setattr(publish, "portions", counted)
        for _ in range(10):
            news.advance(1_000)
        assert len(met) == 1
        # A copy more.
        topic_changes.subscription(news, "news/Subscriptions/c")
        for _ in range(10):
            news.advance(1_000)
        assert len(met) == 2

    news.advance(awaiting_room.RETRY_MS)

    assert received(news) == received(news, "news/Subscriptions/c") == ["1"]


@pytest.mark.requirement("R343")
def test_a_full_disk_lets_scheduled_messages_wait_that_would_grow(news: Driver) -> None:
    schedule(news, b"1")
    news.partition.state.sends_refused = "the volume is full"
    news.advance(5_000)
    assert received(news) == []

    news.partition.state.sends_refused = ""
    news.advance(awaiting_room.RETRY_MS)

    assert received(news) == ["1"]


@pytest.mark.requirement("R343")
def test_that_something_waits_for_room_is_shown(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.create()
    assert "TopicFull" not in runner.thread.conditions

    monkeypatch.setattr(awaiting_room.AwaitingRoom, "count", lambda self: 3)
    for _ in range(2):
        runner.ask(Counts("t"))

    assert "TopicFull" in runner.thread.conditions
    assert runner.thread.figures.awaiting_room == 3


@pytest.mark.requirement("R343")
def test_nothing_waits_in_a_topic_that_is_deleted(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity(monkeypatch, 1_024)
    schedule(news, b"1")
    news.advance(5_000)

    topic_changes.topic(news, action=topic_changes.DELETE)
    news.advance(10_000)

    assert news.partition.state.awaiting.count() == 0
    assert not news.partition.state.queues.dropped


@pytest.mark.requirement("R343")
def test_none_overtakes_those_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 2)
    waiting = AwaitingRoom(Journal())
    for id_ in (1, 2, 3):
        waiting.add(7, id_, 10 * id_)

    waiting.remove(7, 1)
    waiting.add(7, 4, 40)

    assert (waiting.ids(7), waiting.beyond(7)) == ([2], (30, 3))
