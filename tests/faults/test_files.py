"""Partitions whose file is deleted, damaged or of another namespace."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusMessage
from bendybus.client.exceptions import ServiceBusError
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from tests.faults.traffic import drain, key_of
from tests.integration.processes import Bus, Process


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
        (b"no database" * 1_000, "damaged or not an SQLite file"),
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
    assert "damaged or not an SQLite file" in (tmp_path / "both.log").read_text()


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
