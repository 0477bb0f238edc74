"""Partitions and front ends that are killed or suspended."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from bendybus.client.exceptions import (
    AzureError,
    HttpResponseError,
    MessageLockLostError,
    ServiceBusError,
)
from bendybus.client.management import EntityAvailabilityStatus
from tests.faults.traffic import drain, key_of, sends
from tests.integration.processes import Bus, eventually


@pytest.mark.requirement("R02")
@pytest.mark.requirement("R21")
@pytest.mark.requirement("R30")
@pytest.mark.requirement("R42")
def test_a_dead_partition_stops_only_what_is_pinned_to_it(bus: Bus) -> None:
    with bus.client(retry_total=0) as client, client.get_queue_sender("orders") as sender:
        for n in range(8):
            sender.send_messages(ServiceBusMessage(f"before-{n}"))
        bus.partitions[2].kill()

        for n in range(24):
            sender.send_messages(ServiceBusMessage(f"during-{n}"))
        sender.send_messages(ServiceBusMessage("other key", partition_key=key_of(1)))
        with pytest.raises(ServiceBusError, match="partition 2"):
            sender.send_messages(ServiceBusMessage("pinned", partition_key=key_of(2)))
        reachable = drain(client, wait_s=0.5)

        bus.start_partition(2)
        eventually(
            lambda: sends(sender, ServiceBusMessage("after", partition_key=key_of(2))),
            what="a keyed send to the partition that returned",
        )
        rest = drain(client)

    assert {f"during-{n}" for n in range(24)} <= set(reachable)
    expected = {f"before-{n}" for n in range(8)} | {"after"}
    assert expected <= set(reachable + rest)
    assert set((reachable + rest).values()) == {1}


@pytest.mark.requirement("R220")
def test_a_dead_partition_stops_of_a_topic_only_what_is_pinned_to_it(bus: Bus) -> None:
    with bus.administration() as administration:
        administration.create_topic("news", enable_partitioning=True)
        administration.create_subscription("news", "all")
    with bus.client(retry_total=0) as client, client.get_topic_sender("news") as sender:
        sender.send_messages(ServiceBusMessage("kept", partition_key=key_of(2)))
        bus.partitions[2].kill()

        for n in range(12):
            sender.send_messages(ServiceBusMessage(f"during-{n}"))
        sender.send_messages(ServiceBusMessage("other key", partition_key=key_of(1)))
        with pytest.raises(ServiceBusError, match="topic 'news': partition 2"):
            sender.send_messages(ServiceBusMessage("pinned", partition_key=key_of(2)))
        with bus.administration() as administration:
            held = administration.get_subscription_runtime_properties("news", "all")
            assert held.active_message_count == 13
            status = administration.get_subscription("news", "all").availability_status
            assert status == EntityAvailabilityStatus.LIMITED
        found: list[tuple[str, int]] = []
        with client.get_subscription_receiver("news", "all", max_wait_time=1) as receiver:
            for message in receiver:
                found.append((str(message), message.partition))
                receiver.complete_message(message)

        bus.start_partition(2)
        with client.get_subscription_receiver("news", "all") as receiver:
            eventually(
                lambda: [str(m) for m in receiver.peek_messages()] == ["kept"],
                what="the message of the partition that returned",
            )

    assert {body for body, _ in found} == {"other key", *(f"during-{n}" for n in range(12))}
    assert {partition for _, partition in found} == {0, 1, 3}
    assert ("other key", 1) in found


@pytest.mark.requirement("R221")
def test_a_dead_partition_stops_only_its_sessions(bus: Bus) -> None:
    with bus.administration() as administration:
        administration.create_queue("calls", requires_session=True, enable_partitioning=True)
    names = [key_of(partition) for partition in range(4)]
    with bus.client(retry_total=0) as client, client.get_queue_sender("calls") as sender:
        for name in names:
            sender.send_messages(ServiceBusMessage(f"to {name}", session_id=name))
            with client.get_queue_receiver("calls", session_id=name) as receiver:
                assert receiver.session is not None
                receiver.session.set_state(name)
        bus.partitions[2].kill()

        with (
            pytest.raises(ServiceBusError, match="partition 2"),
            client.get_queue_receiver("calls", session_id=names[2], max_wait_time=2) as receiver,
        ):
            receiver.receive_messages(max_wait_time=2)
        with client.get_queue_receiver("calls", session_id=names[1]) as receiver:
            assert [str(m) for m in receiver.receive_messages()] == [f"to {names[1]}"]
            assert receiver.session is not None
            assert receiver.session.get_state() == names[1].encode()
        others = set()
        for _ in range(2):
            with client.get_queue_receiver(
                "calls", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=5
            ) as receiver:
                (message,) = receiver.receive_messages(max_wait_time=5)
                receiver.complete_message(message)
                others.add(message.session_id)

    assert others < {names[0], names[1], names[3]}


@pytest.mark.requirement("R34")
@pytest.mark.requirement("R35")
def test_management_reports_a_dead_partition_and_completes_when_it_returns(bus: Bus) -> None:
    bus.partitions[3].kill()
    with bus.administration(retry_total=0) as administration:
        eventually(
            lambda: (
                administration.get_queue_runtime_properties("orders") is not None
                and _availability(administration) == "Limited"
            ),
            what="availability Limited",
        )
        with pytest.raises(HttpResponseError, match=r"partitions \[3\]"):
            administration.create_queue("late")
        queue = administration.get_queue("orders")
        queue.max_delivery_count = 3
        with pytest.raises(HttpResponseError, match=r"\[3\]"):
            administration.update_queue(queue)

        bus.start_partition(3)

        eventually(lambda: _availability(administration) == "Available", what="Available")
        with bus.client() as client, client.get_queue_sender("late") as sender:
            eventually(
                lambda: sends(sender, ServiceBusMessage("x", partition_key=key_of(3))),
                what="the late queue on the partition that was away",
            )
        assert administration.get_queue("orders").max_delivery_count == 3


def _availability(administration: object) -> str:
    queue = administration.get_queue("orders")  # type: ignore[attr-defined]
    return str(getattr(queue.availability_status, "value", queue.availability_status))


@pytest.mark.requirement("R34")
def test_without_the_registrar_nothing_is_changed_and_messages_flow_on(bus: Bus) -> None:
    bus.partitions[0].kill()
    with bus.administration(retry_total=0) as administration, bus.client() as client:
        eventually(
            lambda: _fails(lambda: administration.create_queue("new"), "registrar"),
            what="the refusal that names the registrar",
        )
        with client.get_queue_sender("orders") as sender:
            for n in range(6):
                sender.send_messages(ServiceBusMessage(str(n)))

        assert set(drain(client, wait_s=0.5)) == {str(n) for n in range(6)}


def _fails(action: Callable[[], object], text: str) -> bool:
    try:
        action()
    except AzureError as error:
        return text in str(error)
    return False


@pytest.mark.requirement("R02")
@pytest.mark.requirement("R30")
def test_a_partition_that_stands_still_does_not_stop_keyless_traffic(bus: Bus) -> None:
    with bus.client() as client, client.get_queue_sender("orders") as sender:
        bus.partitions[1].signal(signal.SIGSTOP)
        began = time.monotonic()
        for n in range(40):
            sender.send_messages(ServiceBusMessage(f"m-{n}"))
        took_s = time.monotonic() - began
        bus.partitions[1].signal(signal.SIGCONT)
        bodies = drain(client)

    assert took_s < 15
    assert {f"m-{n}" for n in range(40)} == set(bodies)
    # What it refused after waking up was stored elsewhere, and only there.
    assert set(bodies.values()) == {1}


def test_after_standing_still_locks_are_still_good(bus: Bus) -> None:
    with bus.administration() as administration:
        from datetime import timedelta

        administration.create_queue("short", lock_duration=timedelta(seconds=5))
    with bus.client() as client, client.get_queue_sender("short") as sender:
        sender.send_messages(ServiceBusMessage("a", partition_key=key_of(1)))
        with client.get_queue_receiver("short") as receiver:
            [message] = receiver.receive_messages(1, max_wait_time=5)
            bus.partitions[1].signal(signal.SIGSTOP)
            time.sleep(6)
            bus.partitions[1].signal(signal.SIGCONT)
            eventually(lambda: _settles(receiver, message), within_s=4.5, what="the settlement")


def _settles(receiver: object, message: object) -> bool:
    try:
        receiver.complete_message(message)  # type: ignore[attr-defined]
    except MessageLockLostError:
        raise
    except ServiceBusError:
        return False
    return True


@pytest.mark.slow
def test_kill_9_under_load_loses_nothing_acknowledged_and_returns_nothing_completed(
    bus: Bus,
) -> None:
    acknowledged: set[str] = set()
    received: Counter[str] = Counter()
    completed: set[int] = set()
    returned: list[int] = []
    stop = threading.Event()

    def send() -> None:
        with bus.client() as client, client.get_queue_sender("orders") as sender:
            n = 0
            while not stop.is_set():
                names = [f"{n + i}" for i in range(10)]
                n += 10
                try:
                    sender.send_messages([ServiceBusMessage(name) for name in names], timeout=20)
                except ServiceBusError:
                    continue
                acknowledged.update(names)
                stop.wait(0.02)

    def receive() -> None:
        quiet = 0
        # Without retries: what could not be completed comes again, as it would to anybody.
        with (
            bus.client(retry_total=0) as client,
            client.get_queue_receiver("orders") as receiver,
        ):
            while quiet < 4:
                try:
                    messages = receiver.receive_messages(50, max_wait_time=1)
                except ServiceBusError:
                    continue
                quiet = quiet + 1 if stop.is_set() and not messages else 0
                received.update(map(str, messages))
                returned.extend(
                    m.sequence_number for m in messages if m.sequence_number in completed
                )
                for message in messages:
                    try:
                        receiver.complete_message(message)
                    except ServiceBusError:
                        continue
                    completed.add(message.sequence_number or 0)

    threads = [threading.Thread(target=task) for task in (send, receive, receive)]
    for thread in threads:
        thread.start()

    def goes_on() -> None:
        wanted = len(acknowledged) + 50, len(completed) + 20
        eventually(lambda: len(acknowledged) >= wanted[0] and len(completed) >= wanted[1])

    for index in (2, 0, 3):
        goes_on()
        bus.partitions[index].kill()
        goes_on()
        bus.start_partition(index)
    goes_on()
    stop.set()
    for thread in threads:
        thread.join(60)

    assert not acknowledged - received.keys()
    assert not returned


def test_killing_the_front_end_loses_nothing_that_was_not_handed_over(bus: Bus) -> None:
    from bendybus.client import ServiceBusReceiveMode

    with bus.client() as client:
        with client.get_queue_sender("orders") as sender:
            for n in range(40):
                sender.send_messages(ServiceBusMessage(str(n)))
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver("orders", receive_mode=mode) as receiver:
            got = Counter(str(m) for m in receiver.receive_messages(1, max_wait_time=5))
            # The front end holds a message of every other partition ready.
            bus.front_end.kill()
            bus.start_front_end()
            while messages := receiver.receive_messages(10, max_wait_time=2):
                got.update(map(str, messages))

    assert got == {str(n): 1 for n in range(40)}
