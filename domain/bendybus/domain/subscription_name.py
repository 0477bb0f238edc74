"""Names of subscriptions: TOPIC/Subscriptions/NAME, and what NAME may be."""

import re
from typing import Final

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument

SEPARATOR: Final = "/Subscriptions/"
_SEPARATOR_KEY: Final = SEPARATOR.lower()
_NAME: Final = re.compile(r"\w(?:[\w.-]*\w)?\Z", re.ASCII)


def compose(topic: str, name: str) -> str:
    """Return the name of a subscription as an entity."""
    return f"{topic}{SEPARATOR}{name}"


def split(entity_name: str) -> tuple[str, str] | None:
    """Return (topic, name) of a subscription's name as an entity; None if it is not one's."""
    at = entity_name.lower().find(_SEPARATOR_KEY)
    return None if at < 0 else (entity_name[:at], entity_name[at + len(SEPARATOR) :])


def family(key: str) -> str:
    """Return the key of the topic that an entry belongs to; of a topic or a queue its own."""
    parts = split(key)
    return parts[0] if parts else key


def keys_of(topic_key: str) -> str:
    """Return what the names of all subscriptions of a topic begin with, in lower case."""
    return f"{topic_key}{_SEPARATOR_KEY}"


def check(name: str) -> None:
    """Raise InvalidArgument unless `name` can name a subscription within its topic."""
    most = limits.SUBSCRIPTION_NAME_CHARS_MAX
    if len(name) > most:
        raise InvalidArgument(
            "subscriptionName", f"must be at most {most} characters (got {len(name)})."
        )
    if not _NAME.match(name):
        raise InvalidArgument(
            "subscriptionName",
            f"{name!r} must start and end with a letter, digit or _, and have only letters, digits "
            "and . - _ in between.",
        )
