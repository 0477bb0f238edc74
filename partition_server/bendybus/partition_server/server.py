"""Wires a partition-server process: threads, gRPC server, health, metrics; and takes it down."""

import asyncio
import logging
from typing import Final

import grpc

from bendybus.domain.entity import Fingerprint
from bendybus.internal.v1 import entity_pb2_grpc, partition_pb2_grpc
from bendybus.partition_server import metrics
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.replies import Dispatcher
from bendybus.partition_server.service.catalogue_pull import REGISTRAR, CataloguePull
from bendybus.partition_server.service.entity_service import EntityService
from bendybus.partition_server.service.forward_link import ForwardLinks
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.service.partition_service import PartitionService
from bendybus.partition_server.service.peer_authorization import Admission
from bendybus.partition_server.settings import Settings
from bendybus.partition_server.store.errors import StoreFailed
from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.wire import readiness, serving, tls
from bendybus.wire.refusals import Refusals
from bendybus.wire.serving import Health

logger = logging.getLogger(__name__)
SERVICES: Final = (
    "bendybus.internal.v1.PartitionService",
    "bendybus.internal.v1.EntityService",
)
HEALTH_EVERY_S: Final = 0.5
# The share of the drain in which receivers may settle the messages that they hold.
SETTLING_SHARE: Final = 0.25


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set, then take everything down in order."""
    directory = serving.tls_directory(settings.tls_directory)
    dispatcher = Dispatcher(asyncio.get_running_loop())
    threads = {index: _thread(settings, index, dispatcher) for index in settings.partitions}
    hosts = Hosts(threads)
    credentials = tls.channel_credentials(directory.material()) if directory else None
    links = ForwardLinks(hosts, settings.peer, credentials)
    links.link_all()
    catalogues = EntityService(hosts, settings.peer.get(REGISTRAR), credentials)
    failures = [failure for thread in threads.values() if (failure := thread.start())]
    if len(failures) == len(threads):
        # Nothing to serve. With some of them open, the others are unhealthy and tried again.
        for thread in threads.values():
            thread.stop()
        await links.close()
        raise failures[0]
    refusals = Refusals(logger, "peer")
    interceptors = [Admission(settings.bus_identity, refusals)] if directory is not None else []
    server = grpc.aio.server(options=serving.OPTIONS, interceptors=interceptors)
    partition_pb2_grpc.add_PartitionServiceServicer_to_server(PartitionService(hosts), server)
    entity_pb2_grpc.add_EntityServiceServicer_to_server(catalogues, server)
    health = await serving.add_health_and_reflection(server, SERVICES)
    host = settings.listen.rsplit(":", 1)[0]
    port = serving.open_port(server, settings.listen, directory, demand_client_certificate=True)
    await server.start()
    health_server = await serving.start_health(settings.health_listen, health)
    metrics_server = metrics.start(hosts, refusals, settings.metrics_host, settings.metrics_port)
    watching = asyncio.get_running_loop().create_task(
        _watch_health(health, threads, stop), name="health"
    )
    if directory is not None:
        links.run(_watch_tls(directory, links, catalogues.pull), "tls")
    pulling = asyncio.get_running_loop().create_task(catalogues.pull.run(), name="catalogue")
    readiness.print_ready(address=f"{host}:{port}", partitions=list(settings.partitions))
    try:
        await stop.wait()
        logger.info("partition server: stopping", extra={"action": "stop"})
    finally:
        watching.cancel()
        pulling.cancel()
        await serving.set_serving(health, SERVICES, False)
        await _drain(hosts, server, settings.drain_s)
        await links.close()
        await asyncio.wait((pulling,))
        for thread in threads.values():
            await asyncio.to_thread(thread.stop)
        metrics_server.close()
        await health_server.stop(serving.HEALTH_STOP_S)
    for thread in threads.values():
        if thread.died is not None:
            raise StoreFailed(f"partition {thread.index}: its thread ended: {thread.died!r}")


async def _drain(hosts: Hosts, server: grpc.aio.Server, drain_s: float) -> None:
    """Let receivers settle what they hold; then end the streams that carry messages, owing nothing;
    then the others; then all calls.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + drain_s
    await hosts.settled(drain_s * SETTLING_SHARE)
    hosts.traffic.begin()
    if not await hosts.traffic.ended(max(0.0, deadline - loop.time())):
        logger.warning("partition server: streams are cut off after %g s", drain_s)
    hosts.attendance.begin()
    await server.stop(max(0.0, deadline - loop.time()))


async def _watch_tls(directory: tls.Directory, links: ForwardLinks, pull: CataloguePull) -> None:
    def renew(material: tls.Material) -> None:
        links.renew(tls.channel_credentials(material))
        pull.renew(tls.channel_credentials(material))

    await tls.watch(directory, renew)


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


async def _watch_health(
    health: Health, threads: dict[int, PartitionThread], stop: asyncio.Event
) -> None:
    """Ready while every partition of the process has its store open; alive in any case.

    Ends the process when a partition's thread is gone: nothing would ever answer for it.
    """
    shown: bool | None = None
    while True:
        if any(thread.died is not None for thread in threads.values()):
            stop.set()
        ready = all(thread.serving for thread in threads.values())
        if ready != shown:
            await serving.set_serving(health, SERVICES, ready)
            shown = ready
        await asyncio.sleep(HEALTH_EVERY_S)
