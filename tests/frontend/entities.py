"""Entities for tests of the front end's rules."""

from typing import Any

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription, TopicDescription


def queue(
    name: str = "orders",
    *,
    partitions: int = 4,
    home: int = 2,
    plain_numbers: bool = False,
    **changes: Any,
) -> Entity:
    """Return a queue's entry; `partitions=1` is a plain one."""
    description = QueueDescription(enable_partitioning=partitions > 1, **changes)
    facts = (name, f"uid-{name}", 1, Origin.CLIENT, description, partitions, home, 0, 0)
    return Entity(*facts, plain_numbers=plain_numbers)


def topic(name: str) -> Entity:
    """Return a topic of all four partitions."""
    return Entity(name, f"uid-{name}", 1, Origin.CLIENT, TopicDescription(), 4, 2, 0, 0)
