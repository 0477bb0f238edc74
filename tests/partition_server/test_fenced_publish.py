"""Sends with a fence to topics: over several turns, stored once, all of it or nothing."""

import itertools
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import SendFenced
from bendybus.partition_server.state.pipeline_commands import FencedStored, FenceRead
from tests.partition_server.draining import PRODUCER, fence
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head, set_rules
from tests.partition_server.test_publish_frames import payloads, slow, turns
from tests.partition_server.topic_changes import DELETE, make_news, topic

pytestmark = pytest.mark.requirement("R284")


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with `news`, its subscriptions `a` and `b`, and a clock that goes on."""
    make_news(driver)
    slow(driver)
    return driver


def fenced(driver: Driver, count: int, *, first: int = 0, to: str = "t", epoch: int = 1) -> Any:
    """Return a frame of numbered messages with a fence."""
    numbers = range(first, first + count)
    batch = Batch([b"%d" % n for n in numbers], heads=[head(n=1)] * count, formats=[1] * count)
    ordinals = [n + 1 for n in numbers]
    return SendFenced(to, driver.ref("news"), PRODUCER, epoch, ordinals, batch, b"mark")


def test_a_frame_meets_the_rules_over_several_turns_and_is_stored_in_one(news: Driver) -> None:
    stages, answers = turns(news, fenced(news, 30))

    assert answers == [("t", FencedStored(30, 0, 0))]
    assert len(stages) > 3
    assert [each.changes.stored() for each in stages if each.changes.stored()] == [60]
    assert payloads(news) == payloads(news, "b") == list(range(30))
    assert fence(news, name="news") == FenceRead(1, 30, b"mark")


def test_filters_of_a_frame_hold_no_turn(news: Driver) -> None:
    set_rules(news, "a", *(Rule(f"r{i}", SqlFilter(f"n > {i}")) for i in range(200)))

    stages, [(_, stored)] = turns(news, fenced(news, 10))

    assert stored == FencedStored(10, 0, 0)
    # A turn is three looks at the clock, the next of which comes after some rules.
    assert len(stages) > 10


def test_a_repeat_that_waits_behind_the_first_try_stores_nothing(news: Driver) -> None:
    first, second = fenced(news, 20, to="first"), fenced(news, 25, to="second")

    _, answers = turns(news, first, second)

    assert answers == [("first", FencedStored(20, 0, 0)), ("second", FencedStored(5, 20, 0))]
    assert payloads(news) == list(range(25))


def test_two_tries_that_end_in_one_turn_store_each_message_once(driver: Driver) -> None:
    make_news(driver)
    clock = itertools.chain([0, 0, 1_000], itertools.repeat(1_000))
    driver.partition.state.clock_ms = clock.__next__
    spent, both = fenced(driver, 1, first=90, to="spent", epoch=1), fenced(driver, 4, to="first")
    both_again = fenced(driver, 4, to="second")
    both.producer_id = both_again.producer_id = b"another-producer"

    _, answers = turns(driver, spent, both, both_again)

    assert dict(answers) == {
        "spent": FencedStored(1, 0, 0),
        "first": FencedStored(4, 0, 0),
        "second": FencedStored(0, 4, 0),
    }
    assert payloads(driver) == [90, 0, 1, 2, 3]


def test_a_later_epoch_that_came_first_refuses_the_frame_that_waited(news: Driver) -> None:
    _, answers = turns(news, fenced(news, 20, to="late", epoch=2), fenced(news, 5, to="early"))

    (_, stored), (_, refused) = answers
    assert stored == FencedStored(20, 0, 0)
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.ProducerFenced)
    assert payloads(news) == list(range(20))


def move(driver: Driver, ordinal: int, *, epoch: int) -> Any:
    """Return a call without messages that moves the fence."""
    return SendFenced("m", driver.ref("news"), PRODUCER, epoch, [ordinal], Batch([]), b"moved")


@pytest.mark.requirement("R463")
def test_a_fence_that_is_moved_to_a_later_epoch_refuses_the_frame_that_waits(news: Driver) -> None:
    news.turn(fenced(news, 30))

    _, answers = turns(news, move(news, 1, epoch=2))

    assert answers[0] == ("m", FencedStored(0, 0, 0))
    _, refused = answers[1]
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.ProducerFenced)
    assert payloads(news) == []
    assert fence(news, name="news") == FenceRead(2, 1, b"moved")


@pytest.mark.requirement("R463")
@pytest.mark.parametrize(("moved_to", "stored"), [(10, 20), (30, 0), (40, 0)])
def test_a_fence_that_is_moved_within_the_epoch_leaves_the_rest_of_the_frame_that_waits(
    news: Driver, moved_to: int, stored: int
) -> None:
    news.turn(fenced(news, 30))

    _, answers = turns(news, move(news, moved_to, epoch=1))

    assert answers == [("m", FencedStored(0, 0, 0)), ("t", FencedStored(stored, 30 - stored, 0))]
    assert payloads(news) == list(range(30 - stored, 30))
    assert fence(news, name="news").ordinal == max(moved_to, 30)


def test_too_many_copies_refuse_all_of_the_frame(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PUBLISHED_COPIES_MAX", 50)

    _, [(_, refused)] = turns(news, fenced(news, 26))

    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.InvalidOperation)
    assert "it may make 50" in str(refused.error)
    assert payloads(news) == []
    assert fence(news, name="news") == FenceRead()
    assert turns(news, fenced(news, 25))[1] == [("t", FencedStored(25, 0, 0))]


def test_a_frame_that_was_under_way_in_a_crash_is_not_there(news: Driver) -> None:
    news.turn(fenced(news, 30))
    assert news.partition.state.publications
    news.restart()

    assert payloads(news) == []
    assert fence(news, name="news") == FenceRead()


def test_a_topic_that_is_deleted_meanwhile_refuses_the_frame(news: Driver) -> None:
    news.turn(fenced(news, 30))

    topic(news, action=DELETE)

    _, [(_, refused)] = turns(news)

    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.EntityNotFound)
