"""Changes that a manifest makes to the queue `orders`, for tests."""

from typing import Any

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import (
    CommitEntity,
)
from tests.partition_server.driver import Driver

FIRST, SECOND = "manifest-1", "manifest-2"


def commit(
    driver: Driver, action: EntityAction, *, origin: Origin = Origin.MANIFEST, **options: Any
) -> Entity:
    """Commit a change of `orders`; return the entry or raise what refuses it."""
    values = driver.run(CommitEntity("t", action, "orders", origin, **options))
    [value] = [v for v in values if isinstance(v, Failed | Entity)]
    if isinstance(value, Failed):
        raise value.error
    return value


def create(driver: Driver, manifest: str = FIRST, **changes: Any) -> Entity:
    """Create `orders` from a manifest."""
    options: dict[str, Any] = {"changes": changes, "uid": manifest, "manifest_uid": manifest}
    return commit(driver, EntityAction.CREATE, **options)


def only(driver: Driver) -> Entity:
    """Return the one entity that exists."""
    [entity] = driver.partition.state.catalogue.existing()
    return entity
