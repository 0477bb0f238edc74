"""The authority in its Secret, and the webhooks' certificate by it."""

import asyncio
import base64
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from bendybus.operator.builders.certificates import Wanted
from bendybus.operator.certificates import certificate_authority
from bendybus.operator.certificates.operator_issuer import SECRET, OperatorIssuer
from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings
from tests.operator.cluster import eventually
from tests.operator.manifests import BUS
from tests.operator.memory_api import MemoryKubernetesApi

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
WANTED = Wanted("operator", "test", ("host",), "spiffe://bendybus/test")


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> dt.datetime:
        return self.now


@pytest.fixture
def api() -> MemoryKubernetesApi:
    made = MemoryKubernetesApi()
    for name in ("bendybus-system", "shop"):
        made.put({"kind": "Namespace", "metadata": {"name": name}})
    return made


def authority(api: MemoryKubernetesApi, clock: Clock | None = None) -> OperatorIssuer:
    return OperatorIssuer(api, Settings(), clock or Clock())


async def test_peers_have_one_authority(api: MemoryKubernetesApi) -> None:
    first, second = authority(api), authority(api)

    assert await first.authority() == await second.authority()


async def test_of_two_that_make_one_at_once_the_quicker_wins(api: MemoryKubernetesApi) -> None:
    first, second = authority(api), authority(api)
    real_get, looked = api.get, list[str]()

    async def get(kind: str, namespace: str, name: str) -> Any:
        if not looked:
            looked.append(name)
            await first.authority()
            return None
        return await real_get(kind, namespace, name)

    api.get = get  # type: ignore[method-assign]

    assert await second.authority() == await first.authority()


async def test_an_authority_that_a_peer_advanced_meanwhile_is_not_overwritten(
    api: MemoryKubernetesApi,
) -> None:
    clock = Clock()
    first, second = authority(api, clock), authority(api, clock)
    await first.authority()
    clock.now = START + 2500 * DAY
    stale = api.one("Secret", SECRET, "bendybus-system")
    real_get = api.get

    async def get(kind: str, namespace: str, name: str) -> Any:
        api.get = real_get  # type: ignore[method-assign]
        await first.authority()
        return stale

    api.get = get  # type: ignore[method-assign]

    with pytest.raises(ApiError) as raised:
        await second.authority()
    assert raised.value.status == 409
    assert await second.authority() == await first.authority()


async def test_a_certificate_is_kept_as_long_as_it_will_do(api: MemoryKubernetesApi) -> None:
    clock = Clock()
    ours = authority(api, clock)
    files = await ours.certificate(WANTED, {})

    clock.now += 59 * DAY
    same = await ours.certificate(WANTED, files)
    clock.now += 2 * DAY
    renewed = await ours.certificate(WANTED, files)

    assert same == files
    assert renewed["tls.crt"] != files["tls.crt"]
    assert renewed["ca.crt"] == files["ca.crt"]


async def test_the_operators_own_certificate_stays_the_same_while_it_is_good(
    api: MemoryKubernetesApi,
) -> None:
    """Else every look at a bus would make new channels to its partitions."""
    clock = Clock()
    ours = authority(api, clock)
    await ours.of_bus(BUS, {"name": names.authority(BUS), "namespace": "shop"})
    first = await ours.operator_material(BUS)

    assert await ours.operator_material(BUS) == first
    clock.now += 61 * DAY
    assert await ours.operator_material(BUS) != first


async def test_the_webhooks_certificate_is_on_disk_for_nobody_else_and_trusted_by_the_api_server(
    api: MemoryKubernetesApi, tmp_path: Path
) -> None:
    hook = {
        "name": "queues.bendybus.io",
        "clientConfig": {"service": {"name": "x", "path": "/queues"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    kind = "ValidatingWebhookConfiguration"
    api.put(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "bendybus"}, "webhooks": [hook]}
    )
    settings, metrics = Settings(tls_directory=tmp_path / "tls"), Metrics()
    ours = authority(api)
    files = WebhookCertificates(api, settings, ours, metrics)

    await files.first()
    await files.first()

    assert files.key.stat().st_mode & 0o777 == 0o600
    bundle = (await ours.authority()).bundle
    (stored,) = api.one(kind, "bendybus", "")["webhooks"]
    assert base64.b64decode(stored["clientConfig"].pop("caBundle")).decode() == bundle
    assert stored == hook, "the rest is the chart's"
    assert [verb for verb, of, _ in api.calls if of == kind].count("apply") == 1
    end = metrics.registry.get_sample_value("bendybus_operator_webhook_certificate_end_seconds")
    assert end == certificate_authority.end_of(files.certificate.read_text()).timestamp()


async def test_a_configuration_that_helm_makes_after_the_operator_started_is_told_at_once(
    api: MemoryKubernetesApi, tmp_path: Path
) -> None:
    settings = Settings(tls_directory=tmp_path / "tls")
    files = WebhookCertificates(
        api, settings, authority(api), Metrics(), first_s=30.0, retry_s=0.01
    )
    kind = "ValidatingWebhookConfiguration"
    first = asyncio.create_task(files.first())
    await eventually(files.certificate.exists)
    assert not first.done(), "whoever is ready can be called"

    hook = {
        "name": "queues.bendybus.io",
        "clientConfig": {"service": {"name": "x", "path": "/queues"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    api.put(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "bendybus"}, "webhooks": [hook]}
    )
    await asyncio.wait_for(first, 10)

    (stored,) = api.one(kind, "bendybus", "")["webhooks"]
    assert stored["clientConfig"]["caBundle"]


async def test_an_operator_starts_also_where_nobody_makes_a_configuration(
    api: MemoryKubernetesApi, tmp_path: Path
) -> None:
    settings = Settings(tls_directory=tmp_path / "tls")
    files = WebhookCertificates(api, settings, authority(api), Metrics(), first_s=0.0)

    await asyncio.wait_for(files.first(), 10)

    assert files.certificate.exists()
