"""Messages as the official SDK writes and reads them: azure-servicebus, without a connection."""

import datetime
import uuid
from typing import Any, cast

import pytest
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus import ServiceBusReceivedMessage as SdkReceived
from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus._pyamqp import _decode, _encode
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.amqp import AmqpAnnotatedMessage as SdkAnnotated
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.client.messages import encode, values
from bendybus.client.messages.amqp import AmqpAnnotatedMessage
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.client.messages.received_message import Delivered, ServiceBusReceivedMessage
from bendybus.frontend.listeners.amqp import lock_names, outgoing_messages
from bendybus.v1.message_pb2 import DeliveredBatch, MessageBatch
from tests.frontend import amqp_examples
from tests.frontend.amqp_examples import ENQUEUED_MS, LOCKED_UNTIL_MS, NUMBER, TOKEN

UTC = datetime.UTC
NOON = datetime.datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SHARED = (
    "message_id",
    "session_id",
    "partition_key",
    "correlation_id",
    "subject",
    "to",
    "reply_to",
    "reply_to_session_id",
    "content_type",
    "time_to_live",
    "scheduled_enqueue_time_utc",
    "enqueued_time_utc",
    "expires_at_utc",
    "sequence_number",
    "enqueued_sequence_number",
    "delivery_count",
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_letter_source",
    "locked_until_utc",
    "application_properties",
)
EVERYTHING: dict[str, Any] = {
    "message_id": "m",
    "session_id": "s",
    "partition_key": "s",
    "correlation_id": "c",
    "subject": "order",
    "to": "t",
    "reply_to": "r",
    "reply_to_session_id": "rs",
    "content_type": "text/plain",
    "time_to_live": datetime.timedelta(days=2),
    "scheduled_enqueue_time_utc": NOON,
    "application_properties": {"colour": "red", "size": 7, "weight": 2.5, "new": True},
}
BARE: dict[str, Any] = {"message_id": "m"}


def sent_by_sdk(message: Any) -> MessageBatch:
    raw = message if isinstance(message, SdkAnnotated) else message._raw_amqp_message
    outgoing = PyamqpTransport.to_outgoing_amqp_message(raw)
    return amqp_examples.of_delivery(bytes(_encode.encode_payload(bytearray(), outgoing)))


def sent_by_client(message: Any) -> MessageBatch:
    columns = encode.Columns()
    columns.add(encode.as_message(message))
    return encode.batch_proto([columns])


def read_by_sdk(delivery: DeliveredBatch, *, tag: bool = True) -> SdkReceived:
    encoded = outgoing_messages.Delivery(delivery)
    payload, token = encoded.encode(0), delivery.lock_tokens[:16]
    mode = ServiceBusReceiveMode.PEEK_LOCK if token else ServiceBusReceiveMode.RECEIVE_AND_DELETE
    frame = (0, 1, lock_names.tag_of(encoded.lock_name(0))) if token and tag else None
    decoded = _decode.decode_payload(memoryview(payload))
    return SdkReceived(decoded, receive_mode=mode, frame=frame, receiver=None)  # type: ignore[arg-type]


def read_by_client(delivery: DeliveredBatch) -> ServiceBusReceivedMessage:
    mode: Any = "peeklock" if delivery.lock_tokens else "receiveanddelete"
    return ServiceBusReceivedMessage(Delivered(delivery), mode)


def token_of(message: Any) -> uuid.UUID | None:
    """Return the lock token of a message, which has another name over AMQP."""
    if message.lock_token is None or isinstance(message, ServiceBusReceivedMessage):
        token: uuid.UUID | None = message.lock_token
        return token
    return uuid.UUID(bytes=lock_names.token_of(message.lock_token.bytes))


def facts(message: Any) -> dict[str, Any]:
    found = {name: getattr(message, name) for name in SHARED}
    found["application_properties"] = dict(found["application_properties"] or {})
    # Only said over AMQP where it is another one, as by Service Bus.
    found["enqueued_sequence_number"] = message.enqueued_sequence_number or message.sequence_number
    found["state"] = message.state.value
    found["lock_token"] = token_of(message)
    found["body_type"] = message.body_type.value
    body = message.body
    found["body"] = body if message.body_type.value == "value" else list(body)
    return found


@pytest.mark.parametrize("arguments", [BARE, EVERYTHING], ids=["bare", "everything"])
@pytest.mark.parametrize("locked", [True, False])
def test_the_sdk_reads_what_the_client_of_the_contract_wrote(
    arguments: dict[str, Any], locked: bool
) -> None:
    batch = sent_by_client(ServiceBusMessage("body", **arguments))
    delivery = amqp_examples.delivered(batch, locked=locked)

    assert facts(read_by_sdk(delivery)) == facts(read_by_client(delivery))


@pytest.mark.parametrize("arguments", [BARE, EVERYTHING], ids=["bare", "everything"])
def test_the_client_of_the_contract_reads_what_the_sdk_wrote(arguments: dict[str, Any]) -> None:
    by_sdk = amqp_examples.delivered(sent_by_sdk(SdkMessage("body", **arguments)))
    by_client = amqp_examples.delivered(sent_by_client(ServiceBusMessage("body", **arguments)))

    assert facts(read_by_client(by_sdk)) == facts(read_by_client(by_client))
    assert facts(read_by_sdk(by_sdk)) == facts(read_by_sdk(by_client))


@pytest.mark.parametrize(
    "body",
    [
        {"data_body": [b"a", b"b"]},
        {"sequence_body": [[1, b"x"], [None, 2.5]]},
        {"value_body": {b"k": [1, 2, {b"in": None}]}},
        {"value_body": b"binary"},
    ],
)
def test_bodies_of_every_kind_are_read_by_the_sdk(body: dict[str, Any]) -> None:
    footer = {"checksum": 1}

    for sent in (
        sent_by_client(AmqpAnnotatedMessage(footer=footer, **body)),
        sent_by_sdk(SdkAnnotated(footer=footer, **body)),
    ):
        found = read_by_sdk(amqp_examples.delivered(sent)).raw_amqp_message

        kind = found.body_type.value
        assert (found.body if kind == "value" else list(found.body)) == body[f"{kind}_body"]
        assert found.footer == {b"checksum": 1}


@pytest.mark.parametrize("tag", [True, False])
def test_a_lock_token_is_the_same_in_tag_and_annotation(tag: bool) -> None:
    delivery = amqp_examples.delivered(sent_by_client(ServiceBusMessage("body")))

    found = read_by_sdk(delivery, tag=tag)

    assert token_of(found) == uuid.UUID(bytes=TOKEN)
    assert outgoing_messages.Delivery(delivery).lock_token(0) == TOKEN


def test_what_the_bus_says_is_in_annotations_of_the_types_of_service_bus() -> None:
    delivery = amqp_examples.delivered(
        sent_by_client(ServiceBusMessage("body", partition_key="k")),
        delivery_counts=[2],
        states=[2],
        enqueued_sequence_numbers=[9],
        dead_letter_reasons=["why"],
        dead_letter_error_descriptions=["more"],
        dead_letter_sources=["orders"],
    )

    found = read_by_sdk(delivery)

    assert found.raw_amqp_message.annotations == {
        b"x-opt-sequence-number": NUMBER,
        b"x-opt-enqueue-sequence-number": 9,
        b"x-opt-enqueued-time": ENQUEUED_MS,
        b"x-opt-locked-until": LOCKED_UNTIL_MS,
        b"x-opt-partition-id": 3,
        b"x-opt-message-state": 1,
        b"x-opt-partition-key": b"k",
        b"x-opt-deadletter-source": b"orders",
    }
    assert (found.delivery_count, found.dead_letter_reason) == (2, "why")
    assert facts(found) == facts(read_by_client(delivery))


@pytest.mark.parametrize(("locked", "own"), [(True, {b"x-opt-locked-until"}), (False, set())])
def test_what_is_usual_is_in_no_annotation(locked: bool, own: set[bytes]) -> None:
    """As tests of azure-servicebus count them, and the bytes that they take."""
    delivery = amqp_examples.delivered(
        sent_by_client(ServiceBusMessage("body")), locked=locked, states=[1]
    )
    delivery.partition = 0

    raw = read_by_sdk(delivery).raw_amqp_message

    assert set(raw.annotations or {}) == {
        b"x-opt-sequence-number",
        b"x-opt-enqueued-time",
        *own,
    }
    assert list(raw.delivery_annotations or {}) == ([b"x-opt-lock-token"] if locked else [])
    assert raw.delivery_annotations is not None


SIMPLE: dict[str, Any] = {
    "NULL": None,
    "BOOL": True,
    "UBYTE": values.UByte(255),
    "USHORT": values.UShort(65_535),
    "UINT": values.UInt(2**32 - 1),
    "ULONG": values.ULong(2**64 - 1),
    "BYTE": values.Byte(-128),
    "SHORT": values.Short(-(2**15)),
    "INT": values.Int(-(2**31)),
    "LONG": -(2**63),
    "FLOAT": values.Float32(1.5),
    "DOUBLE": 0.1,
    "TIMESTAMP": values.Timestamp(-1),
    "UUID": uuid.UUID(int=7),
    "BINARY": b"\xff",
    "STRING": "text",
    "SYMBOL": values.Symbol(b"symbol"),
}


@pytest.mark.parametrize("kind", SIMPLE)
def test_application_properties_of_every_simple_type_are_those_of_the_client(kind: str) -> None:
    message = ServiceBusMessage("b", application_properties={"p": SIMPLE[kind]})
    delivery = amqp_examples.delivered(sent_by_client(message))

    by_sdk = read_by_sdk(delivery).application_properties
    assert by_sdk is not None
    (found,) = by_sdk.values()

    assert found == dict(read_by_client(delivery).application_properties or {})[b"p"]


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.text(max_size=20), st.text(max_size=300) | st.integers(-(2**63), 2**63 - 1), max_size=200
    )
)
def test_many_application_properties_are_read_by_the_sdk(properties: dict[str, Any]) -> None:
    message = ServiceBusMessage("b", application_properties=cast(Any, properties))

    found = read_by_sdk(amqp_examples.delivered(sent_by_client(message))).application_properties

    assert (found or {}) == {
        key.encode(): value.encode() if isinstance(value, str) else value
        for key, value in properties.items()
    }


# Delivery annotations are its last section.
def test_the_sdk_sends_on_what_it_received() -> None:
    # The SDK writes any number as one of 32 bits, also a sequence number or a time.
    arguments = EVERYTHING | {"scheduled_enqueue_time_utc": None}
    first = amqp_examples.delivered(sent_by_sdk(SdkMessage("body", **arguments)))
    first.sequence_numbers[:] = [5]

    again = amqp_examples.delivered(sent_by_sdk(read_by_sdk(first)))
    again.sequence_numbers[:] = [5]

    assert facts(read_by_sdk(again)) == facts(read_by_sdk(first))
    assert facts(read_by_client(again)) == facts(read_by_client(first))


# It leaves out a body that is false.
@pytest.mark.parametrize("body", [None, 0, "", b"", {}, []])
def test_a_value_that_the_sdk_leaves_out_is_received_as_null(body: Any) -> None:
    delivery = amqp_examples.delivered(sent_by_sdk(SdkAnnotated(value_body=body)))

    assert read_by_sdk(delivery).body is None
    assert read_by_client(delivery).body is None


def test_a_batch_of_the_sdk_is_its_messages() -> None:
    batch = PyamqpTransport.build_batch_message([])
    for each in ("a", "b"):
        message = SdkMessage(each, message_id=each)
        outgoing = PyamqpTransport.to_outgoing_amqp_message(message._raw_amqp_message)
        batch[5].append(bytes(_encode.encode_payload(bytearray(), outgoing)))
    payload = bytes(_encode.encode_payload(bytearray(), batch))  # type: ignore[arg-type]

    found = amqp_examples.of_delivery(payload, 0x80013700)

    assert list(found.message_ids) == ["a", "b"]
    deliveries = [DeliveredBatch(messages=[each]) for each in found.messages]
    assert [str(read_by_client(each)) for each in deliveries] == ["a", "b"]
