"""Changes of topics and subscriptions of a partition, for tests."""

from typing import Any

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver

CREATE, UPDATE, DELETE = EntityAction.CREATE, EntityAction.UPDATE, EntityAction.DELETE


def topic(driver: Driver, name: str = "news", action: EntityAction = CREATE, **options: Any) -> Any:
    """Change a topic; return the entry or raise what refuses it."""
    return commit(driver, action, name, kind=EntityKind.TOPIC, **options)


def subscription(
    driver: Driver,
    name: str = "news/Subscriptions/a",
    action: EntityAction = CREATE,
    **options: Any,
) -> Any:
    """Change a subscription; return the entry or raise what refuses it."""
    return commit(driver, action, name, kind=EntityKind.SUBSCRIPTION, **options)


def known(driver: Driver, key: str) -> Entity:
    """Return what a partition knows of a name."""
    entity = driver.partition.state.catalogue.by_key(key)
    assert entity is not None, key
    return entity


def make_news(driver: Driver) -> Driver:
    """Make the topic `news` and its subscriptions `a` and `b`."""
    topic(driver)
    subscription(driver)
    subscription(driver, "news/Subscriptions/b")
    return driver
