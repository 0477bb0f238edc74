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
)
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
