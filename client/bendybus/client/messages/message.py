"""A message as an application writes it."""

import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.messages import values
from bendybus.client.messages.amqp import (
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

    Every argument is also an attribute that can be set. `body`: text, bytes or None.
    `application_properties`: names and values of AMQP's simple types. `message_id`: what
    duplicate detection compares, given by the client if None. `session_id` and `partition_key`:
    messages with the same one are in one partition, in order; both together must be equal. These
    three, and `reply_to_session_id`, have at most 128 characters. `scheduled_enqueue_time_utc`:
    when it becomes active; without a time zone it is UTC. `time_to_live`: how long it may be
    received then, a timedelta or seconds. `content_type`, `correlation_id`, `subject`, `to`,
    `reply_to`: for the application. Raises TypeError for a value of another type,
    InvalidArgumentError (a ValueError) for a bad one; both name it.

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
        self._application_properties: dict[str | bytes, Any] | None = application_properties
        self._session_id: str | None = None
        self._partition_key: str | None = None
        self._message_id: str | None = message_id
        self._scheduled_enqueue_time_utc: datetime | None = scheduled_enqueue_time_utc
        self._time_to_live: timedelta | None = time_to_live
        self._content_type: str | None = content_type
        self._correlation_id: str | None = correlation_id
        self._subject: str | None = subject
        self._to: str | None = to
        self._reply_to: str | None = reply_to
        self._reply_to_session_id: str | None = reply_to_session_id
        # Most messages have none of these: the checks cost only those that do.
        if application_properties is not None:
            self.application_properties = application_properties
        if message_id is not None:
            self.message_id = message_id
        if session_id is not None:
            self.session_id = session_id
        if partition_key is not None:
            self.partition_key = partition_key
        if scheduled_enqueue_time_utc is not None:
            self.scheduled_enqueue_time_utc = scheduled_enqueue_time_utc
        if time_to_live is not None:
            self.time_to_live = time_to_live
        if content_type is not None:
            self.content_type = content_type
        if correlation_id is not None:
            self.correlation_id = correlation_id
        if subject is not None:
            self.subject = subject
        if to is not None:
            self.to = to
        if reply_to is not None:
            self.reply_to = reply_to
        if reply_to_session_id is not None:
            self.reply_to_session_id = reply_to_session_id

    def _set_body(self, body: Any) -> None:
        self._body_type = _DATA
        if isinstance(body, str):
            try:
                self._body = body.encode(self._encoding)
            except UnicodeEncodeError as exc:
                raise arguments.not_unicode("body", body, exc.start) from None
        elif isinstance(body, bytes):
            self._body = bytes(body)
        elif body is None:
            self._body, self._body_type = None, AmqpMessageBodyType.VALUE
        else:
            raise TypeError(f"body: must be str, bytes or None (got {type(body).__name__})")

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
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"application_properties: must be a dict (got {type(value).__name__})")
        self._application_properties = value

    @property
    def session_id(self) -> str | None:
        """The session; also the partition key."""
        return self._session_id

    @session_id.setter
    def session_id(self, value: str | None) -> None:
        value = arguments.optional_text("session_id", value, _CHARS_MAX)
        if value is not None and self._partition_key and self._partition_key != value:
            raise arguments.invalid("session_id", f"must equal partition_key (got {value!r})")
        self._session_id = value

    @property
    def message_id(self) -> str | None:
        """Names the message; what duplicate detection compares. Given by the client if not set."""
        return self._message_id

    @message_id.setter
    def message_id(self, value: str | None) -> None:
        if value is not None and type(value) is not str:
            value = str(value)
        self._message_id = arguments.optional_text("message_id", value, _CHARS_MAX)

    @property
    def partition_key(self) -> str | None:
        """Messages with the same key are in the same partition, in order."""
        return self._partition_key

    @partition_key.setter
    def partition_key(self, value: str | None) -> None:
        value = arguments.optional_text("partition_key", value, _CHARS_MAX)
        if value and self._session_id is not None and value != self._session_id:
            raise arguments.invalid("partition_key", f"must equal session_id (got {value!r})")
        self._partition_key = value

    @property
    def scheduled_enqueue_time_utc(self) -> datetime | None:
        """When the message becomes active. A moment without a time zone is UTC."""
        return self._scheduled_enqueue_time_utc

    @scheduled_enqueue_time_utc.setter
    def scheduled_enqueue_time_utc(self, value: datetime | None) -> None:
        if value is not None:
            value = arguments.moment("scheduled_enqueue_time_utc", value)
        self._scheduled_enqueue_time_utc = value

    @property
    def time_to_live(self) -> timedelta | None:
        """How long the message may be received once it is enqueued."""
        return self._time_to_live

    @time_to_live.setter
    def time_to_live(self, value: timedelta | int | None) -> None:
        if value is not None and not isinstance(value, timedelta):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                kind = type(value).__name__
                raise TypeError(f"time_to_live: must be timedelta or seconds (got {kind})")
            try:
                value = timedelta(seconds=value)
            except (OverflowError, ValueError):
                raise arguments.invalid("time_to_live", f"is out of range: {value!r}") from None
        if value is not None and value < timedelta(0):
            raise arguments.invalid("time_to_live", f"must not be negative (got {value})")
        self._time_to_live = value

    @property
    def content_type(self) -> str | None:
        """What the body is, as a media type."""
        return self._content_type

    @content_type.setter
    def content_type(self, value: str | None) -> None:
        self._content_type = arguments.optional_text("content_type", value)

    @property
    def correlation_id(self) -> str | None:
        """What the message belongs to, for the application."""
        return self._correlation_id

    @correlation_id.setter
    def correlation_id(self, value: str | None) -> None:
        self._correlation_id = arguments.optional_text("correlation_id", value)

    @property
    def subject(self) -> str | None:
        """What the message is about."""
        return self._subject

    @subject.setter
    def subject(self, value: str | None) -> None:
        self._subject = arguments.optional_text("subject", value)

    @property
    def to(self) -> str | None:
        """Where the message goes in the end, for the application."""
        return self._to

    @to.setter
    def to(self, value: str | None) -> None:
        self._to = arguments.optional_text("to", value)

    @property
    def reply_to(self) -> str | None:
        """Where an answer goes."""
        return self._reply_to

    @reply_to.setter
    def reply_to(self, value: str | None) -> None:
        self._reply_to = arguments.optional_text("reply_to", value)

    @property
    def reply_to_session_id(self) -> str | None:
        """The session an answer belongs to."""
        return self._reply_to_session_id

    @reply_to_session_id.setter
    def reply_to_session_id(self, value: str | None) -> None:
        self._reply_to_session_id = arguments.optional_text(
            "reply_to_session_id", value, _CHARS_MAX
        )

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
        setattr(message, name, _text_of(name, value))
    if raw.header is not None and raw.header.time_to_live is not None:
        message.time_to_live = timedelta(milliseconds=raw.header.time_to_live)
    annotations = {
        key.decode() if isinstance(key, bytes) else key: value
        for key, value in (raw.annotations or {}).items()
    }
    key = annotations.get("x-opt-partition-key")
    message.partition_key = _text_of("x-opt-partition-key", key)
    scheduled = annotations.get("x-opt-scheduled-enqueue-time")
    if isinstance(scheduled, int):
        scheduled = datetime.fromtimestamp(scheduled / 1_000, UTC)
    message.scheduled_enqueue_time_utc = scheduled
    return message


def _text_of(name: str, value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise arguments.invalid(name, f"must be UTF-8 text (got {value!r:.100})") from None
