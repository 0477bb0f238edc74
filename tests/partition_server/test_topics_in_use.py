"""Topics and subscriptions in a partition: messages are refused, idleness, the file."""

import json
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Origin
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, EntityRef, FenceIdle, Peek
from bendybus.partition_server.store import file_format
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.topic_changes import known, make_news, subscription, topic


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return make_news(driver)


@pytest.mark.requirement("R88")
@pytest.mark.parametrize(
    ("key", "command", "sentence"),
    [
        ("news", "receive", "topic 'news': messages cannot be received from a topic"),
        ("news/subscriptions/a", "send", "cannot be sent to a subscription. Send to topic 'news'"),
    ],
)
def test_the_wrong_end_is_refused_in_a_sentence(
    news: Driver, key: str, command: str, sentence: str
) -> None:
    ref = news.ref(known(news, key).name)
    wanted: dict[str, Any] = {
        "send": Append("t", ref, Batch([b"x"])),
        "receive": Ask("s", 1, ref, False, 1, 1_000),
    }

    [answer] = news.run(wanted[command])

    assert isinstance(answer.error, errors.InvalidOperation)
    assert sentence in answer.error.message


@pytest.mark.requirement("R88")
def test_topics_and_subscriptions_can_be_looked_at(news: Driver) -> None:
    for key in ("news", "news/subscriptions/a"):
        [peeked] = news.run(Peek("t", news.ref(known(news, key).name), 0, 1, 1_000))

        assert list(peeked.delivery.rows) == []


@pytest.mark.requirement("R88")
def test_the_dead_letters_of_a_topic_are_refused_in_a_sentence(news: Driver) -> None:
    [answer] = news.run(Peek("t", news.ref("news", dead_letter=True), 0, 1, 1_000))

    assert isinstance(answer.error, errors.InvalidOperation)
    assert "a topic has no dead letters" in answer.error.message
    assert "news/Subscriptions/NAME" in answer.error.message


def test_a_topic_has_no_dead_letters(news: Driver) -> None:
    queues = news.partition.state.queues

    assert queues.of("uid-news", SubQueue.MAIN) is not None
    assert len(queues.all_of("uid-news")) == 1
    assert len(queues.all_of("uid-news/Subscriptions/a")) == 2
    assert news.counts_of("news").dead_letter == 0


@pytest.mark.requirement("R85")
def test_a_topic_is_idle_only_when_its_subscriptions_are(news: Driver) -> None:
    state = news.partition.state
    news.advance(1_000)
    within = state.queues.of("uid-news/Subscriptions/a", SubQueue.MAIN)
    assert within is not None
    within.used(news.now)
    fence = FenceIdle("t", "uid-news", known(news, "news").generation, 500)

    assert news.run(fence) == [False]
    news.advance(1_000)
    assert news.run(fence) == [True]
    assert set(state.fenced_until) == {
        "uid-news",
        "uid-news/Subscriptions/a",
        "uid-news/Subscriptions/b",
    }


def test_a_topic_is_not_idle_while_a_subscription_is_retained(driver: Driver) -> None:
    topic(driver)
    subscription(driver, origin=Origin.MANIFEST)
    subscription(driver, action=EntityAction.ORPHAN, origin=Origin.MANIFEST)
    driver.advance(1_000)
    idle = FenceIdle("t", "uid-news", known(driver, "news").generation, 500)

    assert driver.run(idle) == [False]
    with pytest.raises(errors.RetainedData):
        topic(driver, action=EntityAction.DELETE_IDLE)


@pytest.mark.requirement("R261")
def test_the_manifest_of_a_subscription_that_went_with_an_idle_topic_makes_it_again(
    driver: Driver,
) -> None:
    topic(driver, origin=Origin.MANIFEST, manifest_uid="m1")
    subscription(driver, origin=Origin.MANIFEST, manifest_uid="s1")
    topic(driver, action=EntityAction.DELETE_IDLE)
    with pytest.raises(errors.InvalidOperation, match="was idle"):
        topic(driver, origin=Origin.MANIFEST, manifest_uid="m1")
    with pytest.raises(errors.EntityNotFound, match="topic 'news' does not exist"):
        subscription(driver, origin=Origin.MANIFEST, manifest_uid="s1")

    topic(driver, uid="m2", origin=Origin.MANIFEST, manifest_uid="m2")
    again = subscription(driver, origin=Origin.MANIFEST, manifest_uid="s1")

    assert not again.deleted
    assert known(driver, "news").auto_deleted is False


@pytest.mark.requirement("R261")
def test_the_manifest_of_a_subscription_that_was_idle_itself_does_not_make_it_again(
    driver: Driver,
) -> None:
    topic(driver)
    subscription(driver, origin=Origin.MANIFEST, manifest_uid="s1")
    subscription(driver, action=EntityAction.DELETE_IDLE)

    with pytest.raises(errors.InvalidOperation, match="was idle"):
        subscription(driver, origin=Origin.MANIFEST, manifest_uid="s1")


@pytest.mark.requirement("R263")
def test_a_deleted_name_keeps_no_rules_and_no_texts(driver: Driver) -> None:
    rule = Rule("r", SqlFilter(f"a = '{'x' * 900}'"))
    texts = {"user_metadata": "x" * 900, "forward_dead_lettered_messages_to": "dead"}
    commit(driver, EntityAction.CREATE, "dead")
    topic(driver, changes={"user_metadata": "x" * 900})
    for name in ("a", "b"):
        subscription(driver, f"news/Subscriptions/{name}", changes={"rules": (rule,), **texts})

    subscription(driver, "news/Subscriptions/a", action=EntityAction.DELETE)
    topic(driver, action=EntityAction.DELETE)

    for key in ("news", "news/subscriptions/a", "news/subscriptions/b"):
        tombstone = known(driver, key)
        assert tombstone.deleted
        assert len(file_format.entity_to_json(tombstone)) < 900
        assert tombstone.description.user_metadata == ""


@pytest.mark.requirement("R87")
def test_an_older_program_refuses_the_file_of_topics_and_reads_that_of_queues(
    news: Driver,
) -> None:
    queue, made = news.create("orders"), known(news, "news")

    assert file_format.entry_version(queue) == 1
    assert file_format.entry_version(made) == 2
    # What 0.4 reads of a queue: these fields, and no other.
    entry = json.loads(file_format.entity_to_json(queue))
    assert entry.keys() == {
        "name",
        "uid",
        "generation",
        "origin",
        "queue",
        "partition_count",
        "home_partition",
        "created_at_ms",
        "updated_at_ms",
        "deleted",
        "orphaned",
        "manifest_uid",
        "auto_deleted",
    }
    assert file_format.entity_from_json(file_format.entity_to_json(made)) == made


def test_a_reference_to_a_topic_of_another_generation_is_refused(news: Driver) -> None:
    older = EntityRef("uid-news", known(news, "news").generation - 1)

    with pytest.raises(errors.GenerationMismatch, match="topic 'news'"):
        news.partition.state.find(older, news.now)
