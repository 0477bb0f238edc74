"""AMQP's view of a message, for applications that need more than `ServiceBusMessage` shows.

Bendybus carries the body in all three AMQP forms, properties, message annotations, priority and
footer. Delivery annotations, `durable` and `first_acquirer` are between neighbours on the way of a
message: they are not transmitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, TypeVar

from bendybus.client.mapping import MappingMixin
from bendybus.client.messages import values
from bendybus.client.messages.values import ApplicationProperties
from bendybus.v1 import message_pb2

TRANSMITTED: Final = (
    "priority",
    "user_id",
    "content_encoding",
    "group_sequence",
    "creation_time",
    "absolute_expiry_time",
    "annotations",
    "footer",
    "amqp_escapes",
)


@dataclass(slots=True)
class AmqpFields:
    """The fields of AMQP's sections that `ServiceBusMessage` has no attribute for.

    `delivery_annotations`, `durable`, `first_acquirer` and `delivery_count` stay in this process.
    """

    priority: int | None = None
    user_id: bytes | None = None
    content_encoding: str | None = None
    group_sequence: int | None = None
    # Milliseconds since 1970.
    creation_time: int | None = None
    absolute_expiry_time: int | None = None
    annotations: ApplicationProperties | None = None
    footer: dict[Any, Any] | None = None
    # What a sender of AMQP wrote that no other field can hold; see the contract.
    amqp_escapes: bytes | None = None
    delivery_annotations: dict[Any, Any] | None = None
    durable: bool | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None

    def transmitted(self) -> dict[str, Any]:
        """Return what is sent with the message, by name, without what is not set."""
        found = ((name, getattr(self, name)) for name in TRANSMITTED)
        return {name: value for name, value in found if value is not None}

    def copy(self) -> "AmqpFields":
        """Return a copy with annotations and footers of its own."""
        made = AmqpFields(*(getattr(self, each.name) for each in fields(self)))
        for name in ("annotations", "footer", "delivery_annotations"):
            found = getattr(self, name)
            setattr(made, name, None if found is None else type(found)(found))
        return made


def read(proto: message_pb2.Message) -> AmqpFields | None:
    """Return what a received message has; None if it has nothing of it."""
    found = AmqpFields(
        priority=proto.priority if proto.HasField("priority") else None,
        user_id=proto.user_id or None,
        content_encoding=proto.content_encoding or None,
        group_sequence=proto.group_sequence if proto.HasField("group_sequence") else None,
        creation_time=proto.creation_time_ms if proto.HasField("creation_time_ms") else None,
        absolute_expiry_time=(
            proto.absolute_expiry_time_ms if proto.HasField("absolute_expiry_time_ms") else None
        ),
        annotations=values.from_map(proto.annotations) if proto.annotations else None,
        footer=values.from_map(proto.footer) if proto.footer else None,
        amqp_escapes=proto.amqp_escapes or None,
    )
    return None if found == _NONE else found


_NONE: Final = AmqpFields()


_Section = TypeVar("_Section")


class AmqpMessageBodyType(str, Enum):
    """The kind of a body: sections of bytes, sequences of values, or one value."""

    DATA = "data"
    SEQUENCE = "sequence"
    VALUE = "value"


class AmqpMessageHeader(MappingMixin):
    """The header section."""

    def __init__(
        self,
        *,
        delivery_count: int | None = None,
        time_to_live: int | None = None,
        durable: bool | None = None,
        first_acquirer: bool | None = None,
        priority: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.delivery_count = delivery_count
        # Milliseconds.
        self.time_to_live = time_to_live
        self.durable = durable
        self.first_acquirer = first_acquirer
        self.priority = priority


class AmqpMessageProperties(MappingMixin):
    """The properties section."""

    def __init__(
        self,
        *,
        message_id: str | bytes | Any | None = None,
        user_id: str | bytes | None = None,
        to: str | bytes | None = None,
        subject: str | bytes | None = None,
        reply_to: str | bytes | None = None,
        correlation_id: str | bytes | None = None,
        content_type: str | bytes | None = None,
        content_encoding: str | bytes | None = None,
        creation_time: int | None = None,
        absolute_expiry_time: int | None = None,
        group_id: str | bytes | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | bytes | None = None,
        **kwargs: Any,
    ) -> None:
        self.message_id = message_id
        self.user_id = user_id
        self.to = to
        self.subject = subject
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.creation_time = creation_time
        self.absolute_expiry_time = absolute_expiry_time
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.reply_to_group_id = reply_to_group_id


class AmqpAnnotatedMessage:
    """A message with its AMQP sections; exactly one of data_body, sequence_body, value_body."""

    def __init__(
        self,
        *,
        header: AmqpMessageHeader | Mapping[str, Any] | None = None,
        footer: dict[Any, Any] | None = None,
        properties: AmqpMessageProperties | Mapping[str, Any] | None = None,
        application_properties: dict[str | bytes, Any] | None = None,
        annotations: dict[str | bytes, Any] | None = None,
        delivery_annotations: dict[str | bytes, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        given = [name for name in ("data_body", "sequence_body", "value_body") if name in kwargs]
        if len(given) != 1:
            raise ValueError(
                "exactly one of data_body, sequence_body and value_body is required "
                f"(got {len(given)})"
            )
        self._encoding: str = kwargs.get("encoding", "UTF-8")
        self._body_type = AmqpMessageBodyType(given[0].removesuffix("_body"))
        self._body = self._normalised(kwargs[given[0]])
        self.header = _as_section(AmqpMessageHeader, header)
        self.footer = footer
        self.properties = _as_section(AmqpMessageProperties, properties)
        self.application_properties = application_properties
        self.annotations = annotations
        self.delivery_annotations = delivery_annotations

    @property
    def body(self) -> Any:
        """The body: an iterator over sections or sequences, or the value itself."""
        return self._body if self._body_type is AmqpMessageBodyType.VALUE else iter(self._body)

    @property
    def body_type(self) -> AmqpMessageBodyType:
        """The kind of the body."""
        return self._body_type

    @property
    def header(self) -> AmqpMessageHeader | None:
        """The header section."""
        return self._header

    @header.setter
    def header(self, value: AmqpMessageHeader | None) -> None:
        self._header = value

    @property
    def footer(self) -> dict[Any, Any] | None:
        """The footer section."""
        return self._footer

    @footer.setter
    def footer(self, value: dict[Any, Any] | None) -> None:
        self._footer = value

    @property
    def properties(self) -> AmqpMessageProperties | None:
        """The properties section."""
        return self._properties

    @properties.setter
    def properties(self, value: AmqpMessageProperties | None) -> None:
        self._properties = value

    @property
    def application_properties(self) -> dict[str | bytes, Any] | None:
        """The properties that the application added."""
        return self._application_properties

    @application_properties.setter
    def application_properties(self, value: dict[str | bytes, Any] | None) -> None:
        self._application_properties = value

    @property
    def annotations(self) -> dict[str | bytes, Any] | None:
        """The annotations that the service added."""
        return self._annotations

    @annotations.setter
    def annotations(self, value: dict[str | bytes, Any] | None) -> None:
        self._annotations = value

    @property
    def delivery_annotations(self) -> dict[str | bytes, Any] | None:
        """The annotations that the service added for this delivery."""
        return self._delivery_annotations

    @delivery_annotations.setter
    def delivery_annotations(self, value: dict[str | bytes, Any] | None) -> None:
        self._delivery_annotations = value

    def __str__(self) -> str:
        if self._body_type is AmqpMessageBodyType.DATA:
            return b"".join(self._body).decode(self._encoding)
        return str(self._body)

    def __repr__(self) -> str:
        return (
            f"AmqpAnnotatedMessage(body={str(self)[:200]!r}, body_type={self._body_type.value}, "
            f"properties={self._properties}, "
            f"application_properties={self._application_properties})"
        )

    def _normalised(self, body: Any) -> Any:
        if self._body_type is AmqpMessageBodyType.DATA:
            sections = body if isinstance(body, list) else [body]
            return [
                part.encode(self._encoding) if isinstance(part, str) else bytes(part)
                for part in sections
            ]
        if self._body_type is AmqpMessageBodyType.SEQUENCE:
            nested = isinstance(body, list) and all(isinstance(part, list) for part in body)
            return body if nested else [body]
        return body


def _as_section(kind: type[_Section], given: Any) -> _Section | None:
    if given is None or isinstance(given, kind):
        return given
    return kind(**dict(given.items()))
