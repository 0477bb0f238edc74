"""What the sections of an AMQP message have beside the properties of `ServiceBusMessage`."""

from dataclasses import dataclass, fields
from typing import Any, Final

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
    )
    return None if found == _NONE else found


_NONE: Final = AmqpFields()
