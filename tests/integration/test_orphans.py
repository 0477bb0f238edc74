"""Orphans on real processes: kept, learned by everybody, adopted, purged."""

import contextlib
import datetime
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from bendybus.client import ServiceBusMessage, ServiceBusReceivedMessage
from bendybus.client.exceptions import MessagingEntityDisabledError
from bendybus.domain import errors
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import catalogue, entities, statuses
from bendybus.wire.contract_versions import FRONT_END
from tests.integration.processes import Bus, eventually
from tests.ports import free_port

LATER: Final = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)

_ACTIONS: Final = {
    EntityAction.CREATE: entity_pb2.ENTITY_ACTION_CREATE,
    EntityAction.DELETE_IDLE: entity_pb2.ENTITY_ACTION_DELETE_IDLE,
    EntityAction.ORPHAN: entity_pb2.ENTITY_ACTION_ORPHAN,
    EntityAction.ADOPT: entity_pb2.ENTITY_ACTION_ADOPT,
}


def commit(bus: Bus, action: EntityAction, name: str, **fields: Any) -> entity_pb2.Entity:
    """Commit at the registrar as the operator does; the front end brings it to the others."""
    request = entity_pb2.CommitEntityRequest(
        action=_ACTIONS[action],
        name=name,
        kind=entity_pb2.ENTITY_KIND_QUEUE,
        origin=management_pb2.ENTITY_ORIGIN_MANIFEST,
        **fields,
    )
    with grpc.insecure_channel(bus.partitions[0].address) as channel:
        stub = entity_pb2_grpc.EntityServiceStub(channel)
        try:
            return stub.CommitEntity(request, timeout=10).entity
        except grpc.RpcError as error:
            raise statuses.from_rpc_error(error) from error


def create(bus: Bus, name: str, manifest: str = "m-1", **fields: Any) -> None:
    """Make a queue of a manifest on all partitions."""
    request = management_pb2.CreateQueueRequest(
        name=name,
        description=entities.description_to_proto(QueueDescription(**fields)),
        origin=management_pb2.ENTITY_ORIGIN_MANIFEST,
        uid=f"{name}-{manifest}",
    )

    def made() -> bool:
        try:
            stub.CreateQueue(request, timeout=20)
        except grpc.RpcError as error:
            # On a busy machine the front end is ready before it has found all partitions.
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return False
            raise
        return True

    with management(bus) as stub:
        eventually(made, within_s=30)


@contextlib.contextmanager
def management(bus: Bus) -> Iterator[Any]:
    """Yield the front end's management service."""
    with grpc.insecure_channel(bus.front_end_address) as channel:
        yield management_pb2_grpc.ManagementServiceStub(channel)


def shown(bus: Bus, name: str) -> management_pb2.Queue:
    """Return a queue as the front end knows it."""
    with management(bus) as stub:
        request = management_pb2.GetQueueRequest(name=name, include_runtime=True)
        return stub.GetQueue(request, timeout=10).queue


def listed(bus: Bus, *, include_orphaned: bool = False) -> list[str]:
    """Return the names of queues."""
    with management(bus) as stub:
        request = management_pb2.ListQueuesRequest(
            page_size=1_000, include_orphaned=include_orphaned
        )
        return [queue.name for queue in stub.ListQueues(request, timeout=10).queues]


def orphan(bus: Bus, name: str) -> None:
    """Orphan a queue and wait until the front end knows."""
    commit(bus, EntityAction.ORPHAN, name)
    eventually(lambda: shown(bus, name).orphaned, what="the front end learns it")


def send(bus: Bus, name: str, count: int) -> None:
    """Send messages without a key: they go to all partitions."""
    with bus.client(retry_total=2) as client, client.get_queue_sender(name) as sender:
        for number in range(count):
            sender.send_messages(ServiceBusMessage(str(number)))


def receive(bus: Bus, name: str, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive and complete."""
    found: list[ServiceBusReceivedMessage] = []
    with bus.client() as client, client.get_queue_receiver(name) as receiver:
        while len(found) < count:
            messages = receiver.receive_messages(count, max_wait_time=10)
            assert messages
            receiver.complete_messages(messages)
            found += messages
    return found


def test_an_orphan_gives_its_messages_and_takes_none(bus: Bus) -> None:
    create(bus, "lost")
    send(bus, "lost", 8)

    orphan(bus, "lost")

    with pytest.raises(MessagingEntityDisabledError, match="manifest was deleted") as raised:
        send(bus, "lost", 1)
    assert raised.value.reason == "ENTITY_ORPHANED"
    assert "lost" not in listed(bus)
    assert "lost" in listed(bus, include_orphaned=True)
    assert shown(bus, "lost").runtime.count_details.active_message_count == 8
    with (
        bus.client() as client,
        client.get_queue_sender("lost") as sender,
        pytest.raises(MessagingEntityDisabledError),
    ):
        sender.schedule_messages(ServiceBusMessage("x"), LATER)
    assert sorted(str(m) for m in receive(bus, "lost", 8)) == sorted(map(str, range(8)))


def test_an_adopted_queue_has_its_data_and_takes_messages_again(bus: Bus) -> None:
    create(bus, "adopted")
    send(bus, "adopted", 4)
    orphan(bus, "adopted")
    with pytest.raises(errors.RetainedData):
        commit(bus, EntityAction.CREATE, "adopted", manifest_uid="m-2")

    entry = commit(bus, EntityAction.ADOPT, "adopted", manifest_uid="m-2")
    eventually(lambda: not shown(bus, "adopted").orphaned)
    send(bus, "adopted", 4)

    assert (entry.uid, entry.manifest_uid) == ("adopted-m-1", "m-2")
    assert len(receive(bus, "adopted", 8)) == 8


def test_an_administration_client_may_purge_an_orphan_but_not_a_live_queue(bus: Bus) -> None:
    create(bus, "purged")
    send(bus, "purged", 4)
    with bus.administration() as administration:
        with pytest.raises(Exception, match="comes from a manifest"):
            administration.delete_queue("purged")
        orphan(bus, "purged")
        with pytest.raises(Exception, match=r"retained-data: adopt"):
            administration.create_queue("purged")

        administration.delete_queue("purged")
        administration.create_queue("purged")

        counts = administration.get_queue_runtime_properties("purged")
    assert counts.total_message_count == 0


def test_a_partition_that_was_away_learns_of_an_orphan_and_a_restart_keeps_it(
    tmp_path: Path,
) -> None:
    port = free_port()
    bus = Bus(tmp_path, partitions=2)
    try:
        create(bus, "away")
        send(bus, "away", 6)
        bus.partitions[1].kill()
        orphan(bus, "away")
        bus.partitions[0].kill()
        bus.front_end.kill()

        for index in (0, 1):
            bus.start_partition(index)
        bus.start_front_end()

        eventually(lambda: shown(bus, "away").orphaned)
        with pytest.raises(MessagingEntityDisabledError):
            send(bus, "away", 1)
        eventually(lambda: generations(bus, "away") == {shown(bus, "away").generation})
        bus.partitions[1].kill()
        bus._options = (f"--metrics-port={port}",)
        bus.start_partition(1)
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
        assert 'bendybus_orphaned_entities{partition="1"} 1.0' in metrics.read().decode()
        assert len(receive(bus, "away", 6)) == 6
    finally:
        bus.end()


def generations(bus: Bus, name: str) -> set[int]:
    """Return the generations of an entity that the partitions have."""
    found = set()
    for index, process in bus.partitions.items():
        with grpc.insecure_channel(process.address) as channel:
            stub = entity_pb2_grpc.EntityServiceStub(channel)
            request = catalogue.watch_request(FRONT_END, index)
            first = next(iter(stub.WatchEntities(request, timeout=10)))
            found |= {entry.generation for entry in first.entities if entry.name == name}
    return found


def test_a_queue_that_the_bus_deleted_stays_deleted_for_its_manifest(bus: Bus) -> None:
    create(bus, "idle")
    commit(bus, EntityAction.DELETE_IDLE, "idle")
    eventually(lambda: "idle" not in listed(bus, include_orphaned=True))

    with pytest.raises(grpc.RpcError, match="Delete its manifest"):
        create(bus, "idle")
    create(bus, "idle", manifest="m-2")

    assert "idle" in listed(bus)
