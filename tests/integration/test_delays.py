"""`abandon_message(delay=…)`, with real processes."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import InvalidArgumentError, InvalidOperationError
from tests.integration.processes import Bus, eventually

DELAY_S = 6


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus that a test breaks."""
    made = Bus(tmp_path, partitions=2)
    yield made
    made.end()


def bodies(client: ServiceBusClient, queue: str, wait_s: float = 1.0) -> list[tuple[str, int]]:
    """Receive and complete what can be received; return (body, delivery count) of each."""
    found = []
    with client.get_queue_receiver(queue) as receiver:
        while batch := receiver.receive_messages(100, wait_s):
            found += [(str(each), each.delivery_count or 0) for each in batch]
            receiver.complete_messages(batch)
    return sorted(found)


@pytest.mark.requirement("R226", "R227")
def test_a_message_that_is_abandoned_with_a_delay_waits_also_through_a_restart(
    own_bus: Bus,
) -> None:
    with own_bus.administration() as administration:
        administration.create_queue("orders")
    with own_bus.client() as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage("later"), ServiceBusMessage("never mind")])
        with client.get_queue_receiver("orders") as receiver:
            while len(found := receiver.receive_messages(2, 5)) < 2:
                receiver.release_messages(found)
            began_s = time.monotonic()
            for message in found:
                delay = timedelta(seconds=DELAY_S) if str(message) == "later" else None
                receiver.abandon_message(message, delay=delay)
        with client.get_queue_receiver("orders") as receiver:
            assert [str(each) for each in receiver.peek_messages(10)] == ["later", "never mind"]
        [partition] = {message.partition for message in found}
        own_bus.partitions[partition].kill()
        own_bus.start_partition(partition)
        came: dict[str, tuple[int, float]] = {}

        def all_came() -> bool:
            for body, count in bodies(client, "orders"):
                came[body] = (count, time.monotonic() - began_s)
            return len(came) == 2

        eventually(all_came, what="both messages, one after its delay")

    assert {body: count for body, (count, _) in came.items()} == {"later": 1, "never mind": 1}
    assert came["later"][1] >= DELAY_S


@pytest.mark.requirement("R228")
def test_where_there_are_no_delays_they_are_refused(bus: Bus, client: ServiceBusClient) -> None:
    with bus.administration() as administration:
        administration.create_queue("delays", requires_session=True)
        administration.create_queue("no-delays")
    with client.get_queue_sender("delays") as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="s"))
    with client.get_queue_sender("no-delays") as sender:
        sender.send_messages(ServiceBusMessage("x", partition_key="s"))

    with client.get_queue_receiver("delays", session_id="s") as receiver:
        (message,) = receiver.receive_messages(1, 5)
        with pytest.raises(InvalidOperationError, match="not supported on session-enabled"):
            receiver.abandon_message(message, delay=1)
        receiver.complete_message(message)
    with client.get_queue_receiver("no-delays") as receiver:
        (message,) = receiver.receive_messages(1, 5)
        for wrong, says in ((0, "greater than 0"), (8 * 86_400, "at most 7 days")):
            with pytest.raises(InvalidArgumentError, match=says):
                receiver.abandon_message(message, delay=wrong)
        tx = client.transaction()
        with pytest.raises(InvalidArgumentError, match="not allowed in a transaction"):
            receiver.abandon_message(message, delay=1, tx=tx)
        receiver.complete_message(message)
