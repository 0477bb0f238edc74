"""Order by key, queues that come back with another partitioning, and who owns which file."""

import time
from collections import defaultdict
from pathlib import Path

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import DiskLowError
from bendybus.domain.limits import Tier
from tests.integration.processes import Bus, eventually

pytestmark = pytest.mark.xdist_group("keys and stores")


def received(client: ServiceBusClient, name: str, count: int) -> list[tuple[str | None, int]]:
    """Receive and complete so many messages; return their keys and bodies as they came."""
    found: list[tuple[str | None, int]] = []
    with client.get_queue_receiver(name) as receiver:
        while len(found) < count:
            messages = receiver.receive_messages(7, max_wait_time=30)
            assert messages, f"{len(found)} of {count} came"
            receiver.complete_messages(messages)
            found += [(message.partition_key, int(str(message))) for message in messages]
    return found


@pytest.mark.requirement("R43")
def test_messages_of_a_key_come_in_the_order_in_which_they_were_sent(bus: Bus) -> None:
    with bus.administration() as administration:
        administration.create_queue("ordered")
    keys = ("alpha", "beta", "gamma", "delta", "epsilon")
    with bus.client() as client:
        with client.get_queue_sender("ordered") as sender:
            for n in range(100):
                sender.send_messages(ServiceBusMessage(str(n), partition_key=keys[n % 5]))

        by_key = defaultdict(list)
        for key, n in received(client, "ordered", 100):
            by_key[key].append(n)

    assert by_key == {key: list(range(i, 100, 5)) for i, key in enumerate(keys)}


@pytest.mark.requirement("R44")
def test_a_partitioned_queue_can_be_deleted_and_created_again_as_a_plain_one(
    tmp_path: Path,
) -> None:
    bus = Bus(tmp_path, partitions=16, tier=Tier.STANDARD)
    try:
        with bus.administration() as administration, bus.client() as client:
            administration.create_queue("again", enable_partitioning=True)
            with client.get_queue_sender("again") as sender:
                sender.send_messages([ServiceBusMessage("old")])

            administration.delete_queue("again")
            administration.create_queue("again", enable_partitioning=False)

            counts = administration.get_queue_runtime_properties("again")
            assert counts.total_message_count == 0
            with client.get_queue_sender("again") as sender:
                for n in range(20):
                    sender.send_messages(ServiceBusMessage(str(n)))
            # One store, so one order.
            assert [n for _, n in received(client, "again", 20)] == list(range(20))
    finally:
        bus.end()


@pytest.mark.requirement("R45")
def test_every_partition_is_a_process_of_its_own_that_alone_has_its_file_open(bus: Bus) -> None:
    pids = {index: process.pid for index, process in bus.partitions.items()}
    assert len(set(pids.values())) == bus.count

    for index, pid in pids.items():
        own = bus.folder / f"partition-{index:02}.db"

        def opened(pid: int = pid) -> set[Path]:
            links = list(Path(f"/proc/{pid}/fd").iterdir())
            files = {link.readlink() for link in links if link.exists()}
            return {path for path in files if path.suffix == ".db"}

        eventually(opened, what="an open file")
        assert opened() == {own}


@pytest.mark.requirement("R328")
def test_a_send_is_answered_at_once_when_no_partition_has_room(tmp_path: Path) -> None:
    bus = Bus(tmp_path, partitions=3, partition_options=(f"--free-space-min-bytes={1 << 60}",))
    try:
        with bus.administration() as administration, bus.client() as client:
            administration.create_queue("orders")
            sender = client.get_queue_sender("orders")
            for message in (
                ServiceBusMessage("anywhere"),
                ServiceBusMessage("there", partition_key="k"),
            ):
                began = time.monotonic()
                with pytest.raises(DiskLowError, match="keeps free"):
                    sender.send_messages(message, timeout=30)
                assert time.monotonic() - began < 2.0
    finally:
        bus.end()
