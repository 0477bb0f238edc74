"""Changes of the catalogue of a partition, for tests."""

from typing import Any

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import (
    CommitEntity,
)
from tests.partition_server.driver import Driver


def commit(
    driver: Driver,
    action: EntityAction,
    name: str = "orders",
    *,
    origin: Origin = Origin.CLIENT,
    **options: Any,
) -> Any:
    """Commit a change; return the entry or raise what refuses it."""
    if action is EntityAction.CREATE:
        options.setdefault("uid", f"uid-{name}")
    values = driver.run(CommitEntity("t", action, name, origin, **options))
    [value] = [v for v in values if isinstance(v, Failed | Entity)]
    if isinstance(value, Failed):
        raise value.error
    return value
