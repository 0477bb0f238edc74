"""Application properties in headers and in JSON, both ways: the one place that knows their forms.

    text        "quoted", as JSON              "a time"    an RFC 1123 date, in a header
    number      12, 0.5                        other types of AMQP come as the nearest of these
    truth       true, false

A header whose value has none of these forms, or whose name is one of HTTP's or of a proxy's, is no
property. Source: Service Bus, "Message headers and properties", and the REST client for Python.
"""

import base64
import json
import re
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import Any, Final

from bendybus.amqp.values import Char, Timestamp
from bendybus.domain import bounds
from bendybus.domain.errors import InvalidArgument
from bendybus.frontend.listeners.amqp import amqp_values
from bendybus.v1.message_pb2 import Value

# Headers between clients, servers and proxies.
_HEADERS: Final = """
    accept accept-ch accept-charset accept-encoding accept-language accept-ranges age allow
    alt-svc authorization baggage brokerproperties cache-control clear-site-data connection
    content-disposition content-encoding content-language content-length content-location
    content-range content-security-policy content-security-policy-report-only content-type
    cookie date dnt early-data etag expect expect-ct expires forwarded from host http2-settings
    if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive
    last-modified link location max-forwards nel origin origin-agent-cluster permissions-policy
    pragma public-key-pins range referer referrer-policy refresh report-to reporting-endpoints
    retry-after server server-timing service-worker-allowed
    servicebusdlqsupplementaryauthorization servicebussupplementaryauthorization set-cookie
    sourcemap strict-transport-security te timing-allow-origin traceparent tracestate trailer
    transfer-encoding true-client-ip upgrade upgrade-insecure-requests user-agent vary via
    warning www-authenticate x-content-type-options x-correlation-id x-dns-prefetch-control
    x-frame-options x-permitted-cross-domain-policies x-powered-by x-process-at x-real-ip
    x-request-id x-request-start x-robots-tag x-sendfile x-ua-compatible x-xss-protection
"""
_OF_HTTP: Final = frozenset(_HEADERS.split())
_PREFIXES: Final = (
    *("access-control-", "cf-", "cross-origin-", "proxy-", "sec-", "x-accel-", "x-amzn-", "x-b3-"),
    *("x-envoy-", "x-forwarded-", "x-lighttpd-", "x-ms-"),
)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_DATE: Final = re.compile(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT")
_DATE_FORM: Final = "%a, %d %b %Y %H:%M:%S GMT"
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_ULONG_MAX: Final = 2**64 - 1
# The first ms of the year 1.
_TIME_MS_MIN: Final = -62_135_596_800_000


def is_property(name: str) -> bool:
    """Whether a header of this name carries an application property."""
    lower = name.lower()
    known = lower in _OF_HTTP or lower.startswith(_PREFIXES)
    return not known and _NAME.fullmatch(name) is not None


def of_header(text: str) -> Value | None:
    """Return the value of a header; None: it is no property."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        found = _unquoted(text)
        if _DATE.fullmatch(found) and (time_ms := _date_ms(found)) is not None:
            return Value(timestamp_ms_value=time_ms)
        return Value(string_value=found)
    if text.lower() in ("true", "false"):
        return Value(bool_value=text.lower() == "true")
    if _NUMBER.fullmatch(text):
        return _number(json.loads(text))
    return None


def of_json(name: str, given: Any) -> Value:
    """Return a property of JSON. Raises InvalidArgument that names it."""
    if given is None:
        return Value(null_value=True)
    if isinstance(given, bool):
        return Value(bool_value=given)
    if isinstance(given, str):
        return Value(string_value=checked_text(name, given))
    made = _number(given) if isinstance(given, int | float) else None
    if made is None:
        raise InvalidArgument(
            f"UserProperties[{name!r:.80}]",
            "must be a text, a number of 64 bits, true, false or null.",
        )
    return made


def checked_text(field: str, text: str) -> str:
    """Return a text that UTF-8 can express. Raises InvalidArgument."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"{field!r:.80}"[1:-1], "has half of a surrogate pair, which is no character."
        ) from None
    return text


def to_json(value: Any) -> Any:
    """Return an AMQP value for JSON: times as RFC 1123 dates, bytes as base64. Never fails."""
    if isinstance(value, Timestamp):
        return date(value)
    if isinstance(value, Char):
        return chr(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        # JSON has no infinity.
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): to_json(each) for key, each in value.items()}
    return str(value)


def header_of(value: Value) -> str | None:
    """Return the value of a header; None: no header can say it."""
    found = to_json(amqp_values.from_value(value))
    return None if found is None or isinstance(found, list | dict) else json.dumps(found)


def date(time_ms: int) -> str:
    """Return the RFC 1123 date of a time in ms since 1970, without its fraction of a second."""
    if not _TIME_MS_MIN <= time_ms <= bounds.TIME_MS_MAX:
        return str(int(time_ms))
    return _of_second(int(time_ms) // 1_000)


# Messages that come together have the same few.
@lru_cache(maxsize=256)
def _of_second(time_s: int) -> str:
    return format_datetime(datetime.fromtimestamp(time_s, UTC), usegmt=True)


def _date_ms(text: str) -> int | None:
    try:
        return round(datetime.strptime(text, _DATE_FORM).replace(tzinfo=UTC).timestamp() * 1_000)
    except ValueError:
        return None


def _unquoted(text: str) -> str:
    """Return a quoted text; where its escapes are not those of JSON, what is between the quotes."""
    try:
        found = json.loads(text)
        found.encode()
    except (ValueError, RecursionError):
        return text[1:-1].encode("utf-8", "replace").decode()
    return str(found)


def _number(given: float) -> Value | None:
    if isinstance(given, float):
        # Neither infinity nor NaN.
        return Value(double_value=given) if given - given == 0 else None
    if -_INT_MAX - 1 <= given <= _INT_MAX:
        return Value(int_value=given)
    if -_LONG_MAX - 1 <= given <= _LONG_MAX:
        return Value(long_value=given)
    return Value(ulong_value=given) if 0 <= given <= _ULONG_MAX else None
