"""Clients on a line that is mute for a while: late messages are those of others by now."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from tests.chaos.lines import Lines
from tests.integration.processes import Bus


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus of one partition with the queue `orders`, whose locks are short."""
    made = Bus(tmp_path, partitions=1)
    with made.administration() as administration:
        administration.create_queue("orders", lock_duration="PT5S")
    yield made
    made.end()


@pytest.mark.requirement("R321")
def test_a_message_whose_lock_ended_on_a_mute_line_is_not_handed_over(own_bus: Bus) -> None:
    lines = Lines()
    line = lines.add("client", own_bus.front_end_address)
    there = own_bus.connection_string.replace(own_bus.front_end_address, line.address)
    got: list[int] = []
    with (
        own_bus.client() as other,
        ServiceBusClient.from_connection_string(there) as client,
        client.get_queue_receiver("orders") as receiver,
        other.get_queue_receiver("orders") as second,
    ):
        receiver.receive_messages(1, max_wait_time=0.5)

        def receive() -> None:
            got.extend(m.delivery_count or 0 for m in receiver.receive_messages(max_wait_time=20))

        thread = threading.Thread(target=receive)
        thread.start()
        time.sleep(0.5)
        line.hold()
        with other.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("x"))
        # The first receiver has it, and does not hear of it before its lock has ended.
        [message] = second.receive_messages(1, max_wait_time=20)
        assert message.delivery_count == 1
        line.mend()
        thread.join(3)
        assert thread.is_alive()
        assert got == []
        second.abandon_message(message)
        thread.join(25)
    lines.close()

    assert got == [2]
