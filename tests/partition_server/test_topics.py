"""Topics and subscriptions in the catalogue of a partition."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity import Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.answers import CatalogueChanged, Done
from bendybus.partition_server.state.commands import (
    ApplyEntity,
    CommitEntity,
    Watch,
)
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.topic_changes import (
    CREATE,
    DELETE,
    UPDATE,
    known,
    make_news,
    subscription,
    topic,
)


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return make_news(driver)


# Creation


@pytest.mark.requirement("R80")
def test_a_topic_and_its_subscriptions_survive_a_restart(news: Driver) -> None:
    before = news.partition.state.catalogue.all()

    news.restart()

    assert {each.key: each for each in news.partition.state.catalogue.all()} == {
        each.key: each for each in before
    }
    assert [each.kind for each in before].count(EntityKind.SUBSCRIPTION) == 2


@pytest.mark.requirement("R80")
@pytest.mark.parametrize("partitioned", [True, False])
def test_a_subscription_is_where_its_topic_is(make_store: MakeStore, partitioned: bool) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    made = topic(driver, "News", changes={"enable_partitioning": partitioned})

    within = subscription(driver, "NEWS/subscriptions/A")

    assert within.name == "News/Subscriptions/A"
    assert within.partitions() == made.partitions()
    assert within.partitioned is partitioned


@pytest.mark.requirement("R80", "R374")
def test_a_subscription_needs_its_topic(driver: Driver) -> None:
    with pytest.raises(errors.EntityNotFound, match="bendybus create topic news,"):
        subscription(driver)
    driver.create("news")
    with pytest.raises(errors.EntityNotFound, match="no topic 'news': it is a queue"):
        subscription(driver)

    assert [each.name for each in driver.partition.state.catalogue.all()] == ["news"]


@pytest.mark.requirement("R80")
def test_queues_and_topics_share_one_name_space(news: Driver) -> None:
    news.create("orders")

    with pytest.raises(errors.EntityAlreadyExists, match="topic 'news' already exists: a queue"):
        news.create("NEWS")
    with pytest.raises(errors.EntityAlreadyExists, match="queue 'orders' already exists: a topic"):
        topic(news, "orders")
    for action in (UPDATE, DELETE):
        with pytest.raises(errors.EntityNotFound, match="no queue 'news': it is a topic"):
            commit(news, action, "news", changes={"max_delivery_count": 3})
    assert known(news, "news").kind is EntityKind.TOPIC


def test_a_repeated_creation_is_known_by_its_uid(news: Driver) -> None:
    before = known(news, "news/subscriptions/a")

    assert subscription(news) == before
    with pytest.raises(errors.EntityAlreadyExists, match="subscription 'news/Subscriptions/a'"):
        subscription(news, uid="another")


# Generations


@pytest.mark.requirement("R84")
@pytest.mark.parametrize(
    ("action", "options"),
    [
        (CREATE, {"name": "news/Subscriptions/c"}),
        (UPDATE, {"changes": {"max_delivery_count": 3}}),
        (DELETE, {}),
    ],
)
def test_every_change_of_a_subscription_raises_its_topics_generation_after_its_own(
    news: Driver, action: EntityAction, options: dict[str, Any]
) -> None:
    before = known(news, "news")

    changed = subscription(news, action=action, **options)

    after = known(news, "news")
    assert before.generation < changed.generation < after.generation
    assert replace(after, generation=before.generation) == before


@pytest.mark.requirement("R84")
def test_a_change_that_changes_nothing_raises_nothing(news: Driver) -> None:
    before = known(news, "news")

    subscription(news, action=UPDATE, changes={"max_delivery_count": 10})

    assert known(news, "news") == before


@pytest.mark.requirement("R84")
def test_a_watcher_hears_of_a_subscription_before_its_topic(news: Driver) -> None:
    news.run(Watch("w"))
    values = news.run(
        CommitEntity(
            "t",
            CREATE,
            "news/Subscriptions/c",
            Origin.CLIENT,
            uid="c",
            kind=EntityKind.SUBSCRIPTION,
        )
    )

    [change] = [value for value in values if isinstance(value, CatalogueChanged)]
    assert [each.name for each in change.entities] == ["news/Subscriptions/c", "news"]


@pytest.mark.requirement("R84")
def test_copies_are_taken_oldest_first_whatever_their_order(
    news: Driver, make_store: MakeStore
) -> None:
    other = Driver(make_store(fingerprint(1)))
    other.run(Watch("w"))
    entries = sorted(news.partition.state.catalogue.existing(), key=lambda each: -each.generation)

    values = other.run(ApplyEntity("t", entries))

    [change] = [value for value in values if isinstance(value, CatalogueChanged)]
    assert list(change.entities) == entries[::-1]


# Deletion


@pytest.mark.requirement("R85")
def test_a_topic_is_deleted_with_its_subscriptions_in_one_commit(news: Driver) -> None:
    news.create("news2")

    gone = topic(news, action=DELETE)

    catalogue = news.partition.state.catalogue
    assert [each.name for each in catalogue.existing()] == ["news2"]
    within = [known(news, f"news/subscriptions/{name}") for name in "ab"]
    assert all(each.deleted and each.generation < gone.generation for each in within)
    assert not news.partition.state.queues.all_of("uid-news/Subscriptions/a")
    news.restart()
    assert [each.name for each in news.partition.state.catalogue.existing()] == ["news2"]


@pytest.mark.requirement("R85")
def test_a_topic_that_is_made_again_has_no_subscriptions(news: Driver) -> None:
    topic(news, action=DELETE)

    again = topic(news, uid="again")

    assert news.partition.state.catalogue.subscriptions(again) == []
    assert subscription(news, uid="a2").uid == "a2"


@pytest.mark.requirement("R85")
def test_no_client_deletes_a_topic_with_a_subscription_of_a_manifest(driver: Driver) -> None:
    topic(driver)
    subscription(driver, origin=Origin.MANIFEST)

    with pytest.raises(errors.ManagedByManifest, match="'news/Subscriptions/a' comes from a man"):
        topic(driver, action=DELETE)
    assert not known(driver, "news").deleted

    subscription(driver, action=EntityAction.ORPHAN, origin=Origin.MANIFEST)
    with pytest.raises(errors.ManagedByManifest):
        topic(driver, action=DELETE)
    subscription(driver, action=DELETE)  # purged
    topic(driver, action=DELETE)


@pytest.mark.requirement("R85")
@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.MANIFEST])
def test_a_purge_of_an_orphaned_topic_takes_no_subscription_that_has_a_manifest(
    driver: Driver, origin: Origin
) -> None:
    topic(driver, origin=Origin.MANIFEST)
    subscription(driver, origin=Origin.MANIFEST)
    topic(driver, action=EntityAction.ORPHAN, origin=Origin.MANIFEST)

    with pytest.raises(errors.ManagedByManifest, match="Delete that manifest"):
        topic(driver, action=DELETE, origin=origin)

    assert not known(driver, "news/subscriptions/a").deleted


def test_an_orphaned_topic_gets_no_subscriptions_and_is_purged_with_those_it_has(
    driver: Driver,
) -> None:
    topic(driver, origin=Origin.MANIFEST)
    subscription(driver, origin=Origin.MANIFEST)
    topic(driver, action=EntityAction.ORPHAN, origin=Origin.MANIFEST)
    subscription(driver, action=EntityAction.ORPHAN, origin=Origin.MANIFEST)

    with pytest.raises(errors.RetainedData, match="holds the data of a deleted manifest"):
        subscription(driver, "news/Subscriptions/b")
    topic(driver, action=DELETE)

    assert driver.partition.state.catalogue.existing() == []


# Limits


@pytest.mark.requirement("R82")
def test_a_topic_has_so_many_subscriptions_and_a_namespace(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_PER_TOPIC", 3)
    subscription(news, "news/Subscriptions/c")
    with pytest.raises(
        errors.QuotaExceeded, match="topic 'news' has reached its limit of 3 subscriptions"
    ):
        subscription(news, "news/Subscriptions/d")

    topic(news, "other")
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_PER_NAMESPACE", 4)
    subscription(news, "other/Subscriptions/a")
    with pytest.raises(
        errors.QuotaExceeded, match="namespace has reached its limit of 4 subscriptions"
    ):
        subscription(news, "other/Subscriptions/b")

    subscription(news, action=DELETE)
    subscription(news, "other/Subscriptions/b")


@pytest.mark.requirement("R82")
def test_subscriptions_are_not_counted_as_entities_topics_are(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTITIES_PER_NAMESPACE", 2)
    monkeypatch.setattr(limits, "PARTITIONED_ENTITIES_PER_NAMESPACE", 1)
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    topic(driver, changes={"enable_partitioning": True})
    subscription(driver)
    subscription(driver, "news/Subscriptions/b")

    with pytest.raises(errors.QuotaExceeded, match="1 partitioned entities"):
        driver.create("spread", enable_partitioning=True)
    with pytest.raises(errors.QuotaExceeded, match="1 partitioned entities"):
        topic(driver, "spread", changes={"enable_partitioning": True})
    driver.create("plain")
    with pytest.raises(errors.QuotaExceeded, match="has reached its limit of 2 entities"):
        topic(driver, "third")

    topic(driver, action=DELETE)
    topic(driver, "third", changes={"enable_partitioning": True})


@pytest.mark.requirement("R80")
def test_a_basic_namespace_makes_no_topics(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.BASIC, count=16)))

    with pytest.raises(errors.InvalidOperation, match="this one is Basic"):
        topic(driver)

    assert driver.partition.state.catalogue.all() == []


# Copies


@pytest.mark.requirement("R84")
def test_a_copy_takes_several_entries_and_keeps_newer_ones(
    news: Driver, make_store: MakeStore
) -> None:
    entries = news.partition.state.catalogue.all()
    older = known(news, "news/subscriptions/a")
    newer = subscription(news, action=UPDATE, changes={"max_delivery_count": 3})
    copy = Driver(make_store(fingerprint(2)))
    copy.run(ApplyEntity("t", [newer]))

    assert copy.run(ApplyEntity("t", [*reversed(entries), older])) == [Done()]

    assert known(copy, newer.key) == newer
    assert {each.name for each in copy.partition.state.catalogue.existing()} == {
        each.name for each in entries
    }
    copy.restart()
    assert known(copy, newer.key) == newer


def test_a_copy_is_taken_whole_or_not_at_all(news: Driver, make_store: MakeStore) -> None:
    good, bad = known(news, "news"), replace(known(news, "news/subscriptions/a"), name="x")
    copy = Driver(make_store(fingerprint(2)))

    [failed] = copy.run(ApplyEntity("t", [good, bad]))

    assert isinstance(failed.error, errors.InvalidArgument)
    assert copy.partition.state.catalogue.all() == []
