"""Partitions that die, stand still, fill up or lose their file."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.exceptions import MessageLockLostError, ServiceBusError
from bendybus.domain import partitioning
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from tests.integration.processes import Bus, Process, eventually

MakeBus = Callable[..., Bus]


def key_of(partition: int, count: int = 4) -> str:
    """Return a partition key that belongs to a partition."""
    return next(
        key for key in map(str, range(1_000)) if partitioning.partition_of(key, count) == partition
    )


def drain(client: ServiceBusClient, name: str = "orders", *, wait_s: float = 2.0) -> Counter[str]:
    """Receive and complete everything; return how often each body came."""
    bodies: Counter[str] = Counter()
    with client.get_queue_receiver(name) as receiver:
        while messages := receiver.receive_messages(100, max_wait_time=wait_s):
            bodies.update(map(str, messages))
            receiver.complete_messages(messages)
    return bodies


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
            lambda: _sends(sender, ServiceBusMessage("after", partition_key=key_of(2))),
            what="a keyed send to the partition that returned",
        )
        rest = drain(client)

    assert {f"during-{n}" for n in range(24)} <= set(reachable)
    expected = {f"before-{n}" for n in range(8)} | {"after"}
    assert expected <= set(reachable + rest)
    assert set((reachable + rest).values()) == {1}


def _sends(sender: object, message: ServiceBusMessage) -> bool:
    try:
        sender.send_messages(message)  # type: ignore[attr-defined]
    except ServiceBusError:
        return False
    return True


def _outcome(sender: object, message: ServiceBusMessage, *, refusal: str) -> str:
    """Send once; say whether it was stored, refused, or is of unknown outcome."""
    try:
        sender.send_messages(message)  # type: ignore[attr-defined]
    except ServiceBusError as error:
        no_room = "takes no messages" in error.message or "no room" in error.message
        definite = no_room and refusal in error.message
        return "refused" if definite else "unknown"
    return "stored"


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
        with pytest.raises(ServiceBusError, match=r"partitions \[3\]"):
            administration.create_queue("late")
        queue = administration.get_queue("orders")
        queue.max_delivery_count = 3
        with pytest.raises(ServiceBusError, match=r"\[3\]"):
            administration.update_queue(queue)

        bus.start_partition(3)

        eventually(lambda: _availability(administration) == "Available", what="Available")
        with bus.client() as client, client.get_queue_sender("late") as sender:
            eventually(
                lambda: _sends(sender, ServiceBusMessage("x", partition_key=key_of(3))),
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
    except ServiceBusError as error:
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


def test_a_file_deleted_under_a_partition_makes_only_that_one_unhealthy(bus: Bus) -> None:
    (bus.folder / "partition-01.db").unlink()
    with bus.client(retry_total=0) as client, client.get_queue_sender("orders") as sender:
        for n in range(12):
            sender.send_messages(ServiceBusMessage(str(n)))
        with pytest.raises(ServiceBusError, match="partition 1"):
            sender.send_messages(ServiceBusMessage("x", partition_key=key_of(1)))

        assert set(drain(client, wait_s=0.5)) == {str(n) for n in range(12)}
    assert not (bus.folder / "partition-01.db").exists()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (b"no database" * 1_000, "damaged or no SQLite file"),
        (None, "Restore it from a backup"),
    ],
)
def test_a_partition_with_a_bad_file_does_not_start_and_others_go_on(
    bus: Bus, damage: bytes | None, sentence: str
) -> None:
    bus.partitions[2].kill()
    path = bus.folder / "partition-02.db"
    for leftover in bus.folder.glob("partition-02.db*"):
        leftover.unlink()
    if damage is not None:
        path.write_bytes(damage)

    with pytest.raises(RuntimeError, match=sentence):
        bus.start_partition(2)

    with bus.client() as client, client.get_queue_sender("orders") as sender:
        for n in range(6):
            sender.send_messages(ServiceBusMessage(str(n)))
        assert set(drain(client, wait_s=0.5)) == {str(n) for n in range(6)}


def test_a_bad_file_does_not_take_the_other_partitions_of_its_process_along(
    tmp_path: Path,
) -> None:
    (tmp_path / "partition-01.db").write_bytes(b"no database" * 1_000)
    process = Process(
        "bendybus.partition_server",
        "serve",
        f"--data={tmp_path}",
        "--namespace-uid=uid",
        "--tier=Premium",
        "--partition-count=2",
        "--partitions=0,1",
        "--listen=127.0.0.1:0",
        log=tmp_path / "both.log",
    )
    try:
        with grpc.insecure_channel(process.address) as channel:
            stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
            requests = [partition_pb2.EchoRequest(partition=index) for index in (0, 1)]
            healthy, broken = stub.Echo(iter(requests), timeout=10)
    finally:
        process.end()

    assert healthy.serving
    assert not broken.serving
    assert list(broken.conditions) == ["StoreFailed"]
    assert "damaged or no SQLite file" in (tmp_path / "both.log").read_text()


def test_a_file_of_another_namespace_is_refused_by_the_process(bus: Bus, tmp_path: Path) -> None:
    bus.partitions[0].kill()

    with pytest.raises(RuntimeError, match="namespace_uid"):
        Process(
            "bendybus.partition_server",
            "serve",
            f"--data={bus.folder}",
            "--namespace-name=test",
            "--namespace-uid=another",
            "--tier=Premium",
            "--partition-count=4",
            "--partitions=0",
            "--listen=127.0.0.1:0",
            log=tmp_path / "other.log",
        )


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


def test_a_full_disk_refuses_sends_lets_receivers_make_room_and_recovers(
    make_bus: MakeBus, tmp_path: Path
) -> None:
    options = ("--free-space-min-bytes=4194304", "--reserve-bytes=2097152")
    bus = make_bus(partitions=2, partition_options=options)
    with bus.administration() as administration:
        administration.create_queue("orders")
    with small_disk(tmp_path / "small", 48) as small:
        bus.partitions[1].end()
        # With its log: it was killed, and without it the file is empty, which is refused.
        for name in ("partition-01.db", "partition-01.db-wal", "partition-01.reserve"):
            (small / name).write_bytes((bus.folder / name).read_bytes())
        bus.start_partition(1, data=small)
        key = key_of(1, 2)
        body = b"x" * 200_000
        with bus.client(retry_total=0) as client, client.get_queue_sender("orders") as sender:
            # Repeated while the partition comes up, so perhaps stored twice: not counted.
            eventually(lambda: _sends(sender, ServiceBusMessage("first", partition_key=key)))
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
                lambda: _sends(sender, ServiceBusMessage("again", partition_key=key)),
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
        bus.partitions[1].end()
        # With its log: it was killed, and without it the file is empty, which is refused.
        for name in ("partition-01.db", "partition-01.db-wal", "partition-01.reserve"):
            (small / name).write_bytes((bus.folder / name).read_bytes())
        bus.start_partition(1, data=small)
        key = key_of(1, 2)
        with bus.client() as client, client.get_queue_sender("orders") as sender:
            for _ in range(50):
                eventually(
                    lambda: _sends(sender, ServiceBusMessage(b"y" * 1_000, partition_key=key))
                )
            _fill(small / "ballast")

            assert sum(drain(client).values()) == 50

            (small / "ballast").unlink()
            eventually(
                lambda: _sends(sender, ServiceBusMessage("again", partition_key=key)),
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
        bus.partitions[1].end()
        for name in ("partition-01.db", "partition-01.db-wal", "partition-01.reserve"):
            (small / name).write_bytes((bus.folder / name).read_bytes())
        bus.start_partition(1, data=small)
        key = key_of(1, 2)
        with bus.client() as client, client.get_queue_sender("orders") as sender:
            eventually(lambda: _sends(sender, ServiceBusMessage(b"first", partition_key=key)))
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
        eventually(lambda: _sends(sender, mark), what="the partition that returned")
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
