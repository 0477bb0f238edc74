"""`python -m bendybus.operator`: Kopf, the office and the webhooks' certificate in one loop."""

import asyncio
import logging
import os
import random
import sys
from typing import Any, cast

import kopf
from prometheus_client import start_http_server

from bendybus.operator import handlers
from bendybus.operator.admitting import Admitting
from bendybus.operator.kubernetes_api import RealKubernetesApi
from bendybus.operator.metrics import Metrics
from bendybus.operator.office import Office
from bendybus.operator.settings import Settings
from bendybus.operator.watching import operator_settings
from bendybus.operator.webhook_certificates import WebhookCertificates
from bendybus.wire import serving


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
    kopf_done = kopf.operator(
        settings=operator_settings(settings, priority, certificates),
        memo=kopf.Memo(office=office, admitting=admitting),
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
        ]
        await kopf_done
        for task in helpers:
            task.cancel()


def quieten() -> None:
    """Keep out of the log what is no news: handled events, probes, refusals (they are counted)."""
    kopf_objects = logging.getLogger("kopf.objects")
    kopf_objects.setLevel(logging.WARNING)
    kopf_objects.addFilter(lambda record: not record.getMessage().startswith("Handler 'admit_"))
    for name in ("aiohttp.access", "kopf.activities.probe"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> int:
    """Run the operator; 0 ended well, 2 wrong settings."""
    try:
        settings = Settings.from_env(os.environ)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    serving.configure_logging(settings.log_level)
    quieten()
    asyncio.run(serving.run_until_signal(lambda stop: run(settings, stop)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
