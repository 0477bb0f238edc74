"""AutoDeleteOnIdle: receivers that wait, what an entity holds for later, changes, families."""

from collections.abc import Callable
from typing import Final

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, FenceIdle, StreamEnded, Withdraw
from bendybus.partition_server.state.partition_state import FENCE_MS
from tests.partition_server import topic_changes
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import publish
from tests.partition_server.session_driver import Sessions

IDLE_MS: Final = 10_000


def fenced(driver: Driver, name: str = "orders") -> bool:
    """Whether an entity has been idle for the interval."""
    ref = driver.ref(name)
    [idle] = driver.run(FenceIdle("t", ref.uid, ref.generation, IDLE_MS))
    return bool(idle)


@pytest.mark.requirement("R520")
@pytest.mark.parametrize("end", ["withdrawn", "stream", "served"])
def test_a_receiver_that_waits_uses_the_queue_until_it_stops(queue: Driver, end: str) -> None:
    queue.reserve(stream="s")
    queue.advance(2 * IDLE_MS)
    assert not fenced(queue)

    if end == "withdrawn":
        queue.run(Withdraw("s", 1))
    elif end == "stream":
        queue.run(StreamEnded("s"))
    else:
        queue.run(Append("t", queue.ref(), Batch([b"a"])))

    queue.advance(IDLE_MS - 1)
    assert not fenced(queue)
    queue.advance(1)
    assert fenced(queue)


@pytest.mark.requirement("R520")
@pytest.mark.parametrize("name", [None, "s"])
def test_a_session_receiver_that_waits_uses_the_queue_until_it_stops(
    sessions: Sessions, name: str | None
) -> None:
    driver = sessions.driver
    if name is None:
        sessions.ask_accept(stream="s")
    else:
        sessions.ask(sessions.accept(name, stream="s"), stream="s")
    driver.advance(2 * IDLE_MS)
    assert not fenced(driver)

    driver.run(StreamEnded("s"))

    driver.advance(IDLE_MS - 1)
    assert not fenced(driver)
    driver.advance(1)
    assert fenced(driver)


def scheduled(driver: Driver) -> None:
    """Send what is for later."""
    driver.send(b"a", scheduled_ms=[driver.wall_ms + 3_600_000])


def set_aside(driver: Driver) -> None:
    """Defer a message."""
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEFER, token)


def set_aside_dead(driver: Driver) -> None:
    """Defer a dead letter."""
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEAD_LETTER, token)
    [(_, token)] = driver.receive(dead_letter=True)
    driver.settle(Disposition.DEFER, token)


def delayed(driver: Driver) -> None:
    """Abandon a message with a delay."""
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.ABANDON, token, delay_ms=3_600_000)


@pytest.mark.requirement("R520")
@pytest.mark.parametrize("hold", [scheduled, set_aside, set_aside_dead, delayed])
def test_a_queue_that_holds_messages_for_later_is_in_use(
    queue: Driver, hold: Callable[[Driver], None]
) -> None:
    hold(queue)
    queue.advance(10 * IDLE_MS)

    assert not fenced(queue)


@pytest.mark.requirement("R520")
@pytest.mark.parametrize("hold", [scheduled, delayed])
def test_a_queue_whose_message_comes_due_has_the_whole_interval_then(
    queue: Driver, hold: Callable[[Driver], None]
) -> None:
    hold(queue)
    queue.advance(3_600_000)
    assert not fenced(queue)

    queue.advance(IDLE_MS - 1)
    assert not fenced(queue)
    queue.advance(1)
    assert fenced(queue)
    assert queue.counts().active == 1


@pytest.mark.requirement("R520")
def test_a_queue_whose_deferred_message_expires_has_the_whole_interval_then(
    driver: Driver,
) -> None:
    driver.create(dead_lettering_on_message_expiration=True)
    driver.send(b"a", time_to_live_ms=[3_600_000])
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEFER, token)
    driver.advance(3_600_000)
    assert driver.counts().dead_letter == 1

    assert not fenced(driver)


@pytest.mark.requirement("R520")
def test_a_queue_whose_dead_letter_was_refused_elsewhere_has_the_whole_interval_then(
    driver: Driver,
) -> None:
    driver.create("audit")
    driver.create("orders", forward_dead_lettered_messages_to="audit")
    commit(driver, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.SEND_DISABLED})
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEAD_LETTER, token)
    driver.sweep()
    driver.advance(limits.FORWARD_REFUSED_MS)
    assert driver.counts_of("orders").transfer_dead_letter == 1

    assert not fenced(driver)


@pytest.mark.requirement("R520")
def test_a_topic_whose_scheduled_message_comes_due_has_the_whole_interval_then(
    driver: Driver,
) -> None:
    topic_changes.make_news(driver)
    publish(driver, b"", scheduled_ms=[driver.wall_ms + 3_600_000])
    driver.advance(3_600_000)

    assert not fenced(driver, "news")


@pytest.mark.requirement("R520")
def test_a_queue_with_plain_messages_is_not_in_use(queue: Driver) -> None:
    queue.send(b"a", b"b")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.DEAD_LETTER, token)
    queue.advance(IDLE_MS)

    assert fenced(queue)


@pytest.mark.requirement("R520")
def test_dead_letters_that_wait_to_be_forwarded_are_a_use(driver: Driver) -> None:
    driver.create("dead", status=EntityStatus.DISABLED)
    driver.create(forward_dead_lettered_messages_to="dead")
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEAD_LETTER, token)
    driver.advance(2 * IDLE_MS)
    assert not fenced(driver)

    [row] = driver.peek(dead_letter=True)
    assert row.payload == b"a"


@pytest.mark.requirement("R520")
def test_a_topic_with_a_scheduled_message_is_in_use(driver: Driver) -> None:
    topic_changes.make_news(driver)
    publish(driver, b"", scheduled_ms=[driver.wall_ms + 3_600_000])
    driver.advance(2 * IDLE_MS)

    assert not fenced(driver, "news")
    assert fenced(driver, "news/Subscriptions/a")


@pytest.mark.requirement("R520")
def test_a_change_of_a_rule_uses_the_subscription_and_its_topic(driver: Driver) -> None:
    topic_changes.make_news(driver)
    driver.advance(2 * IDLE_MS)
    change = RuleChange(RuleAction.CREATE, Rule("r", SqlFilter("a = 1")))
    topic_changes.subscription(driver, action=EntityAction.UPDATE, rule_change=change)
    driver.advance(IDLE_MS - 1)

    found = {name: fenced(driver, f"news/Subscriptions/{name}") for name in "ab"}
    assert found == {"a": False, "b": True}
    assert not fenced(driver, "news")


@pytest.mark.requirement("R520")
def test_a_topic_is_not_used_by_the_deletion_of_its_idle_subscription(driver: Driver) -> None:
    topic_changes.make_news(driver)
    driver.advance(2 * IDLE_MS)

    topic_changes.subscription(driver, action=EntityAction.DELETE_IDLE)

    assert fenced(driver, "news")


@pytest.mark.requirement("R520")
def test_a_publish_does_not_use_the_subscriptions(driver: Driver) -> None:
    topic_changes.make_news(driver)
    driver.advance(2 * IDLE_MS)
    publish(driver, b"")

    assert fenced(driver, "news/Subscriptions/a")
    assert not fenced(driver, "news")


@pytest.mark.requirement("R146")
def test_a_call_that_is_refused_before_a_deletion_is_a_use(queue: Driver) -> None:
    queue.advance(IDLE_MS)
    assert fenced(queue)
    [refused] = queue.run(Append("t", queue.ref(), Batch([b"a"])))
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.ServerBusy)

    # Another front end looks: it would refuse the repeat, too.
    assert not fenced(queue)
    queue.advance(FENCE_MS)

    [sent] = queue.run(Append("t", queue.ref(), Batch([b"a"])))
    assert not isinstance(sent, Failed)
