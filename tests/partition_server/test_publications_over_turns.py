"""What takes several turns to be published: what it shares, and what a failed commit takes back."""

import itertools

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction, TrueFilter
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head, publish, rows, set_rules
from tests.partition_server.topic_changes import make_news, subscription
from tests.partition_server.ways_into_topics import RULES


def many_rules(driver: Driver) -> None:
    """Make `news`, whose subscription `a` has filters for several turns."""
    make_news(driver)
    set_rules(driver, "a", *(Rule(f"r{i}", SqlFilter(f"text LIKE '%_y{i}'")) for i in range(RULES)))


@pytest.mark.requirement("R116")
@pytest.mark.parametrize("look_ms", [0, 20], ids=["in one turn", "over several turns"])
def test_the_body_of_a_scheduled_message_is_stored_once(driver: Driver, look_ms: int) -> None:
    many_rules(driver)
    for number in range(8):
        subscription(driver, f"news/Subscriptions/s{number}")
    due_ms, body = driver.wall_ms + 10, b"b" * 100_000
    publish(driver, head(text="x"), body=body, scheduled_ms=[due_ms])

    driver.partition.state.clock_ms = itertools.count(0, look_ms).__next__
    driver.advance(10)

    slot = driver.partition.state.queues.main_of(driver.ref("news").uid).slot
    assert [len(rows(driver, f"s{number}")) for number in range(8)] == [1] * 8
    assert len(driver.store.bodies.of_slot(slot, 9)) == 1
    assert driver.counts_of("news").size_bytes < 1.1 * len(body)


@pytest.mark.requirement("R114")
def test_a_scheduled_message_makes_no_more_copies_than_one_that_is_sent(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits, others go on; it comes when the rules make fewer."""
    make_news(driver)
    acting = [Rule(f"r{i}", TrueFilter(), SqlRuleAction(f"SET tag = {i}")) for i in range(20)]
    set_rules(driver, "a", *acting)
    monkeypatch.setattr(limits, "PUBLISHED_BYTES_MAX", 10_000)
    due_ms, driver.expects_faults = driver.wall_ms + 10, True
    publish(driver, head(text="x" * 1_000), body=b"large", scheduled_ms=[due_ms])
    publish(driver, head(text="x"), body=b"small", scheduled_ms=[due_ms])

    driver.advance(10)
    assert {row.payload for row in rows(driver, "a")} == {b"small"}

    set_rules(driver, "a", *acting[:2])
    driver.advance(faults.PAUSE_MS_MAX)
    assert {row.payload for row in rows(driver, "a")} == {b"small", b"large"}


@pytest.mark.requirement("R351")
def test_a_repeat_is_not_told_of_what_a_failed_commit_would_have_stored(driver: Driver) -> None:
    """The first try and its repeat wait behind a long frame; one sweep decides all of them."""
    many_rules(driver)
    partition = driver.partition
    partition.state.clock_ms = itertools.count(0, 20).__next__
    commands = [
        Append(
            f"{sequence}x{count}",
            driver.ref("news"),
            Batch([b"b"] * count, heads=[head(text="x")] * count, formats=[1] * count),
            [1] * count,
            b"producer-0000001",
            sequence,
        )
        for sequence, count in ((1, 1), (2, 2), (2, 3))
    ]
    stage = partition.decide(commands, driver.now)
    driver.store.commit(stage.changes)
    assert partition.apply(stage, driver.now) == []
    partition.go_on(driver.now)

    partition.state.clock_ms = lambda: 0
    swept = partition.sweep(driver.now)
    assert swept is not None, "they go on"
    told = partition.abandon(swept, errors.PartitionUnavailable("no room"), driver.now)

    assert {answer.to: type(answer.value) for answer in told} == {
        "1x1": Failed, "2x2": Failed, "2x3": Failed,
    }  # fmt: skip
    assert rows(driver, "b") == []
