"""A message as an application writes it."""

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.client import values
from bendybus.client.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)
from bendybus.domain import limits

_DATA: Final = AmqpMessageBodyType.DATA
_CHARS_MAX: Final = limits.KEY_CHARS_MAX
_TEXTS: Final = (
    ("message_id", "message_id"),
    ("to", "to"),
    ("subject", "subject"),
    ("reply_to", "reply_to"),
    ("correlation_id", "correlation_id"),
    ("content_type", "content_type"),
    ("session_id", "group_id"),
    ("reply_to_session_id", "reply_to_group_id"),
)


class ServiceBusMessage:
    """A message: a body of text or bytes, and properties.

    `_body` is bytes, or a list of sections, sequences, or a value, as `_body_type` says.
    """

    __slots__ = (
        "_application_properties",
        "_body",
        "_body_type",
        "_content_type",
        "_correlation_id",
        "_encoding",
        "_message_id",
        "_partition_key",
        "_reply_to",
        "_reply_to_session_id",
        "_scheduled_enqueue_time_utc",
        "_session_id",
        "_subject",
        "_time_to_live",
        "_to",
    )

    def __init__(
        self,
        body: str | bytes | None,
        *,
        application_properties: dict[str | bytes, Any] | None = None,
        session_id: str | None = None,
        message_id: str | None = None,
        scheduled_enqueue_time_utc: datetime | None = None,
        time_to_live: timedelta | None = None,
        content_type: str | None = None,
        correlation_id: str | None = None,
        subject: str | None = None,
        partition_key: str | None = None,
        to: str | None = None,
        reply_to: str | None = None,
        reply_to_session_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._encoding = kwargs.get("encoding", "UTF-8") if kwargs else "UTF-8"
        if type(body) is bytes:
            self._body: Any = body
            self._body_type = _DATA
        else:
            self._set_body(body)
        self._application_properties = application_properties
        self._session_id: str | None = None
        self._partition_key: str | None = None
        self._message_id: str | None = message_id
        self._scheduled_enqueue_time_utc = scheduled_enqueue_time_utc
        self._time_to_live: timedelta | None = time_to_live
        self._content_type = content_type
        self._correlation_id = correlation_id
        self._subject = subject
        self._to = to
        self._reply_to = reply_to
        self._reply_to_session_id: str | None = reply_to_session_id
        # Most messages have none of these: the checks cost only those that do.
        if message_id is not None:
            self.message_id = message_id
        if session_id is not None:
            self.session_id = session_id
        if partition_key is not None:
            self.partition_key = partition_key
        if time_to_live is not None:
            self.time_to_live = time_to_live
        if reply_to_session_id is not None:
            self.reply_to_session_id = reply_to_session_id

    def _set_body(self, body: Any) -> None:
        self._body_type = _DATA
        if isinstance(body, str):
            self._body = body.encode(self._encoding)
        elif isinstance(body, bytes):
            self._body = bytes(body)
        elif body is None:
            self._body, self._body_type = None, AmqpMessageBodyType.VALUE
        else:
            raise TypeError(f"body: {type(body).__name__} is neither str, bytes nor None.")

    @property
    def body(self) -> Any:
        """The body as AMQP has it: an iterator over sections or sequences, or the value."""
        if self._body_type is _DATA:
            return self._sections()
        if self._body_type is AmqpMessageBodyType.SEQUENCE:
            return iter(self._body)
        return self._body

    @property
    def body_type(self) -> AmqpMessageBodyType:
        """What the body is."""
        return self._body_type

    @property
    def application_properties(self) -> dict[str | bytes, Any] | None:
        """What the application adds: AMQP's simple types by name."""
        return self._application_properties

    @application_properties.setter
    def application_properties(self, value: dict[str | bytes, Any] | None) -> None:
        self._application_properties = value

    @property
    def session_id(self) -> str | None:
        """The session; also the partition key."""
        return self._session_id

    @session_id.setter
    def session_id(self, value: str | None) -> None:
        value = _checked("session_id", value)
        if value is not None and self._partition_key and self._partition_key != value:
            raise ValueError(f"session_id: {value!r} is not the partition_key.")
        self._session_id = value

    @property
    def message_id(self) -> str | None:
        """Names the message; what duplicate detection compares. Given by the client if not set."""
        return self._message_id

    @message_id.setter
    def message_id(self, value: str | None) -> None:
        if value is not None and type(value) is not str:
            value = str(value)
        self._message_id = _checked("message_id", value)

    @property
    def partition_key(self) -> str | None:
        """Messages with the same key are in the same partition, in order."""
        return self._partition_key

    @partition_key.setter
    def partition_key(self, value: str | None) -> None:
        value = _checked("partition_key", value)
        if value and self._session_id is not None and value != self._session_id:
            raise ValueError(f"partition_key: {value!r} is not the session_id.")
        self._partition_key = value

    @property
    def scheduled_enqueue_time_utc(self) -> datetime | None:
        """When the message becomes active. A moment without a time zone is UTC."""
        return self._scheduled_enqueue_time_utc

    @scheduled_enqueue_time_utc.setter
    def scheduled_enqueue_time_utc(self, value: datetime | None) -> None:
        self._scheduled_enqueue_time_utc = value

    @property
    def time_to_live(self) -> timedelta | None:
        """How long the message may be received once it is enqueued."""
        return self._time_to_live

    @time_to_live.setter
    def time_to_live(self, value: timedelta | int | None) -> None:
        if value is not None and not isinstance(value, timedelta):
            value = timedelta(seconds=value)
        if value is not None and value < timedelta(0):
            raise ValueError("time_to_live: it is negative.")
        self._time_to_live = value

    @property
    def content_type(self) -> str | None:
        """What the body is, as a media type."""
        return self._content_type

    @content_type.setter
    def content_type(self, value: str | None) -> None:
        self._content_type = value

    @property
    def correlation_id(self) -> str | None:
        """What the message belongs to, for the application."""
        return self._correlation_id

    @correlation_id.setter
    def correlation_id(self, value: str | None) -> None:
        self._correlation_id = value

    @property
    def subject(self) -> str | None:
        """What the message is about."""
        return self._subject

    @subject.setter
    def subject(self, value: str | None) -> None:
        self._subject = value

    @property
    def to(self) -> str | None:
        """Where the message goes in the end, for the application."""
        return self._to

    @to.setter
    def to(self, value: str | None) -> None:
        self._to = value

    @property
    def reply_to(self) -> str | None:
        """Where an answer goes."""
        return self._reply_to

    @reply_to.setter
    def reply_to(self, value: str | None) -> None:
        self._reply_to = value

    @property
    def reply_to_session_id(self) -> str | None:
        """The session an answer belongs to."""
        return self._reply_to_session_id

    @reply_to_session_id.setter
    def reply_to_session_id(self, value: str | None) -> None:
        self._reply_to_session_id = _checked("reply_to_session_id", value)

    @property
    def raw_amqp_message(self) -> AmqpAnnotatedMessage:
        """The message as AMQP sees it: a copy, made when asked for."""
        properties = {amqp: getattr(self, name) for name, amqp in _TEXTS}
        ttl = self.time_to_live
        annotations: dict[str | bytes, Any] = {}
        if self.partition_key is not None:
            annotations[b"x-opt-partition-key"] = self.partition_key
        if self.scheduled_enqueue_time_utc is not None:
            annotations[b"x-opt-scheduled-enqueue-time"] = values.to_milliseconds(
                self.scheduled_enqueue_time_utc
            )
        body_type = self.body_type
        return AmqpAnnotatedMessage(
            header=AmqpMessageHeader(
                time_to_live=None if ttl is None else ttl // timedelta(milliseconds=1)
            ),
            properties=AmqpMessageProperties(**properties),
            application_properties=self.application_properties,
            annotations=annotations,
            encoding=self._encoding,
            **{f"{body_type.value}_body": self._body},
        )

    @property
    def message(self) -> AmqpAnnotatedMessage:
        """Deprecated, as in the original: use `raw_amqp_message`."""
        warnings.warn("message is deprecated: use raw_amqp_message", DeprecationWarning, 2)
        return self.raw_amqp_message

    @message.setter
    def message(self, value: Any) -> None:
        warnings.warn("message is deprecated and has no effect", DeprecationWarning, 2)

    def __str__(self) -> str:
        if self.body_type is _DATA:
            return b"".join(self._sections()).decode(self._encoding)
        return str(self._body)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in (
                "application_properties",
                "message_id",
                "session_id",
                "partition_key",
                "subject",
                "time_to_live",
                "scheduled_enqueue_time_utc",
            )
            if getattr(self, name) is not None
        )
        return f"{type(self).__name__}(body={self._body!r:.200}, {shown})"

    def _sections(self) -> Iterator[bytes]:
        return iter((self._body,) if isinstance(self._body, bytes) else self._body)


def from_amqp(raw: AmqpAnnotatedMessage) -> ServiceBusMessage:
    """Return the message that carries what travels of an AMQP message."""
    message = ServiceBusMessage(b"")
    message._body, message._body_type = raw._body, raw.body_type
    message.application_properties = raw.application_properties
    for name, amqp in _TEXTS:
        value = getattr(raw.properties, amqp, None)
        setattr(message, name, value.decode() if isinstance(value, bytes) else value)
    if raw.header is not None and raw.header.time_to_live is not None:
        message.time_to_live = timedelta(milliseconds=raw.header.time_to_live)
    annotations = {
        key.decode() if isinstance(key, bytes) else key: value
        for key, value in (raw.annotations or {}).items()
    }
    key = annotations.get("x-opt-partition-key")
    message.partition_key = key.decode() if isinstance(key, bytes) else key
    scheduled = annotations.get("x-opt-scheduled-enqueue-time")
    if isinstance(scheduled, int):
        scheduled = datetime.fromtimestamp(scheduled / 1_000, UTC)
    message.scheduled_enqueue_time_utc = scheduled
    return message


def _checked(name: str, value: str | None) -> str | None:
    if value is not None and len(value) > _CHARS_MAX:
        raise ValueError(f"{name}: {len(value)} characters are more than the {_CHARS_MAX} allowed.")
    return value
