"""The kinds of entities."""

from enum import StrEnum


class EntityKind(StrEnum):
    """What an entity is; the value is the word for it in sentences."""

    QUEUE = "queue"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
