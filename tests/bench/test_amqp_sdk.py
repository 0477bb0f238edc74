"""The server in memory that Azure's SDK is measured with, and the limit for its sends."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from bench import marks
from bench.amqp import measure, memory_server, sdk
from bench.row import Row
from bendybus.amqp import sections
from bendybus.amqp.sections import Message, Properties
from bendybus.cli import endpoint


@pytest.mark.integration
async def test_the_server_in_memory_accepts_what_senders_of_the_sdk_send() -> None:
    server, port = await memory_server.listen()

    async with (
        server,
        ServiceBusClient.from_connection_string(endpoint.local(f"127.0.0.1:{port}")) as client,
        client.get_queue_sender("any") as one,
        client.get_queue_sender("other") as other,
    ):
        for _ in range(memory_server.CREDIT + 1):
            await one.send_messages(ServiceBusMessage(b"body"))
        await asyncio.gather(
            one.send_messages([ServiceBusMessage(b"body")] * 3),
            other.send_messages(ServiceBusMessage(b"body")),
        )


def test_the_reply_to_a_token_goes_to_who_put_it() -> None:
    request = sections.encode(Message(properties=Properties(message_id="7")))

    reply = sections.decode(memory_server.accepted_token(request))

    assert reply.properties is not None
    assert reply.properties.correlation_id == "7"
    assert isinstance(reply.application_properties, dict)
    assert reply.application_properties["status-code"] == 202


def test_a_send_may_take_what_the_sdk_takes_and_some_more_than_a_bare_commit() -> None:
    # Milliseconds: 1 in memory, 3 bare, of which 0.5 are the way to the front end and back.
    found = sdk.limit_row([0.001] * 3, [0.003] * 3, [0.000_5] * 3)

    assert found.values == [pytest.approx(1 + 1.6 * 2.5)]
    assert found.title == "limit: 1.00 + 1.6 x (3.00 bare - 0.50 round trip)"


def test_marks_find_the_rows_of_amqp() -> None:
    rows = [
        Row(sdk.BUS, "sdk_single_p50", "", "ms", [3.0]),
        Row(sdk.BUS, sdk.LIMIT, "", "ms", [4.0]),
        Row(sdk.BUS, sdk.SENDERS, "", "/s", [95.0]),
        Row(sdk.MEMORY, sdk.SENDERS, "", "/s", [100.0]),
        Row(measure.SYSTEM, "amqp_in_flat_cpu", "", "µs CPU", [61.0]),
        Row(measure.SYSTEM, "amqp_out_flat_cpu", "", "µs CPU", [75.0]),
    ]

    found = {each.mark.figure[1]: each.met for each in marks.judge(rows) if each.met is not None}

    assert found == {
        "sdk_single_p50": True,
        "sdk_senders": True,
        "amqp_in_flat_cpu": False,
        "amqp_out_flat_cpu": True,
    }
