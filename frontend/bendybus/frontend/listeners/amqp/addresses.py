"""Addresses of AMQP links, as the SDKs write them: a URI, a path, or a path with a slash before it.

    amqps://host:5671/orders           JavaScript: orders            .NET: /orders
    topic/Subscriptions/name           …/$DeadLetterQueue            orders/$management

What is not a node of the connection itself is the path of an entity or one of its sub-queues.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from bendybus.domain import errors

CBS: Final = "$cbs"
_MANAGEMENT: Final = "$management"


class Node(Enum):
    """What a link is attached to."""

    ENTITY = "entity"
    MANAGEMENT = "management"
    CBS = "cbs"


@dataclass(frozen=True, slots=True)
class Address:
    """An address as it was written, and what it means."""

    text: str
    node: Node
    # Of the entity, or its sub-queue; "" is the namespace.
    path: str = ""


def parse(text: Any) -> Address:
    """Return what an address means. Raises InvalidArgument."""
    if not isinstance(text, str) or not text:
        raise errors.InvalidArgument("address", "must be a string that names an entity.")
    path = path_of(text)
    if path.lower() == CBS:
        return Address(text, Node.CBS, CBS)
    if path.lower() == _MANAGEMENT:
        return Address(text, Node.MANAGEMENT)
    if path.lower().endswith(f"/{_MANAGEMENT}"):
        return Address(text, Node.MANAGEMENT, path[: -len(_MANAGEMENT) - 1])
    return Address(text, Node.ENTITY, path)


def management_of(path: str) -> str:
    """Return the path of an entity's $management: a token may be for nothing else."""
    return f"{path}/{_MANAGEMENT}"


def path_of(text: str) -> str:
    """Return the path of a URI, or of what is one already, without slashes around it."""
    if "://" in text:
        try:
            text = unquote(urlsplit(text).path)
        except ValueError:
            raise errors.InvalidArgument("address", f"invalid URI: {text[:200]!r}.") from None
    return text.strip("/")
