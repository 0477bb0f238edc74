"""Messages of a partition's file as JSON lines.

Times are ISO-8601 in UTC. A body is text where it is UTF-8 (`body`), else `body_base64`; one of an
AMQP value or sequence is `body_value` or `body_sequence`. A user id is text where it is UTF-8, else
base64; values that only AMQP has are base64 of their AMQP encoding. What cannot be decoded is
exported as it is stored (`payload_base64`, with the head before it), never left out.
"""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from bendybus.domain import sequence_number
from bendybus.partition_server.offline import file_contents
from bendybus.partition_server.offline.file_contents import Record
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.records import Row, State
from bendybus.v1 import message_pb2
from bendybus.wire import delivered_properties, value_texts

if TYPE_CHECKING:
    from sqlite_utils import Database


_TEXTS: Final = (
    "content_type",
    "correlation_id",
    "subject",
    "to",
    "reply_to",
    "reply_to_session_id",
    "content_encoding",
)
_NUMBERS: Final = ("priority", "group_sequence")
_TIMES: Final = ("creation_time", "absolute_expiry_time")


def lines(database: "Database", entity: str = "") -> Iterator[str]:
    """Yield a line per message, of one queue (by name, without regard to case) or of all.

    Raises FileRefused when the file does not know the queue.
    """
    entries = {entry["uid"]: entry for entry in file_contents.catalogue(database)}
    live = {uid: entry for uid, entry in entries.items() if not entry["deleted"]}
    wanted = entity.lower()
    if wanted and wanted not in {entry["name"].lower() for entry in live.values()}:
        names = ", ".join(sorted(entry["name"] for entry in live.values())) or "none"
        raise FileRefused(f"there is no queue {entity!r} in this file; it has: {names}.")
    partition = file_contents.header(database)["partition_index"]
    sql = file_format.load("inspecting.sql")
    slots = {slot["slot"]: slot for slot in database.query(sql["slots"]) if not slot["dropped"]}
    for values in database.query(sql["stored"]):
        row = _whole(database, sql, Row(**values))
        slot = slots.get(row.slot, {})
        uid = slot.get("uid", "")
        name = live[uid]["name"] if uid in live else f"(slot {row.slot})"
        if not wanted or name.lower() == wanted:
            # A tombstone says it, too.
            plain = entries.get(uid, {}).get("plain_numbers", False)
            base = sequence_number.base_of(partition, plain=plain)
            yield json.dumps(_record(row, name, slot.get("sub_queue", 0), base))


def _whole(database: "Database", sql: dict[str, str], row: Row) -> Row:
    """Return a message with its body, also if it shares it with others."""
    if not row.is_shared:
        return row
    found = database.query(sql["body"], (int.from_bytes(row.payload, "big"),))
    return row._replace(payload=next((each["payload"] for each in found), b""))


def _record(row: Row, name: str, sub_queue: int, base: int) -> Record:
    record: Record = {
        "entity": name,
        "sub_queue": file_contents.SUFFIXES.get(sub_queue, ""),
        "sequence_number": base + row.counter,
        "state": State(row.state).name.capitalize(),
        "enqueued_time": file_contents.iso(row.enqueued_ms),
        "message_id": row.message_id,
        "partition_key": row.partition_key,
        "session_id": row.session_id,
        "delivery_count": row.delivery_count,
        "expires_at": file_contents.iso(row.expires_ms),
        "scheduled_enqueue_time": file_contents.iso(row.scheduled_ms),
        "dead_letter_reason": row.dead_letter_reason,
        "dead_letter_error_description": row.dead_letter_error_description,
        "dead_letter_source": row.dead_letter_source,
        "enqueued_sequence_number": row.enqueued_sequence_number or None,
        **_content(row),
    }
    return {
        name: value
        for name, value in record.items()
        if name.startswith("body") or value not in (None, "", {})
    }


def _content(row: Row) -> Record:
    try:
        message = message_pb2.Message.FromString(row.head + row.payload)
        properties = delivered_properties.merged(
            message.application_properties,
            row.changed_properties,
            row.dead_letter_reason,
            row.dead_letter_error_description,
        )
    except DecodeError:
        return {"payload_base64": _base64(row.head + row.payload)}
    return {
        **{name: getattr(message, name) for name in _TEXTS},
        **{name: getattr(message, name) for name in _NUMBERS if message.HasField(name)},
        **{
            name: _moment(getattr(message, f"{name}_ms"))
            for name in _TIMES
            if message.HasField(f"{name}_ms")
        },
        "user_id": _text(message.user_id),
        "amqp_escapes": _base64(message.amqp_escapes),
        "application_properties": _plain_map(properties),
        "annotations": _plain_map(message.annotations),
        "footer": _plain_map(message.footer),
        **_body(message),
    }


def _body(message: message_pb2.Message) -> Record:
    if message.HasField("value"):
        return {"body_value": _plain(message.value)}
    if message.sequences:
        return {"body_sequence": [_plain_list(part) for part in message.sequences]}
    data = b"".join(message.data)
    try:
        return {"body": data.decode()}
    except UnicodeDecodeError:
        return {"body_base64": _base64(data)}


def _plain(value: message_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    inner = getattr(value, kind)
    if kind == "list_value":
        return _plain_list(inner)
    if kind == "map_value":
        return _plain_map(inner.entries)
    if kind in ("binary_value", "encoded_value"):
        return _base64(inner)
    if kind == "uuid_value":
        return value_texts.of_uuid(inner)
    if kind == "timestamp_ms_value":
        return _moment(inner)
    if kind == "char_value":
        return value_texts.of_character(inner)
    # JSON cannot represent them.
    return str(inner) if isinstance(inner, float) and not math.isfinite(inner) else inner


def _moment(time_ms: int) -> str | int:
    return file_contents.iso(time_ms) or time_ms


def _plain_map(entries: Mapping[str, message_pb2.Value]) -> Record:
    return {name: _plain(value) for name, value in entries.items()}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _base64(data)


def _plain_list(values: message_pb2.ValueList) -> list[Any]:
    return [_plain(value) for value in values.values]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
