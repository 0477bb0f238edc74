"""Operations on the content of messages. See operation_table."""

from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageProperties

from tests.azure_sdk.operation_table import Entity, complete_all, operation


@operation
def all_fields(entity: Entity) -> None:
    given: dict[str | bytes, Any] = {"int": 1, "float": 1.5, "bool": True, "text": "x"}
    sent = ServiceBusMessage(
        b"body",
        application_properties=dict(given),
        content_type="text/plain",
        correlation_id="c",
        subject="s",
        to="t",
        reply_to="r",
        reply_to_session_id="rs",
        partition_key="k",
        time_to_live=timedelta(minutes=5),
        message_id="m",
    )
    entity.send(sent)
    [found] = complete_all(entity.receiver(), 1)
    expected = {**given, "text": b"x"}
    assert {key.decode(): value for key, value in found.application_properties.items()} == expected
    for name in ("content_type", "correlation_id", "subject", "to", "reply_to", "partition_key",
                 "message_id", "reply_to_session_id", "time_to_live"):  # fmt: skip
        assert getattr(found, name) == getattr(sent, name), name


@operation
def bodies(entity: Entity) -> None:
    entity.send(
        AmqpAnnotatedMessage(value_body={b"key": [1, "two", None]}),
        AmqpAnnotatedMessage(
            sequence_body=[[1, 2], ["three"]],
            properties=AmqpMessageProperties(message_id="sequence"),
        ),
    )
    found = {each.message_id: each for each in complete_all(entity.receiver(), 2)}
    assert list(found.pop("sequence").raw_amqp_message.body) == [[1, 2], [b"three"]]
    [value] = found.values()
    assert value.raw_amqp_message.body == {b"key": [1, b"two", None]}


@operation
def annotated(entity: Entity) -> None:
    entity.send(
        AmqpAnnotatedMessage(data_body=b"x", annotations={"x-ours": "kept"}, footer={"f": 1})
    )
    [message] = complete_all(entity.receiver(), 1)
    found = message.raw_amqp_message
    assert found.annotations[b"x-ours"] == b"kept"
    assert found.footer == {b"f": 1}
