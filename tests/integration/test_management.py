"""Queues on all partitions, health, metrics, reflection."""

import asyncio
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bendybus.client import ServiceBusMessage
from bendybus.client.exceptions import (
    HttpResponseError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)
from bendybus.domain.limits import Tier
from bendybus.frontend import server as frontend_server
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.settings import Settings
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc
from bendybus.partition_server import server as partition_server
from bendybus.partition_server import settings as partition_settings
from bendybus.wire import catalogue
from bendybus.wire.contract_versions import FRONT_END
from tests.integration.processes import Bus, eventually
from tests.ports import free_port

NewQueue = Callable[..., str]


@pytest.mark.requirement("R35")
def test_counts_are_summed_over_partitions(bus: Bus, new_queue: NewQueue) -> None:
    name = new_queue()
    with bus.client() as client, client.get_queue_sender(name) as sender:
        for n in range(10):
            sender.send_messages(ServiceBusMessage(str(n)))

    with bus.administration() as administration:
        runtime = administration.get_queue_runtime_properties(name)

    assert runtime.active_message_count == 10
    assert runtime.size_in_bytes is not None
    assert runtime.size_in_bytes > 10 * 64


def test_a_queue_is_created_read_changed_listed_and_deleted(bus: Bus) -> None:
    with bus.administration() as administration:
        created = administration.create_queue("life", max_delivery_count=4)
        created.max_delivery_count = 7
        administration.update_queue(created)
        assert administration.get_queue("LIFE").max_delivery_count == 7
        assert "life" in [queue.name for queue in administration.list_queues()]
        administration.delete_queue("life")
        assert "life" not in [queue.name for queue in administration.list_queues()]

    with (
        bus.client() as client,
        client.get_queue_sender("life") as sender,
        pytest.raises(MessagingEntityNotFoundError, match="life"),
    ):
        sender.send_messages(ServiceBusMessage("x"))


@pytest.mark.requirement("R263")
def test_a_catalogue_comes_in_parts_as_small_as_its_reader_asks_for(
    bus: Bus, new_queue: NewQueue
) -> None:
    names = [new_queue() for _ in range(3)]
    parts: list[entity_pb2.WatchEntitiesResponse] = []

    with grpc.insecure_channel(bus.partitions[0].address) as channel:
        stub = entity_pb2_grpc.EntityServiceStub(channel)
        request = catalogue.watch_request(FRONT_END, 0, part_bytes=1)
        for part in stub.WatchEntities(request, timeout=10):
            parts.append(part)
            if not part.more:
                break

    assert len(parts) > 1
    assert all(len(part.entities) == 1 for part in parts)
    assert {*names} <= {entry.name for part in parts for entry in part.entities}


@pytest.mark.requirement("R08")
def test_the_partitioning_of_a_queue_cannot_be_changed(standard_bus: Bus) -> None:
    with standard_bus.administration() as administration:
        queue = administration.create_queue("fixed", enable_partitioning=True)
        queue.enable_partitioning = False
        with pytest.raises(HttpResponseError, match="enablePartitioning"):
            administration.update_queue(queue)

        assert administration.get_queue("fixed").enable_partitioning is True


@pytest.mark.requirement("R03")
def test_partitioned_and_plain_queues_live_side_by_side(standard_bus: Bus) -> None:
    with standard_bus.administration() as administration:
        administration.create_queue("side-spread", enable_partitioning=True)
        administration.create_queue("side-plain")
    with standard_bus.client() as client:
        where: dict[str, set[int]] = {"side-spread": set(), "side-plain": set()}
        for name, partitions in where.items():
            with client.get_queue_sender(name) as sender:
                for n in range(32):
                    sender.send_messages(ServiceBusMessage(str(n)))
            with client.get_queue_receiver(name) as receiver:
                seen = 0
                while seen < 32:
                    messages = receiver.receive_messages(32, max_wait_time=5)
                    partitions.update(message.partition for message in messages)
                    seen += len(messages)
                    receiver.complete_messages(messages)

    assert where["side-spread"] == set(range(16))
    assert len(where["side-plain"]) == 1


def test_a_disabled_queue_says_so(bus: Bus, new_queue: NewQueue) -> None:
    from bendybus.client.management import EntityStatus

    name = new_queue(status=EntityStatus.SEND_DISABLED)

    with (
        bus.client(retry_total=0) as client,
        client.get_queue_sender(name) as sender,
        pytest.raises(MessagingEntityDisabledError, match="SendDisabled"),
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_every_server_has_health_and_reflection(bus: Bus) -> None:
    for address in (bus.front_end_address, bus.partitions[0].address):
        with grpc.insecure_channel(address) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)  # no types
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            request = cast(Any, reflection_pb2.ServerReflectionRequest)(list_services="")
            [listed] = reflection.ServerReflectionInfo(iter([request]), timeout=5)
            names = {service.name for service in listed.list_services_response.service}
            assert any(name.startswith("bendybus.") for name in names)


async def test_a_front_end_is_not_ready_before_it_takes_calls(tmp_path: Path) -> None:
    """Who asks at its first moment must not send clients to a port that is not open yet."""
    ports = [free_port(), free_port()]
    stop = asyncio.Event()
    settings = Settings(
        partitions={0: f"127.0.0.1:{ports[0]}"},
        listen="127.0.0.1:0",
        health_listen=f"127.0.0.1:{ports[1]}",
    )
    partition = partition_settings.Settings(
        data=tmp_path,
        namespace_name="test",
        namespace_uid="uid",
        tier=Tier.PREMIUM,
        partition_count=1,
        partitions=(0,),
        listen=f"127.0.0.1:{ports[0]}",
    )

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(frontend_server.serve(settings, stop))
        async with grpc.aio.insecure_channel(settings.health_listen) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)  # no types
            told = health.Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True)
            seen = [(await told.read()).status]
            group.create_task(partition_server.serve(partition, stop))
            seen.append((await told.read()).status)
            told.cancel()
        stop.set()

    status = health_pb2.HealthCheckResponse
    assert seen == [status.NOT_SERVING, status.SERVING]


def test_metrics_have_azures_names_and_our_own(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    bus = Bus(tmp_path, partitions=1, partition_options=(f"--metrics-port={ports[0]}",))
    bus.front_end.end()
    bus.start_front_end(f"--metrics-port={ports[1]}")
    try:
        with bus.administration() as administration:
            administration.create_queue("counted")
        with bus.client() as client, client.get_queue_sender("counted") as sender:
            sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
        texts = [
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
            for port in ports
        ]
    finally:
        bus.end()

    assert 'bendybus_active_messages{entity="counted",partition="0"} 2.0' in texts[0]
    assert "bendybus_commit_seconds_bucket" in texts[0]
    assert 'bendybus_incoming_messages_total{entity="counted"} 2.0' in texts[1]
    assert "bendybus_server_send_latency_seconds_count 1.0" in texts[1]


async def test_an_idle_queue_is_deleted_everywhere_and_a_used_one_is_not(
    bus: Bus, new_queue: NewQueue
) -> None:
    import asyncio

    name = new_queue()
    addresses = {i: process.address for i, process in bus.partitions.items()}
    front_end = FrontEnd(Settings(partitions=addresses))
    running = asyncio.create_task(front_end.run())
    try:
        async with asyncio.timeout(20):
            # Nothing tells when all partitions have answered; the front end's own server looks too.
            while not all(u.available for u in front_end.upstreams.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            entity, _ = front_end.directory.lookup(name)
            patient = replace(
                entity, description=replace(entity.description, auto_delete_on_idle_ms=3_600_000)
            )
            assert not await front_end.manager.delete_if_idle(patient)
            await asyncio.sleep(0.05)
            hasty = replace(
                entity, description=replace(entity.description, auto_delete_on_idle_ms=10)
            )
            assert await front_end.manager.delete_if_idle(hasty)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with bus.administration() as administration:
        eventually(lambda: name not in [queue.name for queue in administration.list_queues()])
