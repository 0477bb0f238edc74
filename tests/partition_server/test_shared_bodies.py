"""Bodies that several subscriptions have: stored once, counted once, gone with the last copy."""

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.filters.rule import (
    Rule,
    SqlRuleAction,
)
from bendybus.partition_server.store.records import body_size
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import (
    BODY,
    collect,
    head,
    properties_of,
    publish,
    receive,
    rows,
    set_rules,
    topic_bytes,
)
from tests.partition_server.topic_changes import DELETE, make_news, subscription, topic


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return make_news(driver)


@pytest.mark.requirement("R116")
def test_a_body_is_stored_and_counted_once(news: Driver) -> None:
    subscription(news, "news/Subscriptions/c")

    publish(news, head())

    assert topic_bytes(news) == body_size(len(BODY))
    sizes = [news.counts_of(f"news/Subscriptions/{name}").size_bytes for name in "abc"]
    assert max(sizes) < len(BODY)
    assert news.counts_of("news").size_bytes == sum(sizes) + body_size(len(BODY))
    assert [rows(news, name)[0].payload for name in "abc"] == [BODY] * 3


@pytest.mark.requirement("R116")
@pytest.mark.requirement("R181")
@pytest.mark.parametrize("restart", [False, True])
def test_a_shared_body_goes_with_its_last_copy(news: Driver, restart: bool) -> None:
    publish(news, head(), head())
    for name in "ab":
        assert news.store.bodies.of_slot(_slot(news), 9) != []
        tokens = [token for _, token in receive(news, name, 2)]
        news.settle(Disposition.COMPLETE, *tokens)

    if restart:
        news.restart()
    collect(news)

    assert news.store.bodies.of_slot(_slot(news), 9) == []
    assert topic_bytes(news) == news.counts_of("news").size_bytes == 0


@pytest.mark.requirement("R116")
def test_one_copy_has_its_body_itself(news: Driver) -> None:
    set_rules(news, "b")

    publish(news, head())

    assert news.store.bodies.of_slot(_slot(news), 9) == []
    [copy] = rows(news, "a")
    assert news.counts_of("news").size_bytes == copy.size()


@pytest.mark.requirement("R116")
def test_copies_with_other_heads_share_the_body(news: Driver) -> None:
    set_rules(news, "a", Rule("tag", action=SqlRuleAction("SET tag = 1")))

    publish(news, head())
    news.restart()

    assert len(news.store.bodies.of_slot(_slot(news), 9)) == 1
    [(row, _)] = receive(news, "a")
    assert row.payload == BODY
    assert properties_of(row) == {"tag": 1, "RuleName": "tag"}


@pytest.mark.requirement("R116")
def test_a_dead_lettered_copy_keeps_its_body(news: Driver) -> None:
    publish(news, head())
    [(_, token)] = receive(news, "a")
    news.settle(Disposition.DEAD_LETTER, token, dead_letter_reason="r")
    [(_, token)] = receive(news, "b")
    news.settle(Disposition.COMPLETE, token)
    collect(news)
    news.restart()

    [(dead, token)] = receive(news, "a", dead_letter=True)

    assert dead.payload == BODY
    news.settle(Disposition.COMPLETE, token)
    collect(news)
    assert news.counts_of("news").size_bytes == 0


@pytest.mark.requirement("R116")
@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_subscription_gives_its_references_up(news: Driver, restart: bool) -> None:
    publish(news, *[head()] * 50)
    tokens = [token for _, token in receive(news, "a", 50)]
    news.settle(Disposition.COMPLETE, *tokens)

    subscription(news, "news/Subscriptions/b", DELETE)
    if restart:
        news.restart()
    collect(news)

    assert news.store.bodies.of_slot(_slot(news), 9) == []
    assert news.counts_of("news").size_bytes == 0


@pytest.mark.requirement("R116")
def test_a_slot_that_is_free_again_has_no_bodies(news: Driver) -> None:
    """A topic that gets the slot would count on them."""
    publish(news, head(), head())
    slot = _slot(news)
    topic(news, action=DELETE)
    # From here on the topic's slot comes first.
    news.restart()
    partition = news.partition
    assert slot in partition.state.queues.dropped

    while partition.state.queues.dropped:
        stage = partition.sweep(news.now)
        assert stage is not None
        news.store.commit(stage.changes)
        partition.apply(stage, news.now)
        if slot not in partition.state.queues.dropped:
            assert news.store.bodies.of_slot(slot, 9) == []


@pytest.mark.requirement("R116")
@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_topic_leaves_nothing(news: Driver, restart: bool) -> None:
    publish(news, *[head()] * 50)
    slot = _slot(news)

    topic(news, action=DELETE)
    if restart:
        news.restart()
    collect(news)

    assert news.store.bodies.of_slot(slot, 9) == []
    assert not news.partition.state.queues.dropped
    make_news(news)
    publish(news, head())
    assert len(rows(news, "a")) == 1


def _slot(driver: Driver) -> int:
    """Return the slot of the topic."""
    state = driver.partition.state
    return state.queues.main_of(driver.ref("news").uid).slot
