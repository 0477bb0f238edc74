"""JSON lines ↔ messages. Pure.

In: a line is a body, unless it is an object with `body`. Then its other keys are the message's
properties, under the names that `receive --json` prints.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.cli.errors import UsageError

_PROPERTIES: Final = (
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "content_type",
    "correlation_id",
    "to",
    "reply_to",
)


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields of a body name its keys; empty: none."""

    key: str = ""
    session: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send: arguments of the client's ServiceBusMessage."""

    body: str
    properties: dict[str, Any] = field(default_factory=dict)


def parse(line: str, number: int, fields: Fields) -> Outgoing:
    """Return the message of line `number`. Raises UsageError that names the line and the field."""
    text = line.rstrip("\r\n")
    value = _json(text)
    properties: dict[str, Any] = {}
    if isinstance(value, dict) and "body" in value:
        properties = _properties(value, number)
        value = value["body"]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for name, source in (
        ("partition_key", fields.key),
        ("session_id", fields.session),
        ("message_id", fields.id),
    ):
        if source:
            properties[name] = _keyed(value, source, number)
    return Outgoing(text, properties)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _properties(value: Mapping[str, Any], number: int) -> dict[str, Any]:
    unknown = value.keys() - {*_PROPERTIES, "body", "application_properties"}
    if unknown:
        known = ", ".join(("body", *_PROPERTIES, "application_properties"))
        raise UsageError(f"Line {number}: {min(unknown)!r} is no property. Known: {known}.")
    found = {name: value[name] for name in _PROPERTIES if value.get(name) is not None}
    for name, content in found.items():
        if not isinstance(content, str):
            raise UsageError(f"Line {number}: {name} must be text, not {content!r}.")
    application = value.get("application_properties")
    if application is not None:
        if not isinstance(application, dict):
            raise UsageError(f"Line {number}: application_properties must be an object.")
        found["application_properties"] = application
    return found


def _keyed(value: Any, source: str, number: int) -> str:
    content = value.get(source) if isinstance(value, dict) else None
    if content is None or isinstance(content, dict | list):
        raise UsageError(f"Line {number}: there is no field {source!r} to take a key from.")
    return content if isinstance(content, str) else json.dumps(content)


def body(data: bytes) -> dict[str, str]:
    """Return the body as text, or in base64 where it is none."""
    try:
        return {"body": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(data).decode("ascii")}
