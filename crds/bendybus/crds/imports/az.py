"""What `az servicebus … show` and `… list` print → resources of Service Bus. Pure.

    az servicebus queue list … | bendybus convert -

One object, or a list of them. Their properties are not below `properties`, and their `id` alone
says what they are and where, so several lists can be put together as one.
"""

from collections.abc import Mapping
from typing import Any, Final

from bendybus.crds import json_text
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.imports import arm_id
from bendybus.crds.imports.arm_template import Resource

# Fields that the service reports and that nobody sets.
_REPORTED: Final = frozenset(
    (
        *(
            "id",
            "name",
            "type",
            "resourcegroup",
            "createdat",
            "updatedat",
            "accessedat",
            "location",
        ),
        *("countdetails", "messagecount", "sizeinbytes", "subscriptioncount", "systemdata"),
        *("provisioningstate", "servicebusendpoint", "metricid", "etag", "identity", "tags"),
    )
)
# Where an object is that is printed alone.
_ALONE: Final = "resource"
_OF_NAMESPACE: Final = frozenset(("status", "sku"))


def is_printed(document: Any) -> bool:
    """Whether a document is what the command prints."""
    entries = document if isinstance(document, list) else [document]
    return bool(entries) and all(
        isinstance(each, dict) and arm_id.is_one(str(each.get("id", ""))) for each in entries
    )


def read(reader: FieldReader, document: Any) -> list[Resource]:
    """Return the resources. Errors become problems of the reader."""
    if not isinstance(document, list):
        return [each for each in (_resource(reader, "", document),) if each is not None]
    made = (_resource(reader, f"[{at}]", each) for at, each in enumerate(document))
    return [each for each in made if each is not None]


def _resource(reader: FieldReader, place: str, value: Any) -> Resource | None:
    text = str(value.get("id", "")) if isinstance(value, dict) else ""
    found = arm_id.parse(text)
    if found is None:
        wrong = "names no resource of Service Bus."
        if arm_id.is_one(text):
            wrong = "has no name for its last part."
        reader.problem(json_text.step(place, "id"), wrong)
        return None
    types, names = found
    reader.taken(json_text.step(place, "id"))
    return Resource(types, names, place or _ALONE, _fields(reader, place, types, value))


def _fields(
    reader: FieldReader, place: str, types: tuple[str, ...], value: Mapping[str, Any]
) -> dict[str, Field]:
    properties: dict[str, Any] = {}
    below = place
    made: dict[str, Field] = {}
    for name, each in value.items():
        at = json_text.step(place, name)
        if len(types) == 1 and name.lower() == "sku":
            made["sku"] = at, each
        elif name.lower() == "properties" and isinstance(each, dict):
            # As az resource show prints it.
            properties |= {key: one for key, one in each.items() if not _is_reported(key, types)}
            below = at
        elif _is_reported(name, types):
            reader.taken(at, "is what the service reports.")
        else:
            properties[name] = each
    reader.written[f"{place or _ALONE}.properties"] = below
    made["properties"] = below, properties
    return made


def _is_reported(name: str, types: tuple[str, ...]) -> bool:
    """Whether the service reports a field, and nobody sets it."""
    lower = name.lower()
    return lower in _REPORTED or (len(types) == 1 and lower in _OF_NAMESPACE)
