"""What applications read under the logger `bendybus`."""

import logging
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.domain.errors import PartitionUnavailable, RetryableError
from tests.client.fake_front_end import FakeFrontEnd


async def test_a_stream_that_breaks_and_a_call_that_is_repeated_are_logged(
    fake: FakeFrontEnd, sender: Any, receiver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bendybus")
    fake.break_send_streams = 1
    fake.call_errors = [PartitionUnavailable("partition 3 does not answer.")]

    await sender.send_messages(ServiceBusMessage("b"))
    await receiver.peek_messages()

    said = [record.getMessage() for record in caplog.records if record.name.startswith("bendybus")]
    assert any("send stream to 127.0.0.1" in text and "reconnecting in" in text for text in said)
    assert any("partition 3 does not answer" in text and "retrying in" in text for text in said)


def test_a_bus_that_answered_before_and_is_gone_is_not_taken_for_one_with_tls(
    fake: FakeFrontEnd,
) -> None:
    gone = RetryableError("Socket closed (UNAVAILABLE)")
    with ServiceBusClient.from_connection_string(fake.connection_string) as client:
        connection = client._link.get()
        before = connection.explained(gone).message
        with client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("b"))

        assert "UseDevelopmentEmulator" in before
        assert connection.explained(gone) is gone
