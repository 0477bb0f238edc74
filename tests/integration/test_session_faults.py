"""Sessions through the deaths of partitions and front ends, and with many receivers."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bendybus.client import NEXT_AVAILABLE_SESSION, aio
from bendybus.client.exceptions import (
    OperationTimeoutError,
    OutcomeUnknownError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from bendybus.domain import partitioning
from tests.integration.processes import Bus, eventually
from tests.integration.test_sessions import accept, bodies, send

PARTITIONS = 2


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus whose processes end during a test, with the queue `orders`."""
    made = Bus(tmp_path, partitions=PARTITIONS)
    with made.administration() as administration:
        administration.create_queue("orders", requires_session=True, lock_duration="PT30S")
    yield made
    made.end()


def name_in(partition: int) -> str:
    """Return the name of a session that lives in a partition."""
    names = (f"s{number}" for number in range(100))
    return next(n for n in names if partitioning.partition_of(n, PARTITIONS) == partition)


@pytest.mark.requirement("R105")
def test_a_restart_of_its_partition_ends_a_session_and_no_other_one(own_bus: Bus) -> None:
    one, other = name_in(0), name_in(1)
    with own_bus.client() as client:
        for name in (one, other):
            send(client, "orders", name, "0", "1")
        first, second = accept(client, "orders", one), accept(client, "orders", other)
        first.receive_messages(1)
        [kept] = second.receive_messages(1)

        own_bus.partitions[0].kill()
        own_bus.start_partition(0)

        def lost() -> bool:
            try:
                first.receive_messages(1, max_wait_time=1)
            except SessionLockLostError:
                return True
            except ServiceBusError:
                pass
            return False

        eventually(lost, what="SessionLockLostError")
        second.complete_message(kept)
        assert bodies(second.receive_messages(1)) == ["1"]
        # A restart forgets the delivery, and loses nothing.
        with accept(client, "orders", one, max_wait_time=30) as again:
            messages: list[Any] = []
            while len(messages) < 2:
                messages += again.receive_messages(2, max_wait_time=30)
            assert bodies(messages) == ["0", "1"]


# Takes one message of a session and waits, with its session's lock and its message's.
HOLDER = """
import sys, time
from bendybus.client import ServiceBusClient
with ServiceBusClient.from_connection_string(sys.argv[1]) as client:
    receiver = client.get_queue_receiver("orders", session_id="s", max_wait_time=30)
    [message] = receiver.receive_messages(1)
    print("holds", flush=True)
    time.sleep(120)
"""


@pytest.mark.requirement("R105")
def test_a_client_that_is_killed_keeps_its_session_until_its_lock_ends_and_its_delivery_counts(
    own_bus: Bus,
) -> None:
    with own_bus.client() as client, own_bus.administration() as administration:
        properties = administration.get_queue("orders")
        properties.lock_duration = "PT5S"
        administration.update_queue(properties)
        send(client, "orders", "s", "0")
        command = [sys.executable, "-c", HOLDER, own_bus.connection_string]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            since = time.monotonic()
            holder.kill()

        with pytest.raises(SessionCannotBeLockedError):
            accept(client, "orders", "s")
        with accept(client, "orders", NEXT_AVAILABLE_SESSION, max_wait_time=30) as receiver:
            held_s = time.monotonic() - since
            [message] = receiver.receive_messages(1, max_wait_time=30)

        assert 4 < held_s < 15
        assert (str(message), message.delivery_count) == ("0", 1)


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("prefetch", [0, 20])
def test_a_session_goes_on_in_order_through_the_deaths_of_front_ends(
    own_bus: Bus, prefetch: int
) -> None:
    name, count = name_in(1), 400
    got: list[str] = []
    with own_bus.administration() as administration:
        # Its lock outlives the deaths of three front ends on a slow machine.
        administration.create_queue("long", requires_session=True, lock_duration="PT5M")
    with own_bus.client() as client:
        for start in range(0, count, 100):
            send(client, "long", name, *[f"{n}" for n in range(start, start + 100)])
        with accept(client, "long", name, prefetch_count=prefetch) as receiver:
            deaths = 0
            while len(got) < count:
                for message in receiver.receive_messages(7, max_wait_time=30):
                    try:
                        receiver.complete_message(message)
                    except OutcomeUnknownError:
                        continue
                    got.append(str(message))
                if len(got) > 100 * (deaths + 1) and deaths < 3:
                    deaths += 1
                    own_bus.front_end.kill()
                    own_bus.start_front_end()
    # What a settlement of unknown outcome is about may be missing here; the order is not.
    numbers = [int(each) for each in got]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == len(numbers)


@pytest.mark.requirement("R102", "R105")
def test_a_front_end_that_dies_while_sessions_are_handed_over_keeps_none(own_bus: Bus) -> None:
    with own_bus.client(retry_total=20) as client:
        names = [f"s{number}" for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            waiting = [
                pool.submit(accept, client, "orders", NEXT_AVAILABLE_SESSION, max_wait_time=50)
                for _ in names
            ]
            time.sleep(0.5)

            def kill() -> None:
                own_bus.front_end.kill()
                own_bus.start_front_end()

            killer = threading.Thread(target=kill)
            killer.start()
            with own_bus.client(retry_total=20) as sending:
                for name in names:
                    send(sending, "orders", name, name)
            killer.join()
            # An offer that the dead front end had is free again after 2 seconds at most; a session
            # that it had confirmed, and no client was told of, when its lock ends.
            receivers = [each.result() for each in waiting]
        found = [r.session.session_id or "" for r in receivers if r.session is not None]
        assert sorted(found) == names
        for receiver in receivers:
            receiver.close()


@pytest.mark.requirement("R102")
async def test_a_thousand_receivers_wait_for_a_session_and_each_gets_its_own(own_bus: Bus) -> None:
    count, served = 1_000, 100
    async with aio.ServiceBusClient(own_bus.front_end_address, ("n", "k"), use_tls=False) as client:
        receivers = [
            client.get_queue_receiver("orders", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=12)
            for _ in range(count)
        ]
        opened: list[str] = []

        async def wait(receiver: Any) -> None:
            try:
                await receiver.__aenter__()
            except OperationTimeoutError:
                return
            opened.append(receiver.session.session_id)

        waiting = asyncio.gather(*map(wait, receivers))
        await asyncio.sleep(3)
        with own_bus.client() as sending:
            names = [f"s{number}" for number in range(served)]
            # Together: one by one they take longer than receivers wait, on a machine that is busy.
            await asyncio.gather(
                *(asyncio.to_thread(send, sending, "orders", name, "x") for name in names)
            )
        await waiting
        assert sorted(opened) == sorted(f"s{n}" for n in range(served))


class Work:
    """Senders and receivers of the queue `quick`, and what became of its messages.

    Receivers take messages one by one and give a session up after any failure. So once a message
    is completed, nothing before it in its session may be completed any more.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.names = [f"s{number}" for number in range(6)]
        self.stored: set[str] = set()
        self.done: set[str] = set()
        # By session: the numbers of what was completed, in the order of that.
        self.completed: dict[str, list[int]] = {name: [] for name in self.names}
        self.stop = threading.Event()

    def client(self) -> Any:
        """Return a client that is not patient."""
        return self.bus.client(retry_total=2, retry_backoff_factor=0.1)

    def send(self, random: Random) -> None:
        """Send messages of all sessions."""
        number = 0
        with self.client() as client:
            while number < 1_500:
                name = random.choice(self.names)
                listed = [f"{name}/{number + offset}" for offset in range(random.randint(1, 5))]
                number += len(listed)
                try:
                    send(client, "quick", name, *listed)
                except ServiceBusError:
                    continue
                self.stored.update(listed)
                time.sleep(0.01)

    def receive(self, random: Random) -> None:
        """Take one session after the other."""
        with self.client() as client:
            while not self.stop.is_set():
                receiver = client.get_queue_receiver(
                    "quick",
                    session_id=NEXT_AVAILABLE_SESSION,
                    max_wait_time=2,
                    prefetch_count=random.choice([0, 5]),
                )
                try:
                    with receiver:
                        for _ in range(random.randint(1, 40)):
                            if not self._some(receiver, random):
                                break
                except ServiceBusError:
                    time.sleep(0.05)

    def _some(self, receiver: Any, random: Random) -> bool:
        """Work some messages off; False: the session is to be given up."""
        for message in receiver.receive_messages(random.randint(1, 3)):
            if random.random() < 0.2:
                receiver.abandon_message(message)
                # Those behind it are not touched: they would overtake it.
                return False
            try:
                receiver.complete_message(message)
            except OutcomeUnknownError:
                self.done.add(str(message))
                raise
            self.completed[str(message.session_id)].append(message.sequence_number)
            self.done.add(str(message))
        return True


@pytest.mark.requirement("R103", "R104", "R105")
def test_sessions_stay_in_order_and_lose_nothing_while_processes_die(own_bus: Bus) -> None:
    with own_bus.administration() as administration:
        administration.create_queue("quick", requires_session=True, lock_duration="PT5S")
    work, choose = Work(own_bus), Random(1)
    threads = [threading.Thread(target=work.receive, args=(Random(n),)) for n in range(4)]
    sender = threading.Thread(target=work.send, args=(Random(9),))
    for thread in (*threads, sender):
        thread.start()
    for _ in range(3):
        time.sleep(1.5)
        if choose.random() < 0.5:
            own_bus.front_end.kill()
            own_bus.start_front_end()
        else:
            partition = choose.randrange(PARTITIONS)
            own_bus.partitions[partition].kill()
            own_bus.start_partition(partition)
    sender.join(60)
    # Sessions of receivers that are gone are free when their locks end.
    eventually(lambda: work.stored <= work.done, what="every message")
    work.stop.set()
    for thread in threads:
        thread.join(60)

    for name, numbers in work.completed.items():
        assert numbers == sorted(set(numbers)), name


def test_what_is_deleted_as_it_is_received_comes_in_order(own_bus: Bus) -> None:
    expected = [f"{number}" for number in range(50)]
    got: list[str] = []
    with own_bus.client() as client:
        send(client, "orders", "s", *expected)
        with accept(client, "orders", "s", receive_mode="receiveanddelete") as receiver:
            while len(got) < len(expected):
                got += bodies(receiver.receive_messages(7, max_wait_time=10))
        with accept(client, "orders", "s", max_wait_time=1) as receiver:
            assert receiver.receive_messages() == []
    assert got == expected
