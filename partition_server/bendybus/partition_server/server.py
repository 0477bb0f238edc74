"""Wires a partition-server process: threads, gRPC server, health, metrics; and takes it down."""

import asyncio
import logging
from typing import Final

import grpc

from bendybus.domain.entity import Fingerprint
from bendybus.internal.v1 import entity_pb2_grpc, partition_pb2_grpc
from bendybus.partition_server import metrics
from bendybus.partition_server.answering import Dispatcher
from bendybus.partition_server.entity_service import EntityService
from bendybus.partition_server.running import PartitionThread
from bendybus.partition_server.service import Hosts, PartitionService
from bendybus.partition_server.settings import Settings
from bendybus.partition_server.sqlite_store import SqliteStore
from bendybus.wire import serving

logger = logging.getLogger(__name__)
SERVICES: Final = (
    "bendybus.internal.v1.PartitionService",
    "bendybus.internal.v1.EntityService",
)
HEALTH_EVERY_S: Final = 0.5


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set. Order at the end: not ready, drain, commit what waits, close."""
    dispatcher = Dispatcher(asyncio.get_running_loop())
    threads = {index: _thread(settings, index, dispatcher) for index in settings.partitions}
    failures = [failure for thread in threads.values() if (failure := thread.start())]
    if len(failures) == len(threads):
        # Nothing to serve. With some of them open, the others are unhealthy and tried again.
        for thread in threads.values():
            thread.stop()
        raise failures[0]
    server = grpc.aio.server(options=serving.OPTIONS)
    hosts = Hosts(threads)
    partition_pb2_grpc.add_PartitionServiceServicer_to_server(PartitionService(hosts), server)
    entity_pb2_grpc.add_EntityServiceServicer_to_server(EntityService(hosts), server)
    health = serving.add_health_and_reflection(server, SERVICES)
    host = settings.listen.rsplit(":", 1)[0]
    port = server.add_insecure_port(settings.listen)
    if settings.health_listen:
        server.add_insecure_port(settings.health_listen)
    await server.start()
    metrics_server = metrics.start(hosts, host, settings.metrics_port)
    watching = asyncio.get_running_loop().create_task(_watch_health(health, threads), name="health")
    serving.print_ready(address=f"{host}:{port}", partitions=list(settings.partitions))
    try:
        await stop.wait()
        logger.info("partition server: stopping", extra={"action": "stop"})
    finally:
        watching.cancel()
        await serving.set_serving(health, SERVICES, False)
        await server.stop(settings.drain_s)
        for thread in threads.values():
            await asyncio.to_thread(thread.stop)
        metrics_server.close()


def _thread(settings: Settings, index: int, dispatcher: Dispatcher) -> PartitionThread:
    fingerprint = Fingerprint(
        namespace_name=settings.namespace_name,
        namespace_uid=settings.namespace_uid,
        tier=settings.tier,
        partition_count=settings.partition_count,
        partition=index,
    )
    store = SqliteStore(settings.data, fingerprint, reserve_bytes=settings.reserve_bytes)
    return PartitionThread(settings, store, dispatcher.deliver)


async def _watch_health(health: serving.Health, threads: dict[int, PartitionThread]) -> None:
    """Ready while every partition of the process has its store open; alive in any case."""
    shown: bool | None = None
    while True:
        ready = all(thread.serving for thread in threads.values())
        if ready != shown:
            await serving.set_serving(health, SERVICES, ready)
            shown = ready
        await asyncio.sleep(HEALTH_EVERY_S)
