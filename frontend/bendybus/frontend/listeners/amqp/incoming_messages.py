"""AMQP messages that clients send, as columns of the contract.

    header ─────────── ttl ──────────────────────────► time_to_live_ms
                       priority ─────────────────────► head
    annotations ────── partition key, schedule ──────► partition_keys, scheduled_enqueue_time_ms
                       what only the bus sets ───────► dropped
                       others ───────────────────────► head
    properties ─────── message-id, group-id ─────────► message_ids, session_ids
                       others ───────────────────────► head
    application properties ──────────────────────────► head
    body, footer ────────────────────────────────────► messages

A message without a message-id gets one: the SDK for JavaScript cannot settle it otherwise.
header.delivery-count applies to one hop and is dropped. Delivery annotations are passed on, as
Service Bus does: they, and what no field can hold, go into the head's escapes. The reverse is
`outgoing_messages`.
"""

from collections.abc import Callable
from typing import Any, Final

from bendybus.amqp import sections, values
from bendybus.amqp.errors import DecodeError, FieldError, TooManyError
from bendybus.amqp.sections import Header, Map, Properties
from bendybus.amqp.values import Symbol
from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument, MessageSizeExceeded
from bendybus.frontend.core import columns
from bendybus.frontend.listeners.amqp import amqp_values, annotations, escapes
from bendybus.frontend.listeners.amqp.escapes import Section
from bendybus.v1 import message_pb2

# The ttl of a header whose time to live does not fit into its 32 bits.
_TTL_MAX: Final = 2**32 - 1
_TEXTS: Final = (
    ("to", "to", str),
    ("subject", "subject", str),
    ("reply_to", "reply-to", str),
    ("correlation_id", "correlation-id", str),
    ("content_type", "content-type", Symbol),
    ("content_encoding", "content-encoding", Symbol),
)


class Columns:
    """Collects messages in columns."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[columns.SentRow] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_delivery(self, payload: bytes, message_format: int) -> int:
        """Add what one delivery carries: a message, or all those of a batch; return how many.

        Raises InvalidArgument or MessageSizeExceeded; then nothing was added.
        """
        if message_format != sections.BATCH_FORMAT:
            self.add(payload)
            return 1
        most = limits.FRAME_MESSAGES_MAX
        try:
            payloads = sections.batched(payload, most)
        except TooManyError:
            raise MessageSizeExceeded(
                f"a batch has at most {most} messages. Send less at a time.",
                metadata={"limit": str(most)},
            ) from None
        except DecodeError as error:
            raise _undecodable(error) from None
        batch = Columns()
        for each in payloads:
            batch.add(each)
        self._rows += batch._rows
        return len(payloads)

    def add(self, payload: bytes) -> None:
        """Add one AMQP message. Raises as `add_delivery` does."""
        try:
            message = sections.decode(payload)
        except DecodeError as error:
            raise _undecodable(error) from None
        self._rows.append(_row(message))

    def batch(self, new_id: Callable[[], str]) -> columns.MessageBatch:
        """Return the columns; one whose values are all defaults is left empty.

        `new_id`: returns an id for each message without one.
        """
        return columns.from_rows(self._rows, new_id)


def changed_properties(entries: Map | None) -> columns.Properties:
    """Return application properties that a settlement changes.

    Raises InvalidArgument for a name that is not text.
    """
    made = message_pb2.ValueMap()
    for key, value in escapes.pairs(entries) if entries else ():
        if not isinstance(key, str):
            raise InvalidArgument(
                "message-annotations", f"a name must be a symbol or a string (got {key!r:.80})."
            )
        amqp_values.fill(made.entries[str(key)], value, 0)
    return made


def via_keys(batch: columns.MessageBatch) -> list[str]:
    """Return the key of each message for the partition through which a transaction sends it.

    "" is none. A message without a key of its own gets it as its partition key, too: so messages
    with one of these keys stay together and in order on their way.
    """
    heads = map(message_pb2.Message.FromString, batch.heads)
    name = annotations.VIA_PARTITION_KEY
    found = [
        head.annotations[name].string_value if name in head.annotations else "" for head in heads
    ]
    if not any(found):
        return []
    count = len(batch.messages)
    keys = list(batch.partition_keys) or [""] * count
    sessions = list(batch.session_present) or [bool(batch.session_ids)] * count
    keys = [
        key or ("" if in_session else via)
        for key, via, in_session in zip(keys, found, sessions, strict=True)
    ]
    if any(keys):
        batch.partition_keys[:] = keys
    return found


def dead_letter_text(given: object) -> str:
    """Return a dead letter's reason or description, cut to what one may have.

    Not refused: the SDK for Java takes a refusal for success, and the message comes again.
    """
    return str(given or "")[: limits.DEAD_LETTER_TEXT_CHARS_MAX]


def _row(message: sections.Message) -> columns.SentRow:
    head = message_pb2.Message()
    kept: dict[str, Any] = {}
    header, properties = message.header, message.properties
    partition_key, scheduled_ms = "", 0
    message_id: str | None = None
    session_id: str | None = None
    if header is not None:
        _add_header(head, header, kept)
    if message.delivery_annotations:
        _keep_delivery_annotations(message.delivery_annotations, kept)
    if properties is not None:
        if properties.group_id is not None:
            session_id = properties.group_id
        if properties.message_id is not None:
            message_id = _text("message-id", properties.message_id, str, kept)
        _add_properties(head, properties, kept)
    if message.message_annotations:
        own, partition_key, scheduled_ms = _split(message.message_annotations, kept)
        _add_map(head.annotations, own, escapes.ANNOTATIONS, kept)
    if message.application_properties:
        given = escapes.pairs(message.application_properties)
        _add_map(head.application_properties, given, escapes.PROPERTIES, kept)
    body = _body(message)
    footer_bytes = 0
    if message.footer:
        size = body.ByteSize()
        _add_map(body.footer, escapes.pairs(message.footer), escapes.FOOTER, kept)
        footer_bytes = body.ByteSize() - size
    if kept:
        head.amqp_escapes = escapes.encode(kept)
    head_bytes = head.SerializeToString()
    if len(head_bytes) + footer_bytes > limits.PROPERTY_BYTES_MAX:
        columns.check_head(head, len(head_bytes) + footer_bytes)
    return columns.SentRow(
        body.SerializeToString(),
        head_bytes,
        message_id,
        partition_key,
        session_id,
        _time_to_live_ms(header, properties),
        scheduled_ms,
    )


def _keep_delivery_annotations(given: Map, kept: dict[str, Any]) -> None:
    passed_on = [
        (key, value)
        for key, value in escapes.pairs(given)
        if not isinstance(key, str) or key not in annotations.SET_BY_THE_BUS
    ]
    if passed_on:
        kept[escapes.DELIVERY_ANNOTATIONS] = values.map_of(passed_on)


def _undecodable(error: DecodeError) -> InvalidArgument:
    if isinstance(error, FieldError):
        return InvalidArgument(error.field, f"{error.reason}.")
    return InvalidArgument("message", f"cannot be decoded as AMQP 1.0: {error}.")


def _add_header(head: message_pb2.Message, header: Header, kept: dict[str, Any]) -> None:
    if header.priority is not None:
        head.priority = header.priority
    if header.durable is not None:
        kept[escapes.DURABLE] = header.durable
    if header.first_acquirer is not None:
        kept[escapes.FIRST_ACQUIRER] = header.first_acquirer


def _add_properties(
    head: message_pb2.Message, properties: Properties, kept: dict[str, Any]
) -> None:
    for field, name, kind in _TEXTS:
        value = getattr(properties, field)
        if value is not None:
            setattr(head, field, _text(name, value, kind, kept))
    if properties.reply_to_group_id is not None:
        head.reply_to_session_id = _text(
            "reply-to-group-id", properties.reply_to_group_id, str, kept
        )
    if properties.user_id is not None:
        head.user_id = properties.user_id
        if not properties.user_id:
            kept["user-id"] = properties.user_id
    if properties.group_sequence is not None:
        head.group_sequence = properties.group_sequence
    if properties.creation_time is not None:
        head.creation_time_ms = properties.creation_time
    if properties.absolute_expiry_time is not None:
        head.absolute_expiry_time_ms = properties.absolute_expiry_time


def _text(name: str, value: Any, kind: type[str], kept: dict[str, Any]) -> str:
    """Return a property as text; the original is kept unless the text says all of it."""
    if type(value) is kind and value:
        return value
    kept[name] = value
    return escapes.text_of(value)


def _time_to_live_ms(header: Header | None, properties: Properties | None) -> int:
    ttl = None if header is None else header.ttl
    if ttl is not None and ttl < _TTL_MAX:
        # In the contract 0 means none: a ttl of 0 becomes the shortest time to live.
        return ttl or 1
    if (
        properties is not None
        and properties.creation_time is not None
        and properties.absolute_expiry_time is not None
        and properties.absolute_expiry_time > properties.creation_time
    ):
        # Also if the header has the largest value of its 32 bits: the two times are exact.
        lasts_ms = properties.absolute_expiry_time - properties.creation_time
        return min(max(lasts_ms, ttl or 0), limits.TIME_TO_LIVE_MS_MAX)
    return ttl or 0


def _split(given: Map, kept: dict[str, Any]) -> tuple[list[tuple[Any, Any]], str, int]:
    """Return the application's own annotations, the partition key and the scheduled time."""
    own: list[tuple[Any, Any]] = []
    partition_key, scheduled_ms = "", 0
    for key, value in escapes.pairs(given):
        if not isinstance(key, str):
            own.append((key, value))
        elif key in annotations.SET_BY_THE_BUS:
            continue
        elif key == annotations.PARTITION_KEY:
            partition_key = _partition_key(value)
            if value is not None and not partition_key:
                kept[escapes.PARTITION_KEY] = ""
        elif key == annotations.SCHEDULED_ENQUEUE_TIME:
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise InvalidArgument(annotations.SCHEDULED_ENQUEUE_TIME, "must be a timestamp.")
            # A time before 1970 means now, as any past time. The core checks the upper bound.
            scheduled_ms = min(max(int(value or 0), 0), bounds.NUMBER_MAX)
        else:
            own.append((key, value))
    return own, partition_key, scheduled_ms


def _partition_key(value: Any) -> str:
    # azure-servicebus for Python sends a string that it received as binary.
    if value is None or isinstance(value, str):
        return str(value or "")
    text = escapes.utf8(value) if type(value) is bytes else ""
    if not text and value != b"":
        raise InvalidArgument(annotations.PARTITION_KEY, "must be a string.")
    return text


def _add_map(entries: Any, given: Any, section: Section, kept: dict[str, Any]) -> None:
    """Put a section into a field, and what the field cannot hold among `kept`."""
    usual, nested_max = section.kind, amqp_values.NESTED_MAX
    if section is escapes.PROPERTIES:
        nested_max = 0
    names: list[str] = []
    others: list[tuple[Any, Any]] = []
    for key, value in given:
        if not isinstance(key, str) or key in entries:
            others.append((key, value))
            continue
        if type(key) is not usual:
            names.append(str(key))
        amqp_values.fill(entries[key], value, nested_max)
    if names:
        kept[section.names] = names
    if others:
        kept[section.entries] = values.map_of(others)


def _body(message: sections.Message) -> message_pb2.Message:
    if message.data:
        return message_pb2.Message(data=message.data)
    body = message_pb2.Message()
    if message.sequences:
        for sequence in message.sequences:
            target = body.sequences.add()
            for item in sequence:
                amqp_values.fill(target.values.add(), item)
    else:
        amqp_values.fill(body.value, message.value)
    return body
