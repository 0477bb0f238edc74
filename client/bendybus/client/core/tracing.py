"""OpenTelemetry spans of the operations of a client, with the names of azure-servicebus.

Off unless a client is made with `tracing` (or `BENDYBUS_TRACING` is set) and a tracer provider is
configured: then senders and receivers have a `Tracing`, otherwise None, which is all that an
operation checks. OpenTelemetry (the extra `tracing`) is imported only if tracing is enabled.

    ServiceBus.message   PRODUCER  one per message; its context travels in application properties
    ServiceBus.send …    CLIENT    one per operation, linked to its messages

A span is created when its operation has ended, with its start time: only then is it known which
messages a receive is linked to.
"""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from bendybus.client.messages.encode import MessageSpans
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.v1 import message_pb2, receiver_pb2

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

    from bendybus.client.core.receiver import Settled
    from bendybus.client.core.settlements import Outcome
    from bendybus.client.messages.received_message import ServiceBusReceivedMessage

VARIABLE: Final = "BENDYBUS_TRACING"
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
# The name that clients of Service Bus used before `traceparent`, and still write.
DIAGNOSTIC_ID: Final = "Diagnostic-Id"
# Spans keep 128 links by default and drop the others.
LINKS_MAX: Final = 128

_log = logging.getLogger("bendybus.client")
_SWITCH: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0", ""), False),
}
_SETTLEMENTS: Final = {
    receiver_pb2.DISPOSITION_COMPLETE: "complete",
    receiver_pb2.DISPOSITION_ABANDON: "abandon",
    receiver_pb2.DISPOSITION_DEFER: "defer",
    receiver_pb2.DISPOSITION_DEAD_LETTER: "dead-letter",
    receiver_pb2.DISPOSITION_RELEASE: "release",
    receiver_pb2.DISPOSITION_RENEW_LOCK: "renew",
}


def provider_of(wanted: Any) -> "TracerProvider | None":
    """Return the provider of spans for the argument `tracing` of a client; None for no spans.

    Raises ValueError if tracing is enabled and OpenTelemetry is not installed.
    """
    if wanted is None:
        wanted = _SWITCH.get(os.environ.get(VARIABLE, "").strip().lower())
        if wanted is None:
            raise ValueError(f"{VARIABLE}: must be true or false (got {os.environ[VARIABLE]!r})")
    if wanted is False:
        return None
    try:
        from opentelemetry import trace
    except ImportError:
        raise ValueError(
            "tracing: OpenTelemetry is not installed; install the extra 'tracing': "
            "pip install '.[tracing]' in Bendybus's folder."
        ) from None
    if wanted is True:
        # Resolved later: the application may configure its provider after this.
        return trace.ProxyTracerProvider()
    if isinstance(wanted, trace.TracerProvider):
        return wanted
    raise TypeError(
        "tracing: must be True, False or a TracerProvider of OpenTelemetry "
        f"(got {type(wanted).__name__})"
    )


def of(provider: "TracerProvider | None", target: str) -> "Tracing | None":
    """Return the tracing of operations on `target` (HOST:PORT); None without a provider."""
    if provider is None:
        return None
    from opentelemetry import trace

    if isinstance(provider, trace.ProxyTracerProvider):
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
    return Tracing(provider.get_tracer("bendybus.client"), target)


class Tracing:
    """Creates the spans of one sender, receiver or administration client."""

    __slots__ = ("_about", "_tracer")

    def __init__(self, tracer: "Tracer", target: str) -> None:
        self._tracer = tracer
        host, _, port = target.rpartition(":")
        host = host.strip("[]")
        self._about: dict[str, str | int] = {
            "messaging.system": "servicebus",
            "server.address": host,
            "server.port": int(port),
            # The older name of `server.address`, which azure-servicebus sets.
            "net.peer.name": host,
        }

    def messages(self, entity: str) -> "OutgoingSpans":
        """Return what creates the spans of messages sent to `entity`."""
        return OutgoingSpans(self, entity)

    def sending(self, entity: str, spans: MessageSpans | None, count: int) -> "Operation":
        """Return the operation of sending messages, linked to their `spans`."""
        made = Operation(self, "send", entity, "publish")
        made.links = spans.links if spans is not None else []
        made.count = count
        return made

    def scheduling(self, entity: str, spans: MessageSpans | None, count: int) -> "Operation":
        """Return the operation of scheduling messages."""
        made = self.sending(entity, spans, count)
        made.name = "schedule"
        return made

    def receiving(self, entity: str, name: str = "receive") -> "Operation":
        """Return the operation of receiving or peeking; its `of` links the messages."""
        return Operation(self, name, entity, "receive")

    def settling(
        self, entity: str, disposition: receiver_pb2.Disposition, messages: "Settled"
    ) -> "Operation":
        """Return the operation of settling a message, or a list of messages."""
        name = _SETTLEMENTS[disposition]
        made = Operation(self, name, entity, None if name == "renew" else "settle")
        made.about([messages] if isinstance(messages, ServiceBusMessage) else list(messages))
        return made

    def calling(self, entity: str | None, name: str, count: int = 1) -> "Operation":
        """Return any other operation."""
        made = Operation(self, name, entity, None)
        made.count = count
        return made

    def managing(self, entity: str | None, name: str) -> "Operation":
        """Return an operation of an administration client."""
        return Operation(self, name, entity, None, prefix="ServiceBusAdministrationClient")

    def attributes(self, entity: str | None, name: str, kind: str | None) -> dict[str, str | int]:
        """Return the attributes of a span, by the semantic conventions for messaging."""
        made = {**self._about, "messaging.operation.name": name}
        if kind is not None:
            made["messaging.operation"] = kind
        if entity is not None:
            made["messaging.destination.name"] = entity
        return made

    def begin(self, name: str, **options: Any) -> "Span":
        """Start a span; its parent is the current one."""
        return self._tracer.start_span(name, **options)


class OutgoingSpans:
    """Creates a span for each outgoing message, which carries its context."""

    __slots__ = ("_added_link", "_entity", "_tracing", "links")

    def __init__(self, tracing: Tracing, entity: str) -> None:
        self._tracing = tracing
        self._entity = entity
        self._added_link = False
        self.links: list[Link] = []

    def add(self, message: "ServiceBusMessage", message_id: str) -> bytes:
        """Return what to append to the encoded message: its context, as application properties.

        Nothing for a message that already has a context, which is kept.
        """
        count = len(self.links)
        try:
            return self._add(message, message_id)
        except Exception:  # a message that cannot be traced is sent without a span
            _log.warning("tracing: cannot trace a message", exc_info=True)
            return b""
        finally:
            self._added_link = len(self.links) > count

    def drop_last(self) -> None:
        """Drop the message that was added last: it is not sent."""
        if self._added_link:
            self.links.pop()

    def _add(self, message: "ServiceBusMessage", message_id: str) -> bytes:
        from opentelemetry.trace import Link, SpanKind

        given = _carrier(message._application_properties or {})
        if TRACEPARENT in given:
            _link(self.links, given)
            return b""
        attributes = self._tracing.attributes(self._entity, "create", "create")
        attributes["messaging.message.id"] = message_id
        span = self._tracing.begin(
            "ServiceBus.message", kind=SpanKind.PRODUCER, attributes=attributes
        )
        span.end()
        if len(self.links) < LINKS_MAX:
            self.links.append(Link(span.get_span_context()))
        return _properties(span)


class Operation:
    """One operation, as a context manager that creates its span when it ends."""

    __slots__ = (
        "_began_ns",
        "_entity",
        "_error",
        "_kind",
        "_prefix",
        "_tracing",
        "count",
        "links",
        "name",
    )

    def __init__(
        self,
        tracing: Tracing,
        name: str,
        entity: str | None,
        kind: str | None,
        prefix: str = "ServiceBus",
    ) -> None:
        self._tracing, self.name, self._entity, self._kind = tracing, name, entity, kind
        self._prefix = prefix
        self._error: BaseException | None = None
        self._began_ns = 0
        self.count = 1
        self.links: list[Link] = []

    def about(self, messages: Sequence[ServiceBusMessage]) -> None:
        """Link messages."""
        self.count = len(messages)
        try:
            for message in messages[:LINKS_MAX]:
                _link(self.links, _carrier(message.application_properties or {}))
        except Exception:  # tracing must not change the outcome of the operation
            _log.warning("tracing: cannot link to a message", exc_info=True)

    def of(self, messages: "list[ServiceBusReceivedMessage]") -> "list[ServiceBusReceivedMessage]":
        """Link the messages that were received, and return them."""
        self.about(messages)
        return messages

    def outcome(self, outcome: "Outcome") -> "Outcome":
        """Record the outcome of a settlement, whose errors are raised later, and return it."""
        if outcome.errors:
            self._error = outcome.errors[0][1]
        return outcome

    def __enter__(self) -> "Operation":
        self._began_ns = time.time_ns()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._record(exc or self._error)
        except Exception:  # of a span processor: it must not change the outcome
            _log.warning("tracing: cannot record a span", exc_info=True)

    def _record(self, error: BaseException | None) -> None:
        from opentelemetry.trace import SpanKind, StatusCode

        attributes = self._tracing.attributes(self._entity, self.name, self._kind)
        if self.count != 1:
            attributes["messaging.batch.message_count"] = self.count
        if error is not None:
            kind = type(error)
            attributes["error.type"] = f"{kind.__module__}.{kind.__qualname__}"
        span = self._tracing.begin(
            f"{self._prefix}.{self.name}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=self.links,
            start_time=self._began_ns,
        )
        if error is not None:
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, str(error))
        span.end()


class NoOperation:
    """The operation without tracing: does nothing."""

    __slots__ = ()

    def of(self, messages: "list[ServiceBusReceivedMessage]") -> "list[ServiceBusReceivedMessage]":
        """Return the messages."""
        return messages

    def __enter__(self) -> "NoOperation":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


# For rare operations; frequent ones check for None themselves.
NO_OPERATION: Final = NoOperation()


def _properties(span: "Span") -> bytes:
    """Return the context of a span as the application properties of a serialised Message.

    Appended to another one it adds to its properties: Protocol Buffers merge maps.
    """
    from opentelemetry.trace import set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
    if TRACEPARENT not in carrier:
        return b""
    made = message_pb2.Message()
    for name in (TRACEPARENT, TRACESTATE):
        if name in carrier:
            made.application_properties[name].string_value = carrier[name]
    made.application_properties[DIAGNOSTIC_ID].string_value = carrier[TRACEPARENT]
    return made.SerializeToString()


def _carrier(properties: Mapping[str | bytes, Any]) -> dict[str, str]:
    """Return the trace context in the application properties of a message."""
    parent = _text(properties, TRACEPARENT) or _text(properties, DIAGNOSTIC_ID)
    if not parent:
        return {}
    state = _text(properties, TRACESTATE)
    return {TRACEPARENT: parent, TRACESTATE: state} if state else {TRACEPARENT: parent}


def _text(properties: Mapping[str | bytes, Any], name: str) -> str:
    value = properties.get(name)
    if value is None:
        value = properties.get(name.encode())
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return value if isinstance(value, str) else ""


def _link(links: "list[Link]", carrier: dict[str, str]) -> None:
    """Add a link to the context in `carrier`, if there is a valid one."""
    if not carrier or len(links) >= LINKS_MAX:
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = TraceContextTextMapPropagator().extract(carrier, Context())
    context = get_current_span(found).get_span_context()
    if context.is_valid:
        links.append(Link(context))
