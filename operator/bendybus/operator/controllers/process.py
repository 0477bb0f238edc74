"""One operator process: Kopf, the office and the webhooks' certificate in one loop."""

import asyncio
import random
from typing import Any, cast

import kopf
from prometheus_client import start_http_server

from bendybus.operator import handlers
from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.controllers.bus_controllers import Office
from bendybus.operator.controllers.child_watch import ChildWatching
from bendybus.operator.controllers.kopf_settings import operator_settings
from bendybus.operator.controllers.webhooks import Admitting
from bendybus.operator.kubernetes.api import RealKubernetesApi
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set; any part that dies ends all."""
    api, metrics = RealKubernetesApi(), Metrics()
    # Of two peers the one with the higher number acts; equal ones would both stand still.
    priority = random.SystemRandom().randrange(1, 2**31)
    office = Office(api, settings, metrics, priority=priority)
    certificates = WebhookCertificates(api, settings, office.authority, metrics)
    start_http_server(settings.metrics_port, registry=metrics.registry)
    await certificates.first()
    admitting = Admitting(api, metrics, office.reaching)
    assert handlers.admit_bus is not None
    memo = kopf.Memo(office=office, admitting=admitting)
    kopf_done = kopf.operator(
        settings=operator_settings(settings, priority, certificates),
        memo=memo,
        identity=cast(Any, settings.identity or None),
        standalone=not settings.peering,
        priority=priority,
        peering_name=settings.peering or None,
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
        liveness_endpoint=f"http://0.0.0.0:{settings.probe_port}/healthz",
        stop_flag=stop,
    )
    async with asyncio.TaskGroup() as group:
        helpers = [
            group.create_task(office.run(), name="office"),
            group.create_task(certificates.run(), name="webhook-certificates"),
            group.create_task(ChildWatching(api, settings, office).run(), name="children"),
        ]

        async def leave() -> None:
            stop.set()
            for task in helpers:
                task.cancel()
            await asyncio.wait(helpers)

        memo.leave = leave
        await kopf_done
        await leave()
