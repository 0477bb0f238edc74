"""JSON lines ↔ messages. Pure.

In: a line is a body, unless it is an object with `body` or `body_base64`. Then its other keys are
the message's properties, under the names that `receive --json` prints: what that printed can be
sent as it is. Numbers, counts and times, which only the bus decides, are read and ignored. A `body`
that is no text is sent as it stands in the line: read and written again, its numbers would differ.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.cli.errors import UsageError
from bendybus.cli.output import json_values
from bendybus.cli.output.json_values import LongInteger
from bendybus.client import ServiceBusMessage
from bendybus.client.exceptions import InvalidArgumentError, ServiceBusError
from bendybus.client.messages import encode, raw_amqp_message, values
from bendybus.domain import durations
from bendybus.domain.errors import InvalidArgument

TEXTS: Final = (
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "content_type",
    "correlation_id",
    "to",
    "reply_to",
    "reply_to_session_id",
)
# What only AMQP's sections have: set through `raw_amqp_message`.
AMQP_NUMBERS: Final = ("priority", "group_sequence", "creation_time", "absolute_expiry_time")
AMQP_MAPS: Final = ("annotations", "footer")
AMQP_BINARIES: Final = ("user_id", "amqp_escapes")
AMQP: Final = ("content_encoding", *AMQP_BINARIES, *AMQP_NUMBERS, *AMQP_MAPS)
TIMES: Final = ("time_to_live", "scheduled_enqueue_time_utc")
# Printed by `receive --json` and `peek --json`; the bus gives a message its own.
DECIDED_BY_THE_BUS: Final = (
    "sequence_number",
    "enqueued_sequence_number",
    "partition",
    "delivery_count",
    "enqueued_time_utc",
    "expires_at_utc",
    "state",
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_letter_source",
)
# A BOM, with which some editors begin a file.
_MARK: Final = "\ufeff"
_BODIES: Final = ("body", "body_base64", "body_type")
_PROPERTIES: Final = "application_properties"
_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# They match JSON by its form alone: the name of a field, a value without brackets, and the text
# before a bracket.
_NAME: Final = re.compile(rf"[{{,\s]*({_TEXT})\s*:\s*")
_SCALAR: Final = re.compile(rf"{_TEXT}|[^\s,}}\]]++")
_TO_BRACKET: Final = re.compile(rf'(?:[^]["{{}}]++|{_TEXT})*+[][{{}}]')
# Python reads integers of at most 4,300.
_DIGITS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields of a body name its keys; empty: none."""

    key: str = ""
    session: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send: arguments of the client's ServiceBusMessage, and `AMQP` fields.

    `kind` "value" and "sequence" are AMQP's other bodies. `line`: where it stands in the input.
    """

    body: Any
    properties: dict[str, Any] = field(default_factory=dict)
    kind: str = "data"
    line: int = field(default=0, compare=False)

    @property
    def size_bytes(self) -> int:
        """Return roughly how large it is."""
        body = (
            self.body if isinstance(self.body, str | bytes) else json.dumps(self.body, default=str)
        )
        # Of text, as much as it can have: what is too large for a batch is found before it is sent.
        own = len(body) if isinstance(body, bytes) else len(body.encode("utf-8", "surrogatepass"))
        return own + (len(str(self.properties)) if self.properties else 0)


def parse(line: str, number: int, fields: Fields) -> Outgoing:
    """Return the message of line `number`. Raises UsageError that names the line and the field.

    What is no object is the body as it is; the mark of a file's encoding is no part of an object.
    """
    text: str | bytes = line
    value = _json(line.removeprefix(_MARK), number)
    properties: dict[str, Any] = {}
    kind = "data"
    if isinstance(value, dict) and ("body" in value or "body_base64" in value):
        properties = _properties(value, number)
        kind = value.get("body_type") or "data"
        if kind != "data":
            body = _other_body(value, kind, number)
            return _checked(Outgoing(body, properties, kind, number))
        text, value = _body(line.removeprefix(_MARK), value, number)
    elif not any((fields.key, fields.session, fields.id)):
        return Outgoing(text, properties, kind, number)
    for name, source in (
        ("partition_key", fields.key),
        ("session_id", fields.session),
        ("message_id", fields.id),
    ):
        if source:
            properties[name] = _keyed(value, source, number)
    return _checked(Outgoing(text, properties, kind, number))


def body(data: bytes) -> dict[str, str]:
    """Return the body as text, or in base64 if it is not UTF-8."""
    try:
        return {"body": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(data).decode("ascii")}


def _json(text: str, number: int) -> Any:
    """Return the JSON value of a text, None if it is none.

    Raises UsageError for a message that is nested too deep to be read: it is no body.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None
    except RecursionError:
        if not _is_message(text):
            return None
    except ValueError:
        # An integer of more digits than Python reads.
        return _json_of_long_integers(text)
    raise UsageError(
        f"Line {number}: the object is nested too deep to be read as a message. Give what is "
        "nested as a text, or send the file as one body with --raw."
    )


def _is_message(text: str) -> bool:
    try:
        return any(name in ("body", "body_base64") for name, _ in _fields_of(text))
    except ValueError:
        # Python has read only the begin of it: it is no JSON.
        return False


def _json_of_long_integers(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_int=lambda digits: (
                int(digits) if len(digits) <= _DIGITS_MAX else LongInteger(digits)
            ),
        )
    except (ValueError, RecursionError):
        return None


def _fields_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each field of a JSON object, this as it stands there."""
    end = 0
    while name := _NAME.match(text, end):
        start = end = name.end()
        found = _SCALAR.match(text, start)
        depth = 0
        if text.startswith(("{", "["), start):
            found = _TO_BRACKET.match(text, start)
            depth = 1
        while found and depth:
            found = _TO_BRACKET.match(text, found.end())
            if found:
                depth += 1 if found.group().endswith(("{", "[")) else -1
        # Without an end it is nested too deep for Python to see that it is no JSON.
        end = found.end() if found else len(text)
        yield json.loads(name[1]), text[start:end]


def _body(line: str, value: Mapping[str, Any], number: int) -> tuple[str | bytes, Any]:
    """Return the body, and the JSON value in it that fields are taken from."""
    if "body_base64" not in value:
        found = value["body"]
        return found if isinstance(found, str) else dict(_fields_of(line))["body"], found
    if "body" in value:
        raise UsageError(f"Line {number}: set body or body_base64, not both.")
    try:
        return base64.b64decode(value["body_base64"], validate=True), None
    except (ValueError, TypeError, binascii.Error):
        raise UsageError(f"Line {number}: body_base64 is not valid base64.") from None


def _other_body(value: Mapping[str, Any], kind: Any, number: int) -> Any:
    if kind not in ("value", "sequence"):
        raise UsageError(
            f"Line {number}: body_type must be data, value or sequence (got {kind!r:.100})."
        )
    found = value.get("body")
    if kind == "sequence" and not (
        isinstance(found, list) and all(isinstance(each, list) for each in found)
    ):
        raise UsageError(f"Line {number}: the body of a sequence must be a list of lists.")
    try:
        return json_values.from_json(found)
    except ValueError as error:
        raise UsageError(f"Line {number}: body: {error}.") from None


def _checked(given: Outgoing) -> Outgoing:
    """Return a message that the client takes. Raises UsageError.

    The client would refuse it in its batch, where nobody knows its line any more.
    """
    own = {name: each for name, each in given.properties.items() if name in AMQP}
    others = {name: each for name, each in given.properties.items() if name not in AMQP}
    try:
        made = ServiceBusMessage(given.body if given.kind == "data" else b"", **others)
        raw_amqp_message.set_own_fields(made, own)
        if given.properties:
            encode.encode(made)
        if given.kind == "value":
            values.to_value(given.body)
        elif given.kind == "sequence":
            values.to_sequences(given.body)
    except (TypeError, ValueError, ServiceBusError) as error:
        said = str(error).removesuffix(".")
        if isinstance(error, InvalidArgumentError) and isinstance(error.__context__, UnicodeError):
            said = (
                f"{error.metadata['field']}: has half of a pair of surrogates, such as \\ud800, "
                "which is no character; write both halves, or leave it out"
            )
        raise UsageError(f"Line {given.line}: {said}.") from None
    return given


def _properties(value: Mapping[str, Any], number: int) -> dict[str, Any]:
    known = (*_BODIES, *TEXTS, *TIMES, _PROPERTIES, *AMQP)
    unknown = value.keys() - {*known, *DECIDED_BY_THE_BUS}
    if unknown:
        raise UsageError(
            f"Line {number}: {min(unknown)!r:.100} is not a known property. "
            f"Known: {', '.join(known)}."
        )
    found = {
        name: value[name] for name in (*TEXTS, "content_encoding") if value.get(name) is not None
    }
    for name, content in found.items():
        if not isinstance(content, str):
            raise UsageError(f"Line {number}: {name} must be text, not {content!r:.100}.")
    found |= _amqp_fields(value, number)
    try:
        if value.get("time_to_live") is not None:
            found["time_to_live"] = duration("time_to_live", value["time_to_live"])
        if value.get("scheduled_enqueue_time_utc") is not None:
            found["scheduled_enqueue_time_utc"] = moment(
                "scheduled_enqueue_time_utc", value["scheduled_enqueue_time_utc"]
            )
    except ValueError as error:
        raise UsageError(f"Line {number}: {error}.") from None
    if value.get(_PROPERTIES) is not None:
        found[_PROPERTIES] = _map(_PROPERTIES, value[_PROPERTIES], number)
        for name, content in found[_PROPERTIES].items():
            if isinstance(content, list | values.Map):
                raise UsageError(
                    f"Line {number}: {_PROPERTIES}[{name!r:.100}] must be one value, not a list or "
                    "an object. Put those into the body."
                )
    return found


def _amqp_fields(value: Mapping[str, Any], number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in AMQP_NUMBERS:
        content = value.get(name)
        if content is not None:
            if isinstance(content, bool) or not isinstance(content, int):
                raise UsageError(
                    f"Line {number}: {name} must be a whole number, not {content!r:.100}."
                )
            found[name] = content
    for name in AMQP_MAPS:
        if value.get(name) is not None:
            found[name] = _map(name, value[name], number)
    for name in AMQP_BINARIES:
        if value.get(name) is None:
            continue
        try:
            found[name] = json_values.from_json(value[name])
        except ValueError as error:
            raise UsageError(f"Line {number}: {name}: {error}.") from None
        if not isinstance(found[name], str | bytes):
            raise UsageError(f"Line {number}: {name} must be text or BINARY.")
    return found


def _map(name: str, content: Any, number: int) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"Line {number}: {name} must be an object.")
    try:
        return {key: json_values.from_json(entry) for key, entry in content.items()}
    except ValueError as error:
        raise UsageError(f"Line {number}: {name}: {error}.") from None


def duration(name: str, text: Any) -> timedelta:
    """Return a duration: ISO-8601 (`PT30S`), or seconds. Raises ValueError with `name`."""
    try:
        if isinstance(text, int | float) and not isinstance(text, bool):
            return timedelta(seconds=text)
        if isinstance(text, str) and _is_decimal(text):
            return timedelta(seconds=float(text))
        milliseconds = durations.parse(name, text)
    except (InvalidArgument, OverflowError, ValueError) as error:
        raise ValueError(
            f"{name}: must be seconds or an ISO-8601 duration such as PT30S (got {text!r:.100})"
        ) from error
    return timedelta.max if milliseconds is None else timedelta(milliseconds=milliseconds)


def moment(name: str, text: Any) -> datetime:
    """Return a moment: ISO-8601; without a time zone it is UTC. Raises ValueError with `name`."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}: must be ISO-8601 such as 2026-12-24T18:00:00Z (got {text!r:.100})"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _is_decimal(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _keyed(value: Any, source: str, number: int) -> str:
    if not isinstance(value, dict):
        raise UsageError(
            f"Line {number}: the body must be a JSON object, to take a key from {source!r}."
        )
    content = value.get(source)
    if content is None:
        raise UsageError(f"Line {number}: there is no field {source!r} to take a key from.")
    if isinstance(content, dict | list):
        raise UsageError(
            f"Line {number}: the field {source!r} must be a text or a number to be a key."
        )
    if isinstance(content, LongInteger):
        return content.digits
    return content if isinstance(content, str) else json.dumps(content)
