"""Ids of resources of Service Bus in Azure, which say what a resource is and what it belongs to."""

import re
from typing import Final

_ID: Final = re.compile(r"/providers/microsoft\.servicebus/(namespaces/.+)", re.IGNORECASE)

# Types below the provider in lower case, and one name of each.
Names = tuple[tuple[str, ...], tuple[str, ...]]


def is_one(text: str) -> bool:
    """Whether a text is an id of something in Service Bus, perhaps not a whole one."""
    return _ID.search(text) is not None


def parse(text: str) -> Names | None:
    """Return types and names; None if it is no such id. `~` in a name is a slash."""
    found = _ID.search(text)
    if found is None:
        return None
    segments = found[1].strip("/").split("/")
    types = tuple(each.lower() for each in segments[::2])
    names = tuple(entity_name(each) for each in segments[1::2])
    return (types, names) if len(types) == len(names) and all(names) else None


def entity_name(text: str) -> str:
    """Return the name of an entity as it is on a bus: Azure writes a slash as `~` in ids."""
    return text.replace("~", "/")
