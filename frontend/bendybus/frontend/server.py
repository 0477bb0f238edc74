"""Wires a front-end process: core, gRPC server, health, metrics; and takes it down."""

import asyncio
import dataclasses
import logging
from typing import Final

import grpc
from prometheus_client import start_http_server

from bendybus.domain import limits
from bendybus.frontend.core import manage
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota import bounds
from bendybus.frontend.listeners import beside_grpc, client_streams
from bendybus.frontend.listeners.beside_grpc import BesideGrpc
from bendybus.frontend.listeners.call_gate import CallGate
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.listeners.external_scaler import ExternalScaler
from bendybus.frontend.listeners.management_service import ManagementService
from bendybus.frontend.listeners.pipeline_service import PipelineService
from bendybus.frontend.listeners.receiver_service import ReceiverService
from bendybus.frontend.listeners.sender_service import SenderService
from bendybus.frontend.listeners.transaction_service import TransactionService
from bendybus.frontend.security.authenticator import Authenticator
from bendybus.frontend.security.policy_file import PolicyFile
from bendybus.frontend.settings import Settings
from bendybus.v1 import (
    management_pb2_grpc,
    pipeline_pb2_grpc,
    receiver_pb2_grpc,
    sender_pb2_grpc,
    transaction_pb2_grpc,
)
from bendybus.wire import memory, readiness, serving, tls, web_origin
from bendybus.wire.serving import Health

logger = logging.getLogger(__name__)
SERVICES: Final = (
    "bendybus.v1.SenderService",
    "bendybus.v1.ReceiverService",
    "bendybus.v1.ManagementService",
    "bendybus.v1.TransactionService",
    "bendybus.v1.PipelineService",
)
READY_CHECK_S: Final = 0.1
UNREADY_AFTER_S: Final = 10.0
# How long a slow partition may delay the end of a front end.
FLUSH_S: Final = 2.0
# Long enough for every partition to be tried once; then the port opens with those that answer.
FIRST_CONTACT_S: Final = 5.0
# Calls under way that have a token, streams among them.
CALLS_MAX: Final = bounds.CALLS.all + bounds.STREAMS.all
# At the end: how long load balancers may take to stop sending new connections here.
LINGER_SHARE: Final = 0.05
LINGER_S_MAX: Final = 1.0
# Receives wait for a minute and more on their connection.
GRACE_MS_MIN: Final = 120_000


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set. Order at the end: not ready, drain, close the streams."""
    connections = serving.connections_max(
        settings.max_connections, beside_grpc.files_each(settings)
    )
    settings = dataclasses.replace(settings, max_connections=connections)
    directory = serving.tls_directory(settings.tls_directory)
    file = settings.access_policies
    front_end = FrontEnd(
        settings, tls.channel_credentials(directory.material()) if directory else None
    )
    authenticator = Authenticator(
        None if file is None else PolicyFile(file),
        hosts=settings.host_names,
        entities=front_end.directory,
    )
    front_end.metrics.count_refusals(authenticator.refusals)
    streams = ClientStreams(authenticator, settings.max_connection_age_s, quota=front_end.quota)
    health = Health()
    server = _server(settings, authenticator, health, front_end, streams)
    _add_services(server, front_end, streams)
    await serving.add_health_and_reflection(server, SERVICES, health)
    host = settings.listen.rsplit(":", 1)[0]
    port = serving.open_port(server, settings.listen, directory, demand_client_certificate=False)
    beside = BesideGrpc(settings, front_end, authenticator, directory)
    beside.share(server)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(front_end.run(), name="front-end"),
            group.create_task(front_end.receives.run(), name="caches"),
            group.create_task(
                manage.delete_idle(front_end.manager, front_end.directory, settings.idle_check_s),
                name="idle-entities",
            ),
            group.create_task(
                authenticator.run(streams.recheck, beside.recheck),
                name="access-policies",
            ),
            group.create_task(memory.give_back(), name="memory"),
            group.create_task(
                client_streams.watch_memory(
                    streams,
                    front_end.accounted_bytes,
                    _request_bytes(settings),
                ),
                name="memory-guard",
            ),
        ]
        if directory is not None:
            tasks.append(group.create_task(_watch_tls(directory, front_end, beside), name="tls"))
        health_server = await serving.start_health(settings.health_listen, health)
        await _first_contact(front_end)
        await server.start()
        await beside.open()
        metrics = _start_metrics(settings, front_end)
        watching = group.create_task(_watch_health(health, front_end), name="health")
        readiness.print_ready(address=f"{host}:{port}", partitions=sorted(settings.partitions))
        await stop.wait()
        logger.info("front end: stopping", extra={"action": "stop"})
        watching.cancel()
        await serving.set_serving(health, SERVICES, False)
        await asyncio.gather(_drain(streams, server, settings.drain_s), beside.close())
        await front_end.flush(FLUSH_S)
        for task in tasks:
            task.cancel()
        await health_server.stop(serving.HEALTH_STOP_S)
        if metrics is not None:
            metrics.shutdown()
            metrics.server_close()


def _add_services(server: grpc.aio.Server, front_end: FrontEnd, streams: ClientStreams) -> None:
    sender_pb2_grpc.add_SenderServiceServicer_to_server(SenderService(front_end, streams), server)
    receiver_pb2_grpc.add_ReceiverServiceServicer_to_server(
        ReceiverService(front_end, streams), server
    )
    management_pb2_grpc.add_ManagementServiceServicer_to_server(
        ManagementService(front_end), server
    )
    transaction_pb2_grpc.add_TransactionServiceServicer_to_server(
        TransactionService(front_end, streams), server
    )
    pipeline_pb2_grpc.add_PipelineServiceServicer_to_server(PipelineService(front_end), server)


def _server(
    settings: Settings,
    authenticator: Authenticator,
    health: Health,
    front_end: FrontEnd,
    streams: ClientStreams,
) -> grpc.aio.Server:
    request_bytes = _request_bytes(settings)
    scaler = ExternalScaler(front_end, authenticator, streams.drain)
    gate = CallGate(
        authenticator,
        health,
        front_end.quota,
        front_end.message_bytes_max,
        request_bytes,
        scaler.handlers(),
    )
    # gRPC refuses more. Calls without a token take no place of those that have one.
    open_calls = bounds.OPEN_CALLS.connection * settings.max_connections
    return grpc.aio.server(
        options=[
            *serving.options(request_bytes),
            *_age_options(settings),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
        ],
        maximum_concurrent_rpcs=CALLS_MAX + open_calls,
        interceptors=[gate],
    )


def _request_bytes(settings: Settings) -> int:
    return limits.request_bytes_max(len(settings.partitions))


async def _drain(streams: ClientStreams, server: grpc.aio.Server, drain_s: float) -> None:
    """Serve for a moment, until no new clients come; move streams; finish calls."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + drain_s
    await asyncio.sleep(min(LINGER_S_MAX, drain_s * LINGER_SHARE))
    # STRICTLY BEFORE the streams end: a client that comes back must find another front end.
    stopping = loop.create_task(server.stop(max(0.0, deadline - loop.time())), name="stop")
    await asyncio.sleep(0)
    streams.drain.begin()
    await stopping


def _age_options(settings: Settings) -> list[tuple[str, int]]:
    if not settings.max_connection_age_s:
        return []
    age_ms = round(settings.max_connection_age_s * 1000)
    # Streams end by themselves soon after the age, also those opened just before it; the grace is
    # for what does not: after it the connection is cut off.
    grace_ms = max(GRACE_MS_MIN, 2 * age_ms)
    return [
        ("grpc.max_connection_age_ms", max(1, age_ms)),
        ("grpc.max_connection_age_grace_ms", grace_ms),
    ]


async def _watch_tls(directory: tls.Directory, front_end: FrontEnd, beside: BesideGrpc) -> None:
    def renew(material: tls.Material) -> None:
        front_end.renew(tls.channel_credentials(material))
        beside.renew()

    await tls.watch(directory, renew)


async def _first_contact(front_end: FrontEnd) -> None:
    """Wait until every partition was tried once and one of them answers, for a bounded time.

    A dead one is not waited for: it must not delay what the others can serve.
    """
    for _ in range(round(FIRST_CONTACT_S / READY_CHECK_S)):
        if (
            all(upstream.looked_at for upstream in front_end.upstreams.values())
            and front_end.ready()
        ):
            return
        await asyncio.sleep(READY_CHECK_S)


def _start_metrics(settings: Settings, front_end: FrontEnd):  # type: ignore[no-untyped-def]
    if not settings.metrics_port:
        return None
    host = settings.metrics_host
    with readiness.listening(f"{host}:{settings.metrics_port}"):
        server, _ = start_http_server(
            settings.metrics_port, addr=host.strip("[]"), registry=front_end.metrics.registry
        )
    if serving.is_loopback(host):
        web_origin.guard(server, web_origin.given_names(settings.host_names))
    return server


async def _watch_health(health: Health, front_end: FrontEnd) -> None:
    """Ready at once when some partition answers; not ready only when none has for a while.

    A pause of all partitions, of a second on a busy node, would take every front end out of its
    Service, and clients would meet a closed port where they now wait for an answer.
    """
    loop = asyncio.get_running_loop()
    shown: bool | None = None
    last_ready = loop.time() - UNREADY_AFTER_S
    while True:
        if front_end.ready():
            last_ready = loop.time()
        ready = loop.time() - last_ready < UNREADY_AFTER_S
        if ready != shown:
            await serving.set_serving(health, SERVICES, ready)
            shown = ready
        await asyncio.sleep(READY_CHECK_S * 5)
