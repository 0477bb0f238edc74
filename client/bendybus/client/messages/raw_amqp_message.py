"""The AMQP view of a message: live, so that what is read and written is the message's own."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bendybus.client import arguments
from bendybus.client.messages import values
from bendybus.client.messages.amqp import (
    AmqpAnnotatedMessage,
    AmqpFields,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)
from bendybus.client.messages.values import ApplicationProperties

if TYPE_CHECKING:
    from bendybus.client.messages.message import ServiceBusMessage

_PARTITION_KEY: Final = b"x-opt-partition-key"
_SCHEDULED: Final = b"x-opt-scheduled-enqueue-time"
# The bus sets them: of an outgoing message they are not sent.
_SET_BY_THE_BUS: Final = frozenset(
    (
        b"x-opt-sequence-number",
        b"x-opt-enqueue-sequence-number",
        b"x-opt-enqueued-time",
        b"x-opt-locked-until",
        b"x-opt-message-state",
        b"x-opt-deadletter-source",
    )
)


class _Attribute(NamedTuple):
    """How an attribute of a section is read from a message, and written to it."""

    read: Callable[["ServiceBusMessage"], Any]
    write: Callable[["ServiceBusMessage", Any], None]


def _of_message(name: str) -> _Attribute:
    """Return an attribute of the message itself."""
    return _Attribute(
        lambda message: getattr(message, name),
        lambda message, value: setattr(message, name, _decoded(name, value)),
    )


def _of_fields(
    name: str, checked: Callable[[str, Any], Any] = lambda _, value: value
) -> _Attribute:
    """Return an attribute that only AMQP has; `checked` returns what is kept of a value."""

    def write(message: "ServiceBusMessage", value: Any) -> None:
        if value is not None:
            value = checked(name, value)
        if value is not None or message._amqp is not None:
            setattr(_fields_of(message), name, value)

    return _Attribute(lambda message: getattr(message._amqp, name, None), write)


def _fields_of(message: "ServiceBusMessage") -> AmqpFields:
    if message._amqp is None:
        message._amqp = AmqpFields()
    return message._amqp


def _decoded(name: str, value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise arguments.invalid(name, f"must be UTF-8 text (got {value!r:.100})") from None


def _text(name: str, value: object) -> str | None:
    return arguments.optional_text(name, _decoded(name, value))


def _binary(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return arguments.text(name, value).encode()
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"{name}: must be bytes or str (got {type(value).__name__})")
    return bytes(value)


def _number(most: int, least: int = 0) -> Callable[[str, object], int]:
    return lambda name, value: arguments.count(name, value, least=least, most=most)


def _read_time_to_live(message: "ServiceBusMessage") -> int | None:
    ttl = message.time_to_live
    return None if ttl is None else ttl // timedelta(milliseconds=1)


def _write_time_to_live(message: "ServiceBusMessage", value: Any) -> None:
    try:
        message.time_to_live = None if value is None else timedelta(milliseconds=value)
    except OverflowError:
        raise arguments.invalid("time_to_live", f"is out of range: {value!r}") from None


def _read_delivery_count(message: "ServiceBusMessage") -> int | None:
    known: int | None = getattr(message, "delivery_count", None)
    return getattr(message._amqp, "delivery_count", None) if known is None else known


_TIME: Final = _number(values.INT64_MAX, values.INT64_MIN)
_COUNT: Final = _of_fields("delivery_count")
_HEADER: Final = {
    "delivery_count": _Attribute(_read_delivery_count, _COUNT.write),
    "time_to_live": _Attribute(_read_time_to_live, _write_time_to_live),
    "durable": _of_fields("durable"),
    "first_acquirer": _of_fields("first_acquirer"),
    "priority": _of_fields("priority", _number(2**8 - 1)),
}
_PROPERTIES: Final = {
    "message_id": _of_message("message_id"),
    "user_id": _of_fields("user_id", _binary),
    "to": _of_message("to"),
    "subject": _of_message("subject"),
    "reply_to": _of_message("reply_to"),
    "correlation_id": _of_message("correlation_id"),
    "content_type": _of_message("content_type"),
    "content_encoding": _of_fields("content_encoding", _text),
    "creation_time": _of_fields("creation_time", _TIME),
    "absolute_expiry_time": _of_fields("absolute_expiry_time", _TIME),
    "group_id": _of_message("session_id"),
    "group_sequence": _of_fields("group_sequence", _number(2**32 - 1)),
    "reply_to_group_id": _of_message("reply_to_session_id"),
}


class _LiveSection:
    """A section whose attributes are those of a message, also where it is used as a dictionary."""

    _message: "ServiceBusMessage"
    _attributes: Mapping[str, _Attribute]

    def __init__(self, message: "ServiceBusMessage") -> None:
        object.__setattr__(self, "_message", message)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._attributes[name].read(self._message)
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._attributes:
            raise AttributeError(f"{name}: AMQP has no such field in this section")
        self._attributes[name].write(self._message, value)

    def __getitem__(self, key: str) -> Any:
        return self._attributes[key].read(self._message)

    def __setitem__(self, key: str, value: Any) -> None:
        self._attributes[key].write(self._message, value)

    def __delitem__(self, key: str) -> None:
        self[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self._attributes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AmqpMessageHeader | AmqpMessageProperties) and (
            dict(self.items()) == dict(other.items())
        )

    __hash__ = None  # type: ignore[assignment]  # as the sections that it stands for

    def has_key(self, k: str) -> bool:
        """Whether there is an attribute `k`."""
        return k in self

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set attributes as `dict.update` does."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def keys(self) -> list[str]:
        """Return the names of the attributes."""
        return list(self._attributes)

    def values(self) -> list[Any]:
        """Return the values of the attributes."""
        return [self[name] for name in self._attributes]

    def items(self) -> list[tuple[str, Any]]:
        """Return the attributes with their values."""
        return [(name, self[name]) for name in self._attributes]

    def get(self, key: str, default: Any | None = None) -> Any:
        """Return an attribute, or `default` if there is none."""
        found = self._attributes.get(key)
        return default if found is None else found.read(self._message)

    def replace(self, given: AmqpMessageHeader | AmqpMessageProperties | None) -> None:
        """Take every attribute of another section; None: of an empty one."""
        for name in self._attributes:
            self[name] = None if given is None else given.get(name)


class LiveHeader(_LiveSection, AmqpMessageHeader):
    """The header section of a message."""

    _attributes = _HEADER


class LiveProperties(_LiveSection, AmqpMessageProperties):
    """The properties section of a message."""

    _attributes = _PROPERTIES


class LiveAnnotations(ApplicationProperties):
    """The annotations of a message; partition key and schedule are its attributes."""

    def __init__(self, message: "ServiceBusMessage") -> None:
        super().__init__()
        self._message = message
        fields_ = message._amqp
        found = dict((fields_ and fields_.annotations) or {})
        if message.partition_key is not None:
            found[_PARTITION_KEY] = message.partition_key
        if message.scheduled_enqueue_time_utc is not None:
            found[_SCHEDULED] = values.to_milliseconds(message.scheduled_enqueue_time_utc)
        dict.update(self, found)
        dict.update(self, message._annotations_of_the_bus())

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._write(key, value)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._write(key, None)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove an annotation, by a name as bytes or text, and return its value or `default`."""
        found = super().pop(key, *default)
        self._write(key, None)
        return found

    def popitem(self) -> tuple[Any, Any]:
        """Remove an annotation and return it with its name."""
        key = next(reversed(self), None)
        if key is None:
            raise KeyError("popitem(): there are no annotations")
        return key, self.pop(key)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return an annotation; `default` becomes it if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all annotations."""
        for key in list(self):
            del self[key]

    def __reduce__(self) -> Any:
        # A copy is of the annotations, not of the message.
        return ApplicationProperties, (dict(self),)

    def _write(self, key: Any, value: Any) -> None:
        name, message = key.encode() if isinstance(key, str) else key, self._message
        if name == _PARTITION_KEY:
            message.partition_key = _decoded("x-opt-partition-key", value)
        elif name == _SCHEDULED:
            if isinstance(value, int):
                value = datetime.fromtimestamp(value / 1_000, UTC)
            message.scheduled_enqueue_time_utc = value
        elif name not in _SET_BY_THE_BUS:
            own = _fields_of(message)
            own.annotations = (
                ApplicationProperties() if own.annotations is None else own.annotations
            )
            if value is None:
                own.annotations.pop(name, None)
            else:
                own.annotations[name] = value


def own_fields(message: "ServiceBusMessage") -> dict[str, Any]:
    """Return what only AMQP's sections have of a message and is sent with it, by name."""
    return message._amqp.transmitted() if message._amqp is not None else {}


def set_own_fields(message: "ServiceBusMessage", given: Mapping[str, Any]) -> None:
    """Set what `own_fields` returns. Raises TypeError or ValueError that names the field."""
    sections = (LiveHeader(message), LiveProperties(message), LiveMessage(message))
    for name, value in given.items():
        if name == "annotations":
            # Beside the partition key and the schedule, which the message may have.
            LiveAnnotations(message).update(value)
        else:
            setattr(next(each for each in sections if hasattr(each, name)), name, value)


class LiveMessage(AmqpAnnotatedMessage):
    """An AmqpAnnotatedMessage that is a view of a message."""

    def __init__(self, message: "ServiceBusMessage") -> None:
        self._message = message

    @property
    def _body(self) -> Any:
        message = self._message
        is_data = message._body_type is AmqpMessageBodyType.DATA
        return list(message._sections()) if is_data else message._body

    @property
    def _body_type(self) -> AmqpMessageBodyType:  # type: ignore[override]
        return self._message._body_type

    @property
    def _encoding(self) -> str:  # type: ignore[override]
        return self._message._encoding

    @property
    def header(self) -> AmqpMessageHeader:
        """The header section."""
        return LiveHeader(self._message)

    @header.setter
    def header(self, value: AmqpMessageHeader | None) -> None:
        LiveHeader(self._message).replace(value)

    @property
    def properties(self) -> AmqpMessageProperties:
        """The properties section."""
        return LiveProperties(self._message)

    @properties.setter
    def properties(self, value: AmqpMessageProperties | None) -> None:
        LiveProperties(self._message).replace(value)

    @property
    def _properties(self) -> AmqpMessageProperties:  # type: ignore[override]
        return self.properties

    @property
    def application_properties(self) -> dict[str | bytes, Any] | None:
        """The properties that the application added."""
        return self._message.application_properties

    @application_properties.setter
    def application_properties(self, value: dict[str | bytes, Any] | None) -> None:
        self._message.application_properties = value

    @property
    def _application_properties(self) -> dict[str | bytes, Any] | None:  # type: ignore[override]
        return self.application_properties

    @property
    def annotations(self) -> dict[str | bytes, Any]:
        """The message annotations: the application's and those that the bus sets."""
        return LiveAnnotations(self._message)

    @annotations.setter
    def annotations(self, value: dict[str | bytes, Any] | None) -> None:
        found = LiveAnnotations(self._message)
        found.clear()
        found.update(value or {})

    @property
    def footer(self) -> dict[Any, Any] | None:
        """The footer section."""
        found: dict[Any, Any] | None = getattr(self._message._amqp, "footer", None)
        return found

    @footer.setter
    def footer(self, value: dict[Any, Any] | None) -> None:
        _of_fields("footer").write(self._message, value)

    @property
    def amqp_escapes(self) -> bytes | None:
        """What a sender of AMQP wrote that nothing else here shows, encoded; sent again as it is.

        An extra of Bendybus.
        """
        return getattr(self._message._amqp, "amqp_escapes", None)

    @amqp_escapes.setter
    def amqp_escapes(self, value: bytes | None) -> None:
        _of_fields("amqp_escapes", _binary).write(self._message, value)

    @property
    def delivery_annotations(self) -> dict[str | bytes, Any] | None:
        """The annotations of this hop: they are not transmitted."""
        found: dict[str | bytes, Any] | None
        found = getattr(self._message._amqp, "delivery_annotations", None)
        return found

    @delivery_annotations.setter
    def delivery_annotations(self, value: dict[str | bytes, Any] | None) -> None:
        _of_fields("delivery_annotations").write(self._message, value)
