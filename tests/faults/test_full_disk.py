"""Partitions whose disk fills up."""

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.exceptions import ServiceBusError
from tests.faults.traffic import drain, key_of, sends
from tests.integration.processes import Bus, eventually

MakeBus = Callable[..., Bus]


def _outcome(sender: object, message: ServiceBusMessage, *, refusal: str) -> str:
    """Send once; say whether it was stored, refused, or is of unknown outcome."""
    try:
        sender.send_messages(message)  # type: ignore[attr-defined]
    except ServiceBusError as error:
        no_room = "takes no messages" in error.message or "no room" in error.message
        definite = no_room and refusal in error.message
        return "refused" if definite else "unknown"
    return "stored"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a small tmpfs; skip where that is not allowed."""
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    done = subprocess.run(options, capture_output=True, text=True, timeout=10, check=False)
    if done.returncode:
        if os.environ.get("CI"):
            raise AssertionError(f"CI must be able to mount a tmpfs: {done.stderr}")
        pytest.skip(f"mounting a tmpfs is not allowed here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily: a test that failed may have left a process on it.
        subprocess.run(["umount", "--lazy", str(folder)], timeout=10, check=False)


def move_partition(bus: Bus, folder: Path) -> None:
    """Go on with partition 1 in `folder`."""
    bus.partitions[1].end()
    # With its log: it was killed, and without it the file is empty, which is refused.
    for name in ("partition-01.db", "partition-01.db-wal", "partition-01.reserve"):
        (folder / name).write_bytes((bus.folder / name).read_bytes())
    bus.start_partition(1, data=folder)


def test_a_full_disk_refuses_sends_lets_receivers_make_room_and_recovers(
    make_bus: MakeBus, tmp_path: Path
) -> None:
    options = ("--free-space-min-bytes=4194304", "--reserve-bytes=2097152")
    bus = make_bus(partitions=2, partition_options=options)
    with bus.administration() as administration:
        administration.create_queue("orders")
    with small_disk(tmp_path / "small", 48) as small:
        move_partition(bus, small)
        key = key_of(1, 2)
        body = b"x" * 200_000
        with bus.client(retry_total=0) as client, client.get_queue_sender("orders") as sender:
            # Repeated while the partition comes up, so perhaps stored twice: not counted.
            eventually(lambda: sends(sender, ServiceBusMessage("first", partition_key=key)))
            outcomes: Counter[str] = Counter()
            while outcomes["refused"] == 0 and outcomes.total() < 600:
                message = ServiceBusMessage(body, partition_key=key)
                outcomes[_outcome(sender, message, refusal="partition 1")] += 1
            assert outcomes["stored"] > 10
            assert outcomes["refused"] == 1
            # Keyless traffic goes on meanwhile.
            sender.send_messages(ServiceBusMessage("keyless"))

            drained = drain(client)

            # What was refused is not there; what had an unknown outcome may be.
            stored, unknown = outcomes["stored"], outcomes["unknown"]
            assert stored <= drained[body.decode()] <= stored + unknown
            assert drained["keyless"] == 1
            assert drained.keys() == {"first", body.decode(), "keyless"}
            eventually(
                lambda: sends(sender, ServiceBusMessage("again", partition_key=key)),
                what="a send after room was made, without a restart",
            )
        bus.partitions[1].end()


def test_something_else_that_fills_the_disk_does_not_stop_settling(
    make_bus: MakeBus, tmp_path: Path
) -> None:
    options = ("--free-space-min-bytes=1048576", "--reserve-bytes=2097152")
    bus = make_bus(partitions=2, partition_options=options)
    with bus.administration() as administration:
        administration.create_queue("orders")
    with small_disk(tmp_path / "small", 32) as small:
        move_partition(bus, small)
        key = key_of(1, 2)
        with bus.client() as client, client.get_queue_sender("orders") as sender:
            for _ in range(50):
                eventually(
                    lambda: sends(sender, ServiceBusMessage(b"y" * 1_000, partition_key=key))
                )
            _fill(small / "ballast")

            assert sum(drain(client).values()) == 50

            (small / "ballast").unlink()
            eventually(
                lambda: sends(sender, ServiceBusMessage("again", partition_key=key)),
                what="a send after the ballast is gone",
            )
        bus.partitions[1].end()


def test_a_partition_killed_on_a_full_disk_opens_its_file_there(
    make_bus: MakeBus, tmp_path: Path
) -> None:
    options = ("--free-space-min-bytes=1048576", "--reserve-bytes=2097152")
    bus = make_bus(partitions=2, partition_options=options)
    with bus.administration() as administration:
        administration.create_queue("orders")
    with small_disk(tmp_path / "small", 32) as small:
        move_partition(bus, small)
        key = key_of(1, 2)
        with bus.client() as client, client.get_queue_sender("orders") as sender:
            eventually(lambda: sends(sender, ServiceBusMessage(b"first", partition_key=key)))
            batch = [ServiceBusMessage(b"y" * 1_000, partition_key=key) for _ in range(50)]
            sender.send_messages(batch)
            bus.partitions[1].end()
            _fill(small / "ballast")

            bus.start_partition(1, data=small)

            eventually(lambda: _received(client, 51), what="all that was stored")
        bus.partitions[1].end()


def _received(client: ServiceBusClient, count: int) -> bool:
    """Return whether `count` messages came; raises for one more, false while some are away."""
    try:
        bodies = drain(client, wait_s=1.0)
    except ServiceBusError:
        return False
    assert bodies.total() in (0, count)
    return bodies.total() == count


def _fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(b"\0" * 65_536)
    except OSError:
        pass


@pytest.mark.requirement("R42")
def test_a_partition_killed_while_it_dead_letters_large_messages_loses_and_doubles_none(
    bus: Bus,
) -> None:
    names = [f"{n:03d}" for n in range(60)]
    with bus.client() as client, client.get_queue_sender("orders") as sender:
        for name in names:
            body = name + "x" * 500_000
            sender.send_messages(ServiceBusMessage(body, partition_key=key_of(2)))

    done = asyncio.run(_dead_letter_until_killed(bus, len(names)))

    bus.start_partition(2)
    with bus.client() as client, client.get_queue_sender("orders") as sender:
        mark = ServiceBusMessage("end", partition_key=key_of(2))
        eventually(lambda: sends(sender, mark), what="the partition that returned")
        dead: Counter[str] = Counter()
        with client.get_queue_receiver("orders", sub_queue="deadletter") as receiver:
            while messages := receiver.receive_messages(100, max_wait_time=5):
                dead.update(str(message)[:3] for message in messages)
                receiver.complete_messages(messages)
        left = Counter(body[:3] for body in drain(client, wait_s=5).elements())
    # What was said to be dead-lettered is, and everything is somewhere, once.
    assert done <= set(dead)
    assert dead + left == Counter([*names, "end"])


async def _dead_letter_until_killed(bus: Bus, count: int) -> set[str]:
    """Dead-letter everything of partition 2 at once, kill it on the way; return what was done."""
    async with (
        aio.ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client,
        client.get_queue_receiver("orders") as receiver,
    ):
        messages: list[Any] = []
        while len(messages) < count:
            messages += await receiver.receive_messages(count, max_wait_time=30)
        settling = [
            asyncio.ensure_future(receiver.dead_letter_message(message)) for message in messages
        ]
        with bus.administration() as administration:
            await asyncio.to_thread(
                eventually,
                lambda: (
                    administration.get_queue_runtime_properties("orders").dead_letter_message_count
                ),
                what="a first dead letter",
            )
        bus.partitions[2].kill()
        outcomes = await asyncio.gather(*settling, return_exceptions=True)
    return {
        str(message)[:3]
        for message, outcome in zip(messages, outcomes, strict=True)
        if outcome is None
    }
