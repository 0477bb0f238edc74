"""Nothing that an AMQP sender wrote is lost, whoever passes the message on.

    AMQP ─► columns ─► AMQP                                     as it was
    AMQP ─► columns ─► client of the contract ─► columns ─► AMQP      as well

What may change is in `expected`.
"""

from operator import add
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bendybus.amqp import sections, values
from bendybus.amqp.sections import Header, Message, Properties
from bendybus.amqp.values import Int, Symbol, Timestamp, Uint
from bendybus.client.messages import encode
from bendybus.client.messages.received_message import Delivered, ServiceBusReceivedMessage
from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument, MessageSizeExceeded
from bendybus.frontend.listeners.amqp import annotations, outgoing_messages
from bendybus.v1.message_pb2 import MessageBatch
from tests.frontend import amqp_examples
from tests.frontend.amqp_examples import ENQUEUED_MS, exact

UINT_MAX = 2**32 - 1
MANY = settings(max_examples=300, suppress_health_check=list(HealthCheck))


def sent(message: Message) -> MessageBatch:
    return amqp_examples.of_delivery(amqp_examples.payload(message))


def received(batch: MessageBatch, *, whole: bool = False) -> Message:
    delivery = amqp_examples.delivered(batch)
    if whole and delivery.heads:
        # As files have it that an early version wrote.
        delivery.messages[:] = map(add, delivery.heads, delivery.messages)
        del delivery.heads[:], delivery.formats[:]
    return sections.decode(outgoing_messages.Delivery(delivery).encode(0))


def parts(message: Message) -> dict[str, Any]:
    """Return what must be equal. A section with nothing in it is none."""
    own = [
        (key, value)
        for key, value in pairs(message.message_annotations)
        if not isinstance(key, str) or key not in annotations.SET_BY_THE_BUS
    ]
    header, properties = message.header or Header(), message.properties or Properties()
    return {
        "durable": header.durable,
        "priority": exact(header.priority),
        "ttl": exact(header.ttl),
        "first_acquirer": header.first_acquirer,
        "annotations": exact(values.map_of(own)),
        "properties": {name: exact(getattr(properties, name)) for name in Properties.__slots__},
        "application_properties": exact(values.map_of(pairs(message.application_properties))),
        "data": message.data,
        "sequences": tuple(map(exact, message.sequences)),
        "value": exact(message.value) if message.has_value else None,
        "footer": exact(values.map_of(pairs(message.footer))),
        "delivery_annotations": exact(
            values.map_of(
                (key, value)
                for key, value in pairs(message.delivery_annotations)
                if not isinstance(key, str) or key not in annotations.SET_BY_THE_BUS
            )
        ),
    }


def pairs(entries: Any) -> list[tuple[Any, Any]]:
    return list(entries.items() if isinstance(entries, dict) else entries or ())


def expected(message: Message) -> dict[str, Any]:
    """Return `parts` with what is stated to change: the time to live, and when it ends."""
    properties = message.properties or Properties()
    ttl_ms = time_to_live_ms(message)
    found = parts(message)
    found["ttl"] = exact(Uint(min(ttl_ms, UINT_MAX)) if ttl_ms else None)
    ends = Timestamp(min(ENQUEUED_MS + ttl_ms, bounds.TIME_MS_MAX)) if ttl_ms else None
    found["properties"]["absolute_expiry_time"] = exact(ends)
    own = properties.creation_time is not None and properties.absolute_expiry_time is None
    if ttl_ms and (ttl_ms > UINT_MAX or not own):
        found["properties"]["creation_time"] = exact(Timestamp(ENQUEUED_MS))
    return found


def with_id(message: Message) -> None:
    """Give a message an id that has none: otherwise the bus does."""
    message.properties = message.properties or Properties()
    message.properties.message_id = message.properties.message_id or "id"


def time_to_live_ms(message: Message) -> int:
    properties = message.properties or Properties()
    ttl = message.header.ttl if message.header else None
    lasts = 0
    if None not in (properties.creation_time, properties.absolute_expiry_time):
        lasts = (properties.absolute_expiry_time or 0) - (properties.creation_time or 0)
    if ttl is None:
        return min(max(lasts, 0), limits.TIME_TO_LIVE_MS_MAX)
    if ttl == UINT_MAX:
        return min(max(lasts, ttl), limits.TIME_TO_LIVE_MS_MAX)
    return max(ttl, 1)


@MANY
@given(amqp_examples.messages(), st.booleans())
@pytest.mark.requirement("R487")
def test_what_is_sent_over_amqp_is_received_over_amqp(message: Message, whole: bool) -> None:
    with_id(message)

    assert parts(received(sent(message), whole=whole)) == expected(message)


@MANY
@given(amqp_examples.messages())
# Binary, but a value: not the plain body that is encoded by hand.
@example(Message(value=b"binary", has_value=True))
@pytest.mark.requirement("R487")
def test_a_client_of_the_contract_sends_on_what_it_received(message: Message) -> None:
    with_id(message)
    batch = sent(message)
    delivery = Delivered(amqp_examples.delivered(batch))

    columns = encode.Columns()
    columns.add(ServiceBusReceivedMessage(delivery))

    assert parts(received(encode.batch_proto([columns]))) == expected(message)


@MANY
@given(amqp_examples.messages())
def test_the_amqp_view_of_a_received_message_sends_on_what_was_received(message: Message) -> None:
    with_id(message)
    delivery = Delivered(amqp_examples.delivered(sent(message)))

    columns = encode.Columns()
    columns.add(encode.as_message(ServiceBusReceivedMessage(delivery).raw_amqp_message))

    assert parts(received(encode.batch_proto([columns]))) == expected(message)


def test_what_is_of_one_hop_or_of_the_bus_is_dropped() -> None:
    message = Message(
        header=Header(delivery_count=Uint(7)),
        delivery_annotations={Symbol(annotations.LOCK_TOKEN): Symbol("forged")},
        message_annotations={Symbol(name): Symbol("forged") for name in annotations.SET_BY_THE_BUS},
        data=(b"",),
    )

    found = received(sent(message))

    assert found.header == Header(delivery_count=0)
    assert found.delivery_annotations is not None
    assert list(found.delivery_annotations) == [annotations.LOCK_TOKEN]
    assert found.message_annotations is not None
    assert "forged" not in found.message_annotations.values()  # type: ignore[union-attr]


@pytest.mark.parametrize("locked", [True, False])
def test_the_senders_delivery_annotations_are_passed_on(locked: bool) -> None:
    given = {Symbol("x-opt-hop"): Int(3), Symbol(annotations.LOCK_TOKEN): Symbol("forged")}
    batch = sent(Message(delivery_annotations=given, data=(b"",)))

    delivery = amqp_examples.delivered(batch, locked=locked)
    found = sections.decode(outgoing_messages.Delivery(delivery).encode(0))

    assert isinstance(found.delivery_annotations, dict)
    token = found.delivery_annotations.pop(annotations.LOCK_TOKEN, None)
    assert (token is not None, token == "forged") == (locked, False)
    assert found.delivery_annotations == {"x-opt-hop": 3}


@MANY
@given(amqp_examples.messages(), st.integers(0, 10_000), st.integers(0, 255), st.booleans())
def test_a_damaged_message_is_refused_or_passed_on(
    message: Message, place: int, byte: int, cut: bool
) -> None:
    payload = bytearray(amqp_examples.payload(message))
    place %= len(payload)
    payload[place] = byte
    try:
        batch = amqp_examples.of_delivery(bytes(payload[:place] if cut else payload))
    except (InvalidArgument, MessageSizeExceeded):
        return

    assert received(batch)
