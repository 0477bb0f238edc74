"""Spans of OpenTelemetry: which calls make them, what they say, and how messages carry them."""

import importlib
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from bendybus import client as sync_client
from bendybus.client import ServiceBusClient, ServiceBusMessage, aio, management
from bendybus.client.aio import management as aio_management
from bendybus.client.core import tracing
from bendybus.client.exceptions import (
    HttpResponseError,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
)
from tests.client.conftest import RETRY, Either
from tests.client.fake_front_end import FakeFrontEnd

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CALLS = {
    "message",
    "send",
    "schedule",
    "cancel_scheduled",
    "receive",
    "receive_deferred",
    "peek",
    "complete",
    "abandon",
    "release",
    "defer",
    "delete",
    "purge",
}
LATER = datetime.now(UTC) + timedelta(days=1)


class Spans:
    """A tracer provider, and the spans that it made."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture(params=["sync", "aio"])
async def traced(
    request: pytest.FixtureRequest, fake: FakeFrontEnd, spans: Spans
) -> AsyncIterator[Any]:
    """A client of either surface that is traced."""
    kind: Any = sync_client if request.param == "sync" else aio
    made = kind.ServiceBusClient.from_connection_string(
        fake.connection_string, tracing=spans.provider, **RETRY
    )
    yield made
    await Either(made).close()


def senders(client: Any) -> Any:
    return Either(client.get_queue_sender("q"))


def receivers(client: Any) -> Any:
    return Either(client.get_queue_receiver("q", max_wait_time=2))


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def ids(found: Sequence[ReadableSpan]) -> list[int]:
    contexts = [span.get_span_context() for span in found]
    return [context.span_id for context in contexts if context is not None]


async def test_a_send_makes_one_span_that_is_linked_to_one_of_each_message(
    traced: Any, spans: Spans, fake: FakeFrontEnd
) -> None:
    await senders(traced).send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])

    send, made = spans.one("ServiceBus.send"), spans.named("ServiceBus.message")
    assert send.kind is SpanKind.CLIENT
    assert [span.kind for span in made] == [SpanKind.PRODUCER] * 2
    assert linked(send) == ids(made)
    assert attributes(send) == {
        "messaging.system": "servicebus",
        "messaging.destination.name": "q",
        "messaging.operation": "publish",
        "messaging.operation.name": "send",
        "messaging.batch.message_count": 2,
        "server.address": "127.0.0.1",
        "server.port": fake.port,
        "net.peer.name": "127.0.0.1",
    }
    assert (send.start_time or 0) <= (send.end_time or 0)


async def test_spans_belong_to_the_span_in_which_the_call_is_made(
    traced: Any, spans: Spans
) -> None:
    tracer = spans.provider.get_tracer("application")

    with tracer.start_as_current_span("order") as order:
        await senders(traced).send_messages(ServiceBusMessage("a"))

    for name in ("ServiceBus.send", "ServiceBus.message"):
        span = spans.one(name)
        assert span.parent is not None
        assert span.parent.span_id == order.get_span_context().span_id


async def test_a_message_carries_the_context_of_its_span_beside_its_own_properties(
    traced: Any, spans: Spans
) -> None:
    message = ServiceBusMessage("body", application_properties={"colour": "red"}, subject="s")
    await senders(traced).send_messages(message)
    (received,) = await receivers(traced).receive_messages()

    context = spans.one("ServiceBus.message").get_span_context()
    assert context is not None
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    assert received.decoded_properties == {
        "colour": "red",
        "traceparent": parent,
        "Diagnostic-Id": parent,
    }
    assert (str(received), received.subject) == ("body", "s")
    assert message.application_properties == {"colour": "red"}


@pytest.mark.parametrize("name", ["traceparent", b"traceparent", "Diagnostic-Id"])
async def test_a_context_that_the_application_gave_is_kept_and_linked_to(
    traced: Any, spans: Spans, name: Any
) -> None:
    message = ServiceBusMessage("a", application_properties={name: PARENT})
    await senders(traced).send_messages(message)
    (received,) = await receivers(traced).receive_messages()

    assert list((received.decoded_properties or {}).values()) == [PARENT]
    assert spans.named("ServiceBus.message") == []
    assert linked(spans.one("ServiceBus.send")) == [0xB7AD6B7169203331]
    assert linked(spans.one("ServiceBus.receive")) == [0xB7AD6B7169203331]


@pytest.mark.parametrize("value", ["no context", b"\xff", 5, "00-" + "0" * 32 + "-b7ad-01"])
async def test_what_is_no_context_is_not_linked_to(traced: Any, spans: Spans, value: Any) -> None:
    message = ServiceBusMessage("a", application_properties={"traceparent": value})
    await senders(traced).send_messages(message)
    (received,) = await receivers(traced).receive_messages()

    assert received.decoded_properties is not None
    assert linked(spans.one("ServiceBus.receive")) in ([], ids(spans.named("ServiceBus.message")))


async def test_a_batch_is_linked_to_the_messages_that_fit_into_it(
    traced: Any, spans: Spans
) -> None:
    sender = senders(traced)
    batch = await sender.create_message_batch(1_000)
    batch.add_message(ServiceBusMessage("a"))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"b" * 900))
    await sender.send_messages(batch)

    assert linked(spans.one("ServiceBus.send")) == ids(spans.named("ServiceBus.message")[:1])
    assert batch.size_in_bytes <= 1_000


async def test_receives_and_settlements_are_linked_to_the_messages_they_are_about(
    traced: Any, spans: Spans
) -> None:
    await senders(traced).send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    receiver = receivers(traced)
    messages = await receiver.receive_messages(2)
    await receiver.renew_message_lock(messages[0])
    await receiver.dead_letter_message(messages[0], reason="r")
    await receiver.complete_messages(messages[1:])

    made = ids(spans.named("ServiceBus.message"))
    receive = spans.one("ServiceBus.receive")
    assert linked(receive) == made
    assert attributes(receive)["messaging.operation"] == "receive"
    assert attributes(receive)["messaging.batch.message_count"] == 2
    dead = spans.one("ServiceBus.dead-letter")
    assert linked(dead) == made[:1]
    assert attributes(dead)["messaging.operation"] == "settle"
    assert "messaging.batch.message_count" not in attributes(dead)
    assert linked(spans.one("ServiceBus.complete")) == made[1:]
    assert linked(spans.one("ServiceBus.renew")) == made[:1]


async def test_every_other_call_makes_a_span(traced: Any, spans: Spans) -> None:
    sender, receiver = senders(traced), receivers(traced)
    numbers = await sender.schedule_messages(ServiceBusMessage("later"), LATER)
    await sender.cancel_scheduled_messages(numbers)
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(4)])
    messages = await receiver.receive_messages(3)
    await receiver.abandon_message(messages[0])
    await receiver.release_messages(messages[1:2])
    await receiver.defer_message(messages[2])
    (peeked,) = await receiver.peek_messages()
    (deferred,) = await receiver.receive_deferred_messages(messages[2].sequence_number)
    await receiver.complete_message(deferred)
    await receiver.delete_messages(1)
    await receiver.purge_messages()

    assert peeked is not None
    assert {name.removeprefix("ServiceBus.") for name in spans.names()} == CALLS
    assert len(spans.one("ServiceBus.schedule").links) == 1
    assert len(spans.one("ServiceBus.receive_deferred").links) == 1
    assert len(spans.one("ServiceBus.peek").links) == 1


async def test_failures_are_recorded_with_their_type_and_sentence(
    traced: Any, spans: Spans, fake: FakeFrontEnd
) -> None:
    sender, receiver = senders(traced), receivers(traced)
    with pytest.raises(MessageNotFoundError):
        await sender.cancel_scheduled_messages([99])
    await sender.send_messages(ServiceBusMessage("a"))
    (message,) = await receiver.receive_messages()
    for one in fake.queues["q"].messages.values():
        one.token = b"another lock"
    with pytest.raises(MessageLockLostError) as caught:
        await receiver.complete_message(message)

    cancel = spans.one("ServiceBus.cancel_scheduled")
    assert cancel.status.status_code is StatusCode.ERROR
    assert attributes(cancel)["error.type"].endswith(".MessageNotFoundError")
    assert [event.name for event in cancel.events] == ["exception"]
    complete = spans.one("ServiceBus.complete")
    assert attributes(complete)["error.type"].endswith(".MessageLockLostError")
    assert complete.status.description == str(caught.value)


@pytest.mark.parametrize("surface", ["sync", "aio"])
async def test_calls_of_administration_make_spans(
    surface: str, fake: FakeFrontEnd, spans: Spans
) -> None:
    kind: Any = management if surface == "sync" else aio_management
    made = kind.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string, tracing=spans.provider, **RETRY
    )
    administration = Either(made)
    await administration.create_queue("made")
    await administration.delete_queue("made")
    with pytest.raises(HttpResponseError):
        await administration.get_rule("news", "a", "of a server without rules")
    await administration.close()

    names = [each.removeprefix("ServiceBusAdministrationClient.") for each in spans.names()]
    assert names == ["create_queue", "delete_queue", "get_rule"]
    created = spans.one("ServiceBusAdministrationClient.create_queue")
    assert attributes(created)["messaging.destination.name"] == "made"


async def test_a_span_processor_that_fails_changes_no_outcome(
    traced: Any, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            raise RuntimeError("broken exporter")

    spans.provider.add_span_processor(Broken())
    await senders(traced).send_messages(ServiceBusMessage("a"))
    (message,) = await receivers(traced).receive_messages()

    assert str(message) == "a"
    assert "tracing: cannot record a span" in caplog.text


def test_without_being_asked_for_there_are_no_spans_and_nothing_travels(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = Spans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
    with ServiceBusClient.from_connection_string(fake.connection_string) as client:
        client.get_queue_sender("q").send_messages(ServiceBusMessage("a"))
        (message,) = client.get_queue_receiver("q").receive_messages()

    assert spans.names() == []
    assert message.application_properties is None


@pytest.mark.parametrize(("asked", "variable"), [(True, None), (None, "true"), (None, "Yes")])
def test_tracing_goes_to_the_provider_that_is_configured_when_a_sender_is_made(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch, asked: Any, variable: str | None
) -> None:
    if variable is not None:
        monkeypatch.setenv(tracing.VARIABLE, variable)
    spans = Spans()
    with ServiceBusClient.from_connection_string(fake.connection_string, tracing=asked) as client:
        before = client.get_queue_sender("q")
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
        after = client.get_queue_sender("q")
        before.send_messages(ServiceBusMessage("a"))
        after.send_messages(ServiceBusMessage("b"))

    assert before._tracing is None
    assert len(spans.named("ServiceBus.send")) == 1


def test_an_argument_goes_before_the_variable(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tracing.VARIABLE, "on")

    with ServiceBusClient.from_connection_string(fake.connection_string, tracing=False) as client:
        assert client.get_queue_sender("q")._tracing is None


@pytest.mark.parametrize(
    ("asked", "variable", "kind", "said"),
    [
        (5, "", TypeError, "tracing: must be True, False or a TracerProvider"),
        (None, "perhaps", ValueError, "BENDYBUS_TRACING: must be true or false"),
    ],
)
def test_what_is_no_switch_is_named(
    monkeypatch: pytest.MonkeyPatch, asked: Any, variable: str, kind: type[Exception], said: str
) -> None:
    monkeypatch.setenv(tracing.VARIABLE, variable)

    with pytest.raises(kind, match=said):
        ServiceBusClient("127.0.0.1:1", ("k", "s"), tracing=asked)


def test_asking_for_spans_without_the_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(ValueError, match=r"pip install '\.\[tracing\]'"):
        ServiceBusClient("127.0.0.1:1", ("k", "s"), tracing=True)


def test_a_client_without_tracing_does_not_import_opentelemetry() -> None:
    code = (
        "import sys\nfrom bendybus.client import ServiceBusClient\n"
        "client = ServiceBusClient('127.0.0.1:1', ('k', 's'))\nclient.get_queue_sender('q')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_the_example_makes_one_trace_of_sending_and_working(
    fake: FakeFrontEnd, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    example = importlib.import_module("tracing")
    receive = ServiceBusClient.get_queue_receiver
    monkeypatch.setattr(
        ServiceBusClient,
        "get_queue_receiver",
        lambda self, queue, **options: receive(self, queue, **{**options, "max_wait_time": 0.5}),
    )

    example.main(fake.connection_string, "q", spans.provider)

    order, work = spans.one("order").context, spans.one("work")
    assert order is not None
    assert work.parent is not None
    assert work.parent.trace_id == order.trace_id
    assert work.parent.span_id == ids(spans.named("ServiceBus.message"))[0]
