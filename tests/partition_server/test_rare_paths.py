"""Paths that few programs take, each of which would lose, keep or miscount a message."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.answers import Peeked
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Peek
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.publishing import head, publish, rows
from tests.partition_server.topic_changes import subscription, topic


@pytest.mark.requirement("R114", "R329")
@pytest.mark.parametrize("option", [False, True])
def test_a_message_without_session_is_dead_lettered_where_sessions_are_required(
    driver: Driver, option: bool
) -> None:
    topic(driver)
    changes = {
        "requires_session": True,
        "dead_lettering_on_filter_evaluation_exceptions": option,
    }
    subscription(driver, changes=changes)

    publish(driver, head())

    assert rows(driver, "a") == []
    assert len(rows(driver, "a", dead_letter=True)) == 1


@pytest.mark.requirement("R329")
def test_a_message_whose_session_an_action_takes_away_is_dead_lettered_too(
    make_store: Callable[..., Any],
) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=1)))
    topic(driver)
    rule = Rule("r", SqlFilter("1 = 1"), SqlRuleAction("SET sys.SessionId = NULL"))
    subscription(driver, changes={"requires_session": True, "rules": (rule,)})

    publish(driver, head(), session_ids=["s"])

    assert rows(driver, "a") == []
    assert len(rows(driver, "a", dead_letter=True)) == 1


@pytest.mark.requirement("R330")
def test_a_dead_letter_is_abandoned_as_often_as_one_likes(driver: Driver) -> None:
    driver.put(QueueDescription(max_delivery_count=1))
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEAD_LETTER, token, dead_letter_reason="mine")

    for count in range(4):
        [(row, token)] = driver.receive(dead_letter=True)
        assert row.delivery_count == count
        driver.settle(Disposition.ABANDON, token)

    [row] = driver.peek(dead_letter=True)
    assert (row.payload, row.counter, row.dead_letter_reason) == (b"a", 1, "mine")


@pytest.mark.requirement("R331")
@pytest.mark.parametrize("ceiling_ms", [None, 40_000])
def test_a_time_to_live_counts_from_when_a_message_is_due_at_its_topic(
    driver: Driver, ceiling_ms: int | None
) -> None:
    topic(driver)
    subscription(driver, changes={"default_message_time_to_live_ms": ceiling_ms})
    due_ms = driver.now.wall_ms + 60_000
    publish(driver, head(), scheduled_ms=[due_ms], time_to_live_ms=[10_000])

    driver.advance(61_000)
    assert len(rows(driver, "a")) == 1
    driver.advance(8_000)
    assert len(rows(driver, "a")) == 1
    # Half a second before it would end if it counted from when it was looked at.
    driver.advance(1_500)

    assert rows(driver, "a") == []


@pytest.mark.requirement("R333")
def test_a_deferred_dead_letter_counts_as_a_dead_letter(driver: Driver) -> None:
    driver.put(QueueDescription())
    driver.send(b"a", b"b")
    for _, token in driver.receive(2):
        driver.settle(Disposition.DEAD_LETTER, token)
    [(_, token)] = driver.receive(dead_letter=True)
    driver.settle(Disposition.DEFER, token)

    counts = driver.counts()
    assert (counts.active, counts.deferred, counts.dead_letter) == (0, 0, 2)
    assert counts.transfer_dead_letter == 0


@pytest.mark.requirement("R336")
@pytest.mark.parametrize("detects", [False, True])
def test_the_size_is_exact_and_nothing_is_left_of_what_went(driver: Driver, detects: bool) -> None:
    driver.put(QueueDescription(enable_partitioning=True, requires_duplicate_detection=detects))
    sizes = []
    for number in range(2):
        driver.send(b"x" * 1_000, message_ids=[f"m{number}"])
        sizes.append(driver.counts().size_bytes)
    assert sizes[1] == 2 * sizes[0]
    driver.send(b"x" * 1_000, message_ids=["m1" if detects else "m2"])
    assert driver.counts().size_bytes == (2 if detects else 3) * sizes[0]

    for _, token in driver.receive(3):
        driver.settle(Disposition.COMPLETE, token)
    # Ids that are remembered have their size, too.
    driver.advance(limits.DUPLICATE_WINDOW_MS_DEFAULT + 60_000)

    assert driver.counts().size_bytes == 0


@pytest.mark.requirement("R338")
def test_a_peek_ends_at_its_bytes(driver: Driver) -> None:
    driver.put(QueueDescription())
    driver.send(*[b"x" * 10_000] * 5)

    def peeked(most: int) -> int:
        [page] = driver.run(Peek("t", driver.ref(), 0, 100, most))
        assert isinstance(page, Peeked)
        return len(page.delivery.rows)

    # The first one always comes.
    assert [peeked(most) for most in (1, 19_000, 31_000, limits.MB)] == [1, 1, 3, 5]


@pytest.mark.requirement("R332")
def test_a_batch_of_two_is_stored_whole_or_not_at_all(driver: Driver) -> None:
    driver.put(QueueDescription(enable_partitioning=True))
    # Each could be sent alone; two of them are more than a batch may have.
    half = b"x" * (limits.MB // 2 + 1)

    stored = driver.send(b"a", b"b", half, half, b"c", groups=(2, 2, 1))

    assert [row.payload for row in driver.peek()] == [b"a", b"b", b"c"]
    assert [(index, type(error)) for index, error in stored.failures] == [
        (1, errors.MessageSizeExceeded)
    ]


@pytest.mark.requirement("R334")
def test_a_topic_has_2000_sql_filters_and_not_one_more(driver: Driver) -> None:
    topic(driver)

    def rules(count: int) -> tuple[Rule, ...]:
        return tuple(Rule(f"r{number}", SqlFilter("a = 1")) for number in range(count))

    subscription(driver, changes={"rules": rules(1_999)})
    subscription(driver, "news/Subscriptions/b", changes={"rules": rules(1)})

    with pytest.raises(errors.QuotaExceeded, match="2000 SQL filters, of at most 2000"):
        subscription(driver, "news/Subscriptions/c", changes={"rules": rules(1)})


def test_what_a_partition_never_heard_of_is_not_taken_for_deleted(driver: Driver) -> None:
    """The front end may know an entity first: it tries again, where a deletion would be final."""
    driver.create()
    unknown = driver.ref()._replace(uid="uid-of-another")

    [answer] = driver.run(Append("t", unknown, Batch([b"a"])))

    assert isinstance(answer.error, errors.GenerationMismatch), answer


def test_a_text_of_a_dead_letter_counts_to_its_size(driver: Driver) -> None:
    driver.put(QueueDescription())
    driver.send(b"a", b"a")
    sizes = []
    for (_, token), reason in zip(driver.receive(2), ("", "r" * 100), strict=True):
        driver.settle(Disposition.DEAD_LETTER, token, dead_letter_reason=reason)
        sizes.append(driver.counts().size_bytes)

    assert sizes[1] == sizes[0] + 100
    for _, token in driver.receive(2, dead_letter=True):
        driver.settle(Disposition.COMPLETE, token)
    assert driver.counts().size_bytes == 0
