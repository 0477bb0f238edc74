"""One operator process: Kopf, the controllers and the webhooks' certificate in one event loop."""

import asyncio
import random
from typing import Any, cast

import kopf
from prometheus_client import start_http_server

from bendybus.operator import handlers
from bendybus.operator.bus.worker_pool import WorkerPool
from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.controllers.child_watch import ChildWatch
from bendybus.operator.controllers.controller_manager import ControllerManager
from bendybus.operator.controllers.kopf_settings import operator_settings
from bendybus.operator.controllers.webhooks import Webhooks
from bendybus.operator.endless import endless
from bendybus.operator.kubernetes.api import RealKubernetesApi
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set; the failure of any part ends the process."""
    api, metrics = RealKubernetesApi(), Metrics()
    # Of two peers the one with the higher number acts; with equal ones, neither would act.
    priority = random.SystemRandom().randrange(1, 2**31)
    workers = WorkerPool(settings.worker_memory_mb * 1024 * 1024)
    manager = ControllerManager(api, settings, metrics, priority=priority, workers=workers)
    certificates = WebhookCertificates(api, settings, manager.authority, metrics)
    start_http_server(settings.metrics_port, registry=metrics.registry)
    await certificates.first()
    webhooks = Webhooks(api, metrics, manager.endpoints, workers)
    assert handlers.admit_bus is not None
    memo = kopf.Memo(manager=manager, webhooks=webhooks)
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

    async def control() -> None:
        # Else partitions would seem to be away at first.
        await workers.started()
        await manager.run()

    async with asyncio.TaskGroup() as group:
        helpers = [
            group.create_task(endless(workers.run(), "workers"), name="workers"),
            group.create_task(endless(control(), "controllers"), name="controllers"),
            group.create_task(
                endless(certificates.run(), "webhook certificates"), name="webhook-certificates"
            ),
            group.create_task(
                endless(ChildWatch(api, settings, manager).run(), "children"), name="children"
            ),
        ]

        async def leave() -> None:
            stop.set()
            for task in helpers:
                task.cancel()
            await asyncio.wait(helpers)

        memo.leave = leave
        await kopf_done
        await leave()
