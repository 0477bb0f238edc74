"""Wires a front-end process: gateway, gRPC server, health, metrics; and takes it down."""

import asyncio
import logging
from typing import Final

import grpc
from prometheus_client import start_http_server

from bendybus.frontend import idling
from bendybus.frontend.gateway import Gateway
from bendybus.frontend.leases import Leases
from bendybus.frontend.management_service import ManagementService
from bendybus.frontend.receiver_service import ReceiverService
from bendybus.frontend.sender_service import SenderService
from bendybus.frontend.settings import Settings
from bendybus.v1 import management_pb2_grpc, receiver_pb2_grpc, sender_pb2_grpc
from bendybus.wire import serving

logger = logging.getLogger(__name__)
SERVICES: Final = (
    "bendybus.v1.SenderService",
    "bendybus.v1.ReceiverService",
    "bendybus.v1.ManagementService",
)
READY_CHECK_S: Final = 0.1
# Long enough for every partition to be tried once; then the port opens with what there is.
FIRST_LOOK_S: Final = 5.0


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set. Order at the end: not ready, drain, close the ways."""
    gateway = Gateway(settings)
    leases = Leases(gateway.receives)
    server = grpc.aio.server(options=serving.OPTIONS)
    sender_pb2_grpc.add_SenderServiceServicer_to_server(SenderService(gateway), server)
    receiver_pb2_grpc.add_ReceiverServiceServicer_to_server(
        ReceiverService(gateway, leases), server
    )
    management_pb2_grpc.add_ManagementServiceServicer_to_server(ManagementService(gateway), server)
    health = serving.add_health_and_reflection(server, SERVICES)
    host = settings.listen.rsplit(":", 1)[0]
    port = server.add_insecure_port(settings.listen)
    if settings.health_listen:
        server.add_insecure_port(settings.health_listen)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(gateway.run(), name="gateway"),
            group.create_task(leases.run(), name="leases"),
            group.create_task(idling.run(gateway), name="idling"),
        ]
        await _first_look(gateway)
        await server.start()
        metrics = _start_metrics(settings, gateway, host)
        tasks.append(group.create_task(_watch_health(health, gateway), name="health"))
        serving.print_ready(address=f"{host}:{port}", partitions=sorted(settings.partitions))
        await stop.wait()
        logger.info("front end: stopping", extra={"action": "stop"})
        await serving.set_serving(health, SERVICES, False)
        await server.stop(settings.drain_s)
        for task in tasks:
            task.cancel()
        if metrics is not None:
            metrics.shutdown()
            metrics.server_close()


async def _first_look(gateway: Gateway) -> None:
    """Wait until every partition answers, but not for ever."""
    for _ in range(round(FIRST_LOOK_S / READY_CHECK_S)):
        if all(upstream.available for upstream in gateway.upstreams.values()) and gateway.ready():
            return
        await asyncio.sleep(READY_CHECK_S)


def _start_metrics(settings: Settings, gateway: Gateway, host: str):  # type: ignore[no-untyped-def]
    if not settings.metrics_port:
        return None
    server, _ = start_http_server(
        settings.metrics_port, addr=host, registry=gateway.figures.registry
    )
    return server


async def _watch_health(health: serving.Health, gateway: Gateway) -> None:
    shown: bool | None = None
    while True:
        ready = gateway.ready()
        if ready != shown:
            await serving.set_serving(health, SERVICES, ready)
            shown = ready
        await asyncio.sleep(READY_CHECK_S * 5)
