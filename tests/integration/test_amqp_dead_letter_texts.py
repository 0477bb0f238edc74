"""Reasons of dead letters that are longer than one may be are cut, since a refusal loses them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from azure.servicebus import ServiceBusMessage

from bendybus.domain import limits
from tests.integration.amqp import AmqpBus, take

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R568")]
MOST = limits.DEAD_LETTER_TEXT_CHARS_MAX
TRACE = "java.lang.IllegalStateException: \u00fc\n\tat Route.process(Route.java:1)\n" * 400


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(Path(tmp_path_factory.mktemp("bus")), partitions=1)
    with made.administration() as administration:
        for name in ("link", "deferred"):
            administration.create_queue(name)
    yield made
    made.end()


def texts_of(client: Any, queue: str) -> tuple[str, str]:
    with client.get_queue_receiver(queue, sub_queue="deadletter") as receiver:
        [dead] = take(receiver, 1)
        receiver.complete_message(dead)
        return dead.dead_letter_reason, dead.dead_letter_error_description


@pytest.mark.parametrize("length", [1, 4], ids=["in one frame", "in a frame that is too large"])
@pytest.mark.parametrize("queue", ["link", "deferred"])
def test_a_whole_stack_trace_is_cut(bus: AmqpBus, queue: str, length: int) -> None:
    """On the link of the receiver; a deferred message is settled through $management.

    SDKs write a disposition as one frame, even one that is larger than they may send.
    """
    trace = TRACE * length
    with bus.sdk() as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("one"))
        with client.get_queue_receiver(queue) as receiver:
            [message] = take(receiver, 1)
            if queue == "deferred":
                receiver.defer_message(message)
                [message] = receiver.receive_deferred_messages([message.sequence_number])
            assert isinstance(message.lock_token, UUID)

            receiver.dead_letter_message(message, reason=trace, error_description=trace)

        assert texts_of(client, queue) == (TRACE[:MOST], TRACE[:MOST])
