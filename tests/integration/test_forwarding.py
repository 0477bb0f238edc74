"""Forwarding through everything: client, front end, partitions, files, and their death."""

import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from bendybus.client.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    InvalidOperationError,
    ResourceNotFoundError,
)
from tests.integration.processes import Bus, eventually
from tests.integration.secured import OTHER_KEY, ROOT, SecuredBus, policy

EXAMPLE = Path(__file__).parents[2] / "examples" / "forwarding.py"
DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus whose processes end during a test, and which sets messages aside soon."""
    made = Bus(tmp_path, partitions=2, partition_options=("--forward-refused-ms=500",))
    yield made
    made.end()


def drained(client: ServiceBusClient, queue: str, count: int) -> list[str]:
    """Receive and delete `count` messages; return their bodies."""
    found: list[str] = []
    with client.get_queue_receiver(queue, receive_mode=DELETE) as receiver:
        while len(found) < count:
            got = receiver.receive_messages(max_message_count=500, max_wait_time=20)
            assert got, f"{len(found)} of {count} came"
            found += [str(each) for each in got]
        assert not receiver.receive_messages(max_message_count=500, max_wait_time=1)
    return found


@pytest.mark.integration
@pytest.mark.requirement("R140", "R143", "R144")
def test_messages_go_on_to_another_queue_and_dead_letters_to_a_third(bus: Bus) -> None:
    with bus.administration() as administration, bus.client() as client:
        for name in ("archive", "failures"):
            administration.create_queue(name)
        administration.create_queue("intake", forward_to="archive")
        administration.create_queue("work", forward_dead_lettered_messages_to="failures")
        with client.get_queue_sender("intake") as sender:
            sender.send_messages([ServiceBusMessage(str(i), message_id=f"m{i}") for i in range(20)])
        with client.get_queue_sender("work") as sender:
            sender.send_messages(ServiceBusMessage("bad"))
        with client.get_queue_receiver("work", max_wait_time=10) as receiver:
            [message] = receiver.receive_messages()
            receiver.dead_letter_message(message, reason="Broken")

        with client.get_queue_receiver("archive", max_wait_time=10) as receiver:
            first = next(receiver)
            receiver.complete_message(first)
        assert first.message_id == f"m{first}"
        assert first.enqueued_sequence_number
        assert len(drained(client, "archive", 19)) == 19
        with client.get_queue_receiver("failures", max_wait_time=10) as receiver:
            [dead] = receiver.receive_messages()
            assert (dead.dead_letter_reason, dead.dead_letter_source) == ("Broken", "work")
        for name, sub_queue in (("intake", None), ("work", ServiceBusSubQueue.DEAD_LETTER)):
            with pytest.raises(InvalidOperationError, match="auto-forwarding enabled"):
                client.get_queue_receiver(name, sub_queue=sub_queue).receive_messages(
                    max_wait_time=1
                )
        shown = administration.get_queue("intake")
        assert shown.forward_to == "archive"


@pytest.mark.integration
@pytest.mark.requirement("R140", "R143")
def test_the_example_works(own_bus: Bus) -> None:
    with own_bus.administration() as administration:
        administration.create_queue("failures")
        administration.create_queue("orders", forward_dead_lettered_messages_to="failures")
        for name in ("shop-a", "shop-b"):
            administration.create_queue(name, forward_to="orders")

    good, reasons = runpy.run_path(str(EXAMPLE))["main"](own_bus.connection_string)

    assert good == ["tea from shop-a", "tea from shop-b"]
    assert reasons == ["orders: empty, from shop-a", "orders: empty, from shop-b"]


@pytest.mark.integration
@pytest.mark.requirement("R148", "R149")
def test_administration_refuses_what_cannot_be_forwarded_to(bus: Bus) -> None:
    with bus.administration() as administration:
        administration.create_queue("end")
        with pytest.raises(ResourceNotFoundError, match="'nowhere'"):
            administration.create_queue("start", forward_to="nowhere")
        start = administration.create_queue("start", forward_to="end")
        with pytest.raises(HttpResponseError, match="messages back"):
            administration.update_queue(administration.get_queue("end"), forward_to="start")
        administration.update_queue(start, forward_to="")
        assert not administration.get_queue("start").forward_to


@pytest.mark.integration
@pytest.mark.requirement("R147")
def test_what_could_not_go_on_is_counted_and_received(own_bus: Bus) -> None:
    with own_bus.administration() as administration, own_bus.client() as client:
        administration.create_queue("gone")
        administration.create_queue("start", forward_to="gone")
        administration.delete_queue("gone")
        with client.get_queue_sender("start") as sender:
            sender.send_messages(ServiceBusMessage("lost?"))

        def counted() -> bool:
            runtime = administration.get_queue_runtime_properties("start")
            return runtime.transfer_dead_letter_message_count == 1

        eventually(counted)
        with client.get_queue_receiver(
            "start", sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER, max_wait_time=10
        ) as receiver:
            [message] = receiver.receive_messages()
            assert message.dead_letter_reason == "EntityNotFound"
            receiver.complete_message(message)


@pytest.mark.integration
@pytest.mark.requirement("R145")
def test_nothing_is_lost_or_doubled_when_partitions_are_killed(own_bus: Bus) -> None:
    count = 4_000
    with own_bus.administration() as administration, own_bus.client() as client:
        administration.create_queue("end")
        administration.create_queue("middle", forward_to="end")
        administration.create_queue("start")
        with client.get_queue_sender("start") as sender:
            for first in range(0, count, 500):
                bodies = map(str, range(first, first + 500))
                sender.send_messages([ServiceBusMessage(each) for each in bodies])

        administration.update_queue(administration.get_queue("start"), forward_to="middle")
        for index, process in list(own_bus.partitions.items()):
            process.kill()
            own_bus.start_partition(index)

        found = Counter(drained(client, "end", count))
    assert found == Counter(map(str, range(count)))


@pytest.mark.integration
@pytest.mark.requirement("R148")
def test_manage_is_needed_on_the_destination_too(tmp_path: Path) -> None:
    own = policy("orders-manager", ["Manage", "Send", "Listen"], [OTHER_KEY], "orders")
    secured = SecuredBus(tmp_path, [ROOT, own])
    try:
        with secured.administration() as administration:
            administration.create_queue("bills")
            administration.create_queue("orders")
        with secured.administration(OTHER_KEY, "orders-manager") as administration:
            orders = administration.get_queue("orders")
            for field in ("forward_to", "forward_dead_lettered_messages_to"):
                with pytest.raises(ClientAuthenticationError, match="bills"):
                    administration.update_queue(orders, **{field: "bills"})
        with secured.administration() as administration:
            administration.update_queue(orders, forward_to="bills")
    finally:
        secured.end()
