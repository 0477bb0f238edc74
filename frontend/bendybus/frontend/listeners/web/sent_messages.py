"""Messages in the body of a request, as columns of the contract.

    one        body ──────────────► messages           a batch: JSON, an array of
               BrokerProperties ──► columns, head      {Body, BrokerProperties, UserProperties}
               Content-Type ──────► head
               other headers ─────► application properties in the head

Names of BrokerProperties that are not known are ignored, as the service does. Source: Service Bus,
"Send message", "Send message batch".
"""

import base64
import contextlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument, MessageSizeExceeded
from bendybus.domain.steps import Steps, whole
from bendybus.frontend.core import columns
from bendybus.frontend.core.columns import MessageBatch, SentRow
from bendybus.frontend.listeners.web import property_values
from bendybus.v1 import message_pb2

BATCH_TYPE: Final = "application/vnd.microsoft.servicebus.json"
BROKER_PROPERTIES: Final = "BrokerProperties"
USER_PROPERTIES: Final = "UserProperties"
_BODY: Final = "Body"
_IS_BASE64: Final = "IsBodyBase64"
# By the name that is compared, as with those of BrokerProperties.
_MEMBERS: Final = {
    name.lower(): name for name in (_BODY, _IS_BASE64, BROKER_PROPERTIES, USER_PROPERTIES)
}
# The number of members of one message, including those that are ignored.
_MEMBERS_MAX: Final = 16
# The longest value in a batch that is no text: properties of 64 KB, with some escapes.
_MEMBER_CHARS_MAX: Final = 128 * limits.KB
# Read first of a value: most are shorter.
_FIRST_CHARS: Final = 512
# Properties that are read in one step: a millisecond.
_PROPERTIES_STEP: Final = 250
_HEAD_FIELDS: Final = {
    "correlationid": "correlation_id",
    "label": "subject",
    "to": "to",
    "replyto": "reply_to",
    "replytosessionid": "reply_to_session_id",
}
# By the name that is compared: the one that the service writes.
_NAMES: Final = {
    name.lower(): name
    for name in (
        *("MessageId", "PartitionKey", "SessionId", "CorrelationId", "Label", "To", "ReplyTo"),
        *("ReplyToSessionId", "ContentType", "TimeToLive", "TimeToLiveTimeSpan"),
        *("ScheduledEnqueueTimeUtc", USER_PROPERTIES),
    )
}
_TIME_SPAN: Final = re.compile(
    r"(?:([0-9]{1,8})\.)?([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(\.[0-9]{1,7})?"
)
_DATE: Final = re.compile(
    r"([A-Z][a-z]{2}, )?[0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} "
    r"(GMT|UTC|[+-][0-9]{4})"
)
_NUMBER: Final = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder(parse_constant=lambda name: _no_number(name))
# Milliseconds of each group of a time span.
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000, 1_000)


def single(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> MessageBatch:
    """Return the message of a request: its headers as they came, and its body.

    Raises InvalidArgument or MessageSizeExceeded.
    """
    head = message_pb2.Message()
    given: Mapping[str, Any] = {}
    own = head.application_properties
    said = False
    for raw_name, raw_value in headers:
        name, text = raw_name.decode("latin-1"), _text_of(raw_value)
        lower = name.lower()
        if lower == "brokerproperties":
            if said:
                raise InvalidArgument(BROKER_PROPERTIES, "must be one header.")
            given, said = _broker_properties(text), True
        elif lower == "content-type":
            head.content_type = text
        elif property_values.is_property(name):
            value = property_values.of_header(text)
            if value is not None:
                if name in own:
                    raise InvalidArgument(f"{name:.80}", "must be one header.")
                own[name].CopyFrom(value)
    # The library bounds what headers have, so this takes no time.
    row = whole(_row(head, given, message_pb2.Message(data=[body])))
    return columns.from_rows([row], _new_id)


def _text_of(raw: bytes) -> str:
    """Return the value of a header: in UTF-8, or as some clients write it, in Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def batch(body: bytes) -> Steps[MessageBatch]:
    """Yield after each member, message and piece of its properties; return the messages.

    Raises as `single` does.
    """
    rows: list[SentRow] = []
    for given in _messages(body):
        if given is None:
            yield
            continue
        rows.append((yield from _item(given, len(rows))))
        if len(rows) > limits.FRAME_MESSAGES_MAX:
            raise MessageSizeExceeded(
                f"a batch has at most {limits.FRAME_MESSAGES_MAX} messages. Send less at a time.",
                metadata={"limit": str(limits.FRAME_MESSAGES_MAX)},
            )
        yield
    if not rows:
        raise InvalidArgument("body", "has no message: a batch is a JSON array of at least one.")
    return columns.from_rows(rows, _new_id)


def _new_id() -> str:
    return uuid.uuid4().hex


class _Reader:
    """Reads JSON part by part: no part becomes more than some hundred KB of values.

    A document of a megabyte that is full of small values would take a hundred of them.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def items(self, opening: str, closing: str) -> Iterator[None]:
        """Yield before each item of an array or object, which the caller reads."""
        self._expect(opening)
        if self._take(closing):
            return
        while True:
            yield
            if self._take(closing):
                return
            self._expect(",")

    def name(self) -> str:
        """Read a name, and the colon after it."""
        found = self.value(_FIRST_CHARS)
        if not isinstance(found, str):
            raise _no_batch(f"a name is missing before character {self._at}")
        self._expect(":")
        return found

    def value(self, chars_max: int) -> Any:
        """Read a value of at most `chars_max` characters; only texts may be longer."""
        text, at = self._text, _skip(self._text, self._at)
        if text.startswith('"', at):
            found, self._at = _decoded(text, at)
            return found
        whole = len(text) - at
        for most in (min(_FIRST_CHARS, chars_max), chars_max):
            part = text[at : at + most]
            try:
                found, end = _decoded(part, 0)
            except InvalidArgument:
                if most >= whole:
                    raise
                continue
            # A number may go on after this part.
            if end < len(part) or most >= whole:
                self._at = at + end
                return found
        raise _no_batch(
            f"what begins at character {at} is no JSON, or longer than {chars_max} characters"
        )

    def end(self) -> None:
        """Raise InvalidArgument unless everything is read."""
        self._at = _skip(self._text, self._at)
        if self._at != len(self._text):
            raise _no_batch("something follows its last ]")

    def _take(self, sign: str) -> bool:
        self._at = _skip(self._text, self._at)
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise _no_batch(f"{sign} is missing at character {self._at}")


def _decoded(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise _no_batch(_why(error)) from None


def _messages(body: bytes) -> Iterator[dict[str, Any] | None]:
    """Yield None after each member, and what a message has of the known ones after its last."""
    try:
        reader = _Reader(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidArgument("body", "must be JSON in UTF-8.") from None
    for _ in reader.items("[", "]"):
        found: dict[str, Any] = {}
        for count, _ in enumerate(reader.items("{", "}")):
            if count == _MEMBERS_MAX:
                raise _no_batch(f"a message has more than {_MEMBERS_MAX} members")
            name = _MEMBERS.get(reader.name().lower())
            value = reader.value(_MEMBER_CHARS_MAX)
            if name is not None:
                found[name] = value
            yield None
        yield found
    reader.end()


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it matches nothing, too"
    return found.end()


def _item(given: Mapping[str, Any], index: int) -> Steps[SentRow]:
    body = given.get(_BODY)
    if not isinstance(body, str):
        raise InvalidArgument(
            f"body[{index}].Body",
            'must be a text, "" for none; send a message of bytes by itself, or as base64 with '
            f"{_IS_BASE64}.",
        )
    data = property_values.checked_text(f"body[{index}].Body", body).encode()
    if given.get(_IS_BASE64) is True:
        try:
            data = base64.b64decode(data, validate=True)
        except ValueError:
            raise InvalidArgument(f"body[{index}].Body", "must be base64.") from None
    head = message_pb2.Message()
    broker = given.get(BROKER_PROPERTIES)
    found = {} if broker is None else _named(broker, f"body[{index}].{BROKER_PROPERTIES}")
    user = given.get(USER_PROPERTIES)
    if user is not None:
        yield from _fill(head.application_properties, user, f"body[{index}].{USER_PROPERTIES}")
    return (yield from _row(head, found, message_pb2.Message(data=[data])))


def _broker_properties(text: str) -> dict[str, Any]:
    """Return the properties of the header by their names in lower case."""
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            BROKER_PROPERTIES, f"must be a JSON object such as {{}}: {_why(error)}."
        ) from None
    return _named(found, BROKER_PROPERTIES)


def _named(given: Any, field: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidArgument(field, 'must be a JSON object such as {"MessageId": "1"}.')
    return {
        name.lower(): value
        for name, value in given.items()
        if name.lower() in _NAMES and value is not None
    }


def _row(
    head: message_pb2.Message, given: Mapping[str, Any], body: message_pb2.Message
) -> Steps[SentRow]:
    for name, field in _HEAD_FIELDS.items():
        if name in given:
            setattr(head, field, _text(name, given))
    if "contenttype" in given and not head.content_type:
        head.content_type = _text("contenttype", given)
    if USER_PROPERTIES.lower() in given:
        yield from _fill(
            head.application_properties, given[USER_PROPERTIES.lower()], USER_PROPERTIES
        )
    head_bytes = head.SerializeToString()
    if len(head_bytes) > limits.PROPERTY_BYTES_MAX:
        columns.check_head(head, len(head_bytes))
    return SentRow(
        body.SerializeToString(),
        head_bytes,
        _text("messageid", given) or None,
        _text("partitionkey", given),
        _text("sessionid", given) if "sessionid" in given else None,
        _time_to_live_ms(given),
        _scheduled_ms(given.get("scheduledenqueuetimeutc")),
    )


def _fill(target: Any, given: Any, field: str) -> Steps[None]:
    if not isinstance(given, dict):
        raise InvalidArgument(field, 'must be a JSON object such as {"color": "red"}.')
    size = 0
    for count, (name, value) in enumerate(given.items(), 1):
        property_values.checked_text(field, name)
        made = property_values.of_json(name, value)
        size += len(name) + made.ByteSize()
        if size > limits.HEADER_BYTES_MAX:
            raise MessageSizeExceeded(
                f"{field}: must be at most {limits.HEADER_BYTES_MAX} bytes together; put large "
                "values into the body."
            )
        target[name].CopyFrom(made)
        if not count % _PROPERTIES_STEP:
            yield


def _text(name: str, given: Mapping[str, Any]) -> str:
    found = given.get(name, "")
    if not isinstance(found, str):
        raise InvalidArgument(_NAMES[name], "must be a text.")
    return property_values.checked_text(_NAMES[name], found)


def _time_to_live_ms(given: Mapping[str, Any]) -> int:
    """Return a time to live in ms; 0: none."""
    span, seconds = given.get("timetolivetimespan"), given.get("timetolive")
    if span is not None:
        found = _TIME_SPAN.fullmatch(span) if isinstance(span, str) else None
        if found is None:
            raise InvalidArgument("TimeToLiveTimeSpan", 'must be a text such as "00:00:40".')
        parts = zip(found.groups(), _UNITS_MS, strict=True)
        lasts_ms = sum(float(part or 0) * unit for part, unit in parts)
    elif seconds is not None:
        # The REST client for Python writes the number as a text.
        if isinstance(seconds, str) and _NUMBER.fullmatch(seconds):
            seconds = float(seconds)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InvalidArgument("TimeToLive", "must be a number of seconds.")
        lasts_ms = min(seconds, limits.TIME_TO_LIVE_MS_MAX) * 1_000
    else:
        return 0
    if lasts_ms <= 0:
        raise InvalidArgument("TimeToLive", "must be more than 0 seconds.")
    return min(max(1, round(lasts_ms)), limits.TIME_TO_LIVE_MS_MAX)


def _scheduled_ms(text: Any) -> int:
    """Return a time in ms since 1970; 0: now."""
    if text is None:
        return 0
    moment: datetime | None = None
    if isinstance(text, str) and len(text) <= limits.KEY_CHARS_MAX:
        # The library reads much that is no date, and ignores a part of it.
        read = parsedate_to_datetime if _DATE.fullmatch(text) else datetime.fromisoformat
        with contextlib.suppress(ValueError, OverflowError):
            moment = read(text)
    if moment is None:
        raise InvalidArgument(
            "ScheduledEnqueueTimeUtc",
            'must be a date as HTTP writes it, "Fri, 04 Dec 2026 10:00:00 GMT", or of ISO 8601.',
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # A time before 1970 means now, as any past time. The core checks the upper bound.
    return min(max(round(moment.timestamp() * 1_000), 0), bounds.NUMBER_MAX)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _no_batch(why: str) -> InvalidArgument:
    return InvalidArgument(
        "body", f"must be a JSON array, since the content type is {BATCH_TYPE}: {why}."
    )


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)[:100]
