"""Forwarding between partitions, through everything: each message once, whatever dies."""

import functools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from bendybus.client.management import EntityStatus
from bendybus.domain import partitioning
from bendybus.domain.limits import Tier
from tests.certificates import Authority
from tests.integration.processes import Bus, eventually
from tests.integration.secured import SecuredBus

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
PARTITIONS = 4


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus whose processes end during a test, with plain and partitioned entities."""
    made = Bus(tmp_path, partitions=PARTITIONS, tier=Tier.STANDARD)
    yield made
    made.end()


def drained(client: ServiceBusClient, queue: str, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive and delete `count` messages and look for one more."""
    found: list[ServiceBusReceivedMessage] = []
    with client.get_queue_receiver(queue, receive_mode=DELETE) as receiver:
        while len(found) < count:
            got = receiver.receive_messages(max_message_count=500, max_wait_time=30)
            assert got, f"{len(found)} of {count} came"
            found += got
        assert not receiver.receive_messages(max_message_count=500, max_wait_time=1)
    return found


def send(client: ServiceBusClient, queue: str, bodies: Sequence[int]) -> None:
    """Send messages to a plain queue, a third of them without a key."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(
            [ServiceBusMessage(str(n), partition_key=f"k{n}" if n % 3 else None) for n in bodies]
        )


def break_one(bus: Bus, dice: random.Random) -> None:
    """Kill or suspend a partition for a moment."""
    time.sleep(dice.random() * 0.3)
    victim, kills = dice.randrange(PARTITIONS), dice.random() < 0.6
    if kills:
        bus.partitions[victim].kill()
    else:
        bus.partitions[victim].signal(signal.SIGSTOP)
    time.sleep(dice.random() * 1.5)
    if kills:
        bus.start_partition(victim)
    else:
        bus.partitions[victim].signal(signal.SIGCONT)


@pytest.mark.integration
@pytest.mark.requirement("R214")
def test_nothing_is_lost_or_doubled_when_either_side_dies_or_stops(own_bus: Bus) -> None:
    dice = random.Random(2)
    each, rounds = 600, 4
    with own_bus.administration() as administration, own_bus.client() as client:
        # Plain → partitioned → plain: every message may change its partition twice.
        administration.create_queue("end")
        administration.create_queue("middle", enable_partitioning=True, forward_to="end")
        administration.create_queue("start")
        for number in range(rounds):
            administration.update_queue(administration.get_queue("start"), forward_to="")
            send(client, "start", range(number * each, (number + 1) * each))
            administration.update_queue(administration.get_queue("start"), forward_to="middle")
            break_one(own_bus, dice)
        found = Counter(str(message) for message in drained(client, "end", rounds * each))
    assert found == Counter(map(str, range(rounds * each)))


@pytest.mark.integration
@pytest.mark.requirement("R214")
def test_partitions_prove_themselves_to_each_other_also_after_a_rotation(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    old, new = secured.authority, Authority("new authority")
    logs = [secured.bus.folder / f"partition-{index}.log" for index in (0, 1)]

    def reloaded(count: int) -> bool:
        said = [log.read_text().count("new certificates are in use") for log in logs]
        return said == [count, count]

    with secured.administration() as administration, secured.client() as client:
        administration.create_queue("end", requires_duplicate_detection=True)
        administration.create_queue("start", forward_to="end")
        sender = client.get_queue_sender("start")
        sender.send_messages([ServiceBusMessage(str(n), message_id=f"m{n}") for n in range(40)])
        assert len(drained(client, "end", 40)) == 40

        steps = [(old, old.pem + new.pem), (new, old.pem + new.pem), (new, new.pem)]
        for count, (secured.authority, secured.bundle) in enumerate(steps, 1):
            secured.issue("partition")
            secured.issue("frontend")
            eventually(functools.partial(reloaded, count), what="new certificates")
            sender.send_messages(
                [ServiceBusMessage(str(n), message_id=f"{count}-{n}") for n in range(40)]
            )
            assert len(drained(client, "end", 40)) == 40
        assert not any("cannot forward" in log.read_text() for log in logs)

        # Connections that were open all the time prove nothing: they begin again.
        for index in (0, 1):
            secured.bus.partitions[1 - index].kill()
            secured.bus.start_partition(1 - index)
            sender.send_messages(
                [ServiceBusMessage(str(n), message_id=f"again-{index}-{n}") for n in range(40)]
            )
            assert len(drained(client, "end", 40)) == 40


@pytest.fixture(scope="module")
def mixed_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus with plain and partitioned entities, which sets messages aside soon."""
    made = Bus(
        tmp_path_factory.mktemp("mixed"),
        partitions=PARTITIONS,
        tier=Tier.STANDARD,
        partition_options=("--forward-refused-ms=500",),
    )
    yield made
    made.end()


def partition_of(message: ServiceBusReceivedMessage) -> int:
    assert message.sequence_number is not None
    return message.sequence_number >> 48


@pytest.mark.integration
@pytest.mark.requirement("R210", "R214")
def test_the_key_decides_the_partition_at_every_destination_and_order_holds(
    mixed_bus: Bus,
) -> None:
    with mixed_bus.administration() as administration, mixed_bus.client() as client:
        # Plain queue → partitioned topic → subscription → plain queue → partitioned queue.
        administration.create_queue("sorted", enable_partitioning=True)
        administration.create_queue("collected", forward_to="sorted")
        administration.create_topic("news", enable_partitioning=True)
        administration.create_subscription("news", "all", forward_to="collected")
        administration.create_queue("raw", forward_to="news")
        with client.get_queue_sender("raw") as sender:
            sender.send_messages(
                [
                    ServiceBusMessage(
                        str(n),
                        partition_key=f"k{n % 10}",
                        message_id=f"m{n}",
                        application_properties={"n": n},
                    )
                    for n in range(100)
                ]
            )

        found = drained(client, "sorted", 100)

    assert {each.partition_key: partition_of(each) for each in found} == {
        key: partitioning.partition_of(key, PARTITIONS) for key in (f"k{n}" for n in range(10))
    }
    for key in {each.partition_key for each in found}:
        numbers = [int(str(each)) for each in found if each.partition_key == key]
        assert numbers == sorted(numbers)
    assert sorted(each.message_id or "" for each in found) == sorted(f"m{n}" for n in range(100))
    assert all((each.application_properties or {})["n"] == int(str(each)) for each in found)


@pytest.mark.integration
@pytest.mark.requirement("R142", "R214")
def test_dead_letters_go_to_another_partition_as_they_are_and_the_fifth_hop_ends_there(
    mixed_bus: Bus,
) -> None:
    with mixed_bus.administration() as administration, mixed_bus.client() as client:
        administration.create_queue("failures")
        administration.create_queue(
            "work", enable_partitioning=True, forward_dead_lettered_messages_to="failures"
        )
        with client.get_queue_sender("work") as sender:
            for n in range(8):
                sender.send_messages(ServiceBusMessage(f"bad {n}", partition_key=f"k{n}"))
        with client.get_queue_receiver("work", max_wait_time=10) as receiver:
            for _ in range(8):
                receiver.dead_letter_message(
                    next(receiver), reason="Broken", error_description="in two"
                )
        dead = drained(client, "failures", 8)
        assert {
            (each.dead_letter_reason, each.dead_letter_error_description, each.dead_letter_source)
            for each in dead
        } == {("Broken", "in two", "work")}
        assert {each.partition_key for each in dead} == {f"k{n}" for n in range(8)}

        names = [f"hop-{n}" for n in range(6)]
        administration.create_queue(names[-1])
        for at in range(4, -1, -1):
            administration.create_queue(
                names[at], enable_partitioning=bool(at % 2), forward_to=names[at + 1]
            )
        with client.get_queue_sender(names[0]) as sender:
            sender.send_messages(ServiceBusMessage("far", partition_key="k"))
        with client.get_queue_receiver(
            names[4], sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=20
        ) as receiver:
            message = next(receiver)
            assert message.dead_letter_reason == "MaxTransferHopCountExceeded"
            receiver.complete_message(message)


@pytest.mark.integration
@pytest.mark.requirement("R147", "R214")
@pytest.mark.parametrize("how", ["disabled", "missing"])
def test_a_destination_in_another_partition_that_refuses_gets_nothing_and_nothing_is_lost(
    mixed_bus: Bus, how: str
) -> None:
    source, destination = f"start-{how}", f"end-{how}"
    with mixed_bus.administration() as administration, mixed_bus.client() as client:
        end = administration.create_queue(destination)
        administration.create_queue(source, enable_partitioning=True, forward_to=destination)
        if how == "disabled":
            end.status = EntityStatus.DISABLED
            administration.update_queue(end)
        else:
            administration.delete_queue(destination)
        with client.get_queue_sender(source) as sender:
            for n in range(8):
                sender.send_messages(ServiceBusMessage(str(n), partition_key=f"k{n}"))

        def counted() -> bool:
            runtime = administration.get_queue_runtime_properties(source)
            return runtime.transfer_dead_letter_message_count == 8

        eventually(counted)
        with client.get_queue_receiver(
            source, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER, max_wait_time=10
        ) as receiver:
            reasons = {next(receiver).dead_letter_reason for _ in range(8)}
        assert reasons == {"EntityNotFound" if how == "missing" else "EntityDisabled"}
