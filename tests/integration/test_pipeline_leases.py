"""Leases of drains, through a bus of real processes: who has one, and who lost it."""

import contextlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bendybus.client import (
    DrainLease,
    PartitionBrowser,
    ServiceBusClient,
    ServiceBusMessage,
)
from bendybus.client.exceptions import (
    DrainLeaseLostError,
    MessagingEntityDrainedError,
    ServiceBusError,
)
from tests.integration.processes import Bus, eventually


@pytest.fixture
def queue(client: ServiceBusClient, new_queue: Callable[..., str]) -> str:
    """A partitioned queue of 40 messages."""
    name = new_queue(enable_partitioning=True)
    with client.get_queue_sender(name) as sender:
        for number in range(40):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=f"k{number % 8}"))
    return name


@pytest.fixture
def browser(client: ServiceBusClient, queue: str) -> PartitionBrowser:
    return client.get_partition_browser(queue_name=queue)


@pytest.mark.requirement("R281")
def test_a_second_drain_is_refused_and_one_of_the_same_owner_takes_over(
    browser: PartitionBrowser,
) -> None:
    first = browser.acquire_drain_lease("capture", duration=30)
    with pytest.raises(MessagingEntityDrainedError, match="'capture'"):
        browser.acquire_drain_lease("other", duration=30, timeout=1)

    second = browser.acquire_drain_lease("capture", duration=30)

    assert second.epoch == first.epoch + 1
    for stale in (first.renew, lambda: first.settle_up_to(0, 1)):
        with pytest.raises(DrainLeaseLostError, match="epoch"):
            stale()
    found = browser.describe_partitions().partitions
    assert sum(each.active_message_count for each in found) == 40


@pytest.mark.requirement("R281")
def test_the_lease_of_a_pipeline_that_died_is_waited_for(bus: Bus, queue: str) -> None:
    with bus.client(retry_total=0) as client:
        browser = client.get_partition_browser(queue_name=queue)
        died = browser.acquire_drain_lease("died", duration=5)

        lease = browser.acquire_drain_lease("other", duration=30, timeout=30)

        assert lease.epoch == died.epoch + 1
        lease.release()


@pytest.mark.requirement("R281")
def test_the_lease_of_a_queue_that_was_made_again_is_lost(
    bus: Bus, client: ServiceBusClient, browser: PartitionBrowser, queue: str
) -> None:
    lease = browser.acquire_drain_lease("capture", duration=30)
    with bus.administration() as administration:
        administration.delete_queue(queue)
        administration.create_queue(queue, enable_partitioning=True)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a")] * 8)

    with pytest.raises(DrainLeaseLostError, match="start this one again"):
        lease.renew()

    with pytest.raises(DrainLeaseLostError):
        lease.settle_up_to(1, (1 << 48) + 8)
    with client.get_queue_receiver(queue) as receiver:
        assert receiver.receive_messages(1, max_wait_time=10)


@pytest.mark.requirement("R281")
def test_a_renewed_lease_that_was_never_granted_disturbs_no_drain(
    client: ServiceBusClient, browser: PartitionBrowser, queue: str
) -> None:
    lease = browser.acquire_drain_lease("capture", duration=30)
    forged = DrainLease(browser, "other", 30, epoch=lease.epoch + 7)

    with pytest.raises(DrainLeaseLostError):
        forged.renew()

    lease.renew()
    assert lease.ready == {0, 1, 2, 3}


@pytest.mark.requirement("R281")
def test_a_lease_is_renewed_elsewhere_while_the_registrar_stands_still(tmp_path: Path) -> None:
    made = Bus(tmp_path, partitions=2)
    try:
        with made.administration() as administration, made.client() as client:
            administration.create_queue("orders", enable_partitioning=True)
            lease = client.get_partition_browser(queue_name="orders").acquire_drain_lease(
                "capture", duration=8
            )
            made.partitions[0].signal(signal.SIGSTOP)
            for _ in range(3):
                with contextlib.suppress(ServiceBusError):
                    lease.renew(timeout=4)
            assert lease.settle_up_to(1, 1 << 48, timeout=5) == 0
            made.partitions[0].signal(signal.SIGCONT)

            def renewed() -> bool:
                lease.renew()
                return lease.ready == {0, 1}

            eventually(renewed, what="the lease of the registrar")
    finally:
        made.end()


@pytest.mark.requirement("R286")
def test_a_drain_goes_on_when_the_registrar_was_restored_from_an_older_copy(
    tmp_path: Path,
) -> None:
    bus = Bus(tmp_path / "bus", partitions=2)

    def move(source: Path, target: Path) -> None:
        bus.partitions[0].kill()
        for file in target.glob("partition-00.db*"):
            file.unlink()
        for file in source.glob("partition-00.db*"):
            shutil.copy(file, target)
        bus.start_partition(0)

    try:
        with bus.administration() as administration:
            administration.create_queue("orders")
        copy = tmp_path / "copy"
        copy.mkdir()
        move(bus.folder, copy)
        with bus.client() as client, client.get_partition_browser(queue_name="orders") as browser:
            for _ in range(5):
                before = browser.acquire_drain_lease("capture", duration=5)
                before.release()
            move(copy, bus.folder)

            lease = browser.acquire_drain_lease("capture", duration=5)

        assert lease.epoch == before.epoch + 1
        assert lease.ready == {0, 1}
    finally:
        bus.end()
