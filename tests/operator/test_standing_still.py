"""A bus that is left alone runs on: its certificates are renewed all the same."""

import datetime as dt
from typing import Any

import pytest

from bendybus.operator.certificates import certificate_authority
from bendybus.operator.certificates.certificate_authority import names_of
from bendybus.operator.certificates.operator_issuer import files_of, now_utc
from bendybus.operator.kubernetes.api import ApiError
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, changed
from tests.operator.test_controller_manager import standing
from tests.operator.test_controller_manager_failures import peering

pytestmark = pytest.mark.integration


def certificate(cluster: Cluster, secret: str) -> str:
    return files_of(cluster.api.one("Secret", secret))["tls.crt"]


@pytest.mark.parametrize("why", ["Paused", "InvalidSpec"])
async def test_certificates_of_a_bus_that_is_left_alone_are_renewed(
    cluster: Cluster, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on; without them it would stop after 90 days, in silence."""
    await standing(cluster)
    if why == "Paused":
        cluster.annotate("BusNamespace", "orders", paused="true")
    else:
        cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), nonsense=1))
    await cluster.says("BusNamespace", "orders", why)
    secrets = ("orders-partition-tls", "orders-frontend-tls")
    before = {name: certificate(cluster, name) for name in secrets}
    applied = [call for call in cluster.api.calls if call[:2] == ("apply", "StatefulSet")]
    manager = cluster.operators[0].manager
    later = now_utc() + dt.timedelta(days=70)
    monkeypatch.setattr(manager.authority, "_now", lambda: later)

    manager._controller(BUS).enqueue_bus()

    await eventually(lambda: all(certificate(cluster, name) != before[name] for name in secrets))
    for name in secrets:
        assert names_of(certificate(cluster, name)) == names_of(before[name])
    assert cluster.ready("BusNamespace", "orders")["reason"] == why
    assert applied == [call for call in cluster.api.calls if call[:2] == ("apply", "StatefulSet")]


async def test_a_certificate_that_is_not_renewed_in_time_is_said(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await standing(cluster)
    cluster.annotate("BusNamespace", "orders", paused="true")
    await cluster.says("BusNamespace", "orders", "Paused")
    manager = cluster.operators[0].manager
    later = now_utc() + dt.timedelta(days=80)
    monkeypatch.setattr(manager.authority, "_now", lambda: later)

    async def never(bus: Any) -> None:
        """Stand for an authority that cannot be read."""

    monkeypatch.setattr(manager._shared.buses, "renew", never)
    manager._controller(BUS).enqueue_bus()

    def said() -> list[str]:
        status = cluster.api.one("BusNamespace", "orders")["status"]
        return [each["message"] for each in status["conditions"] if "Overdue" in each["type"]]

    (message,) = await eventually(said)
    assert "orders-partition-tls, orders-frontend-tls" in message


def ends(cluster: Cluster, role: str) -> float | None:
    """Return when a certificate ends, as the metrics of the first operator say."""
    return cluster.operators[0].manager._metrics.registry.get_sample_value(
        "bendybus_operator_certificate_end_seconds",
        {"namespace": "shop", "bus": "orders", "role": role},
    )


async def test_metrics_say_when_the_certificates_of_a_bus_end(cluster: Cluster) -> None:
    """Also of one that is refused: it runs on, and so does the time of its certificates."""
    await standing(cluster)
    quota = ApiError(403, "exceeded quota")

    cluster.api.refusals["apply", "StatefulSet"] = quota
    cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), frontend={"replicas": 3}))
    await cluster.says("BusNamespace", "orders", "Refused")

    for role in ("partition", "frontend"):
        end = certificate_authority.end_of(certificate(cluster, f"orders-{role}-tls"))
        assert ends(cluster, role) == end.timestamp()


@pytest.mark.parametrize("why", ["gone", "another operator acts"])
async def test_metrics_say_nothing_of_a_bus_that_is_not_looked_after(
    cluster: Cluster, why: str
) -> None:
    """A figure that is not renewed would raise an alert for ever."""
    peering(cluster, ours=1)
    cluster.operator(1, peering="peers", identity="ours")
    cluster.apply(bus_body())
    await cluster.says("BusNamespace", "orders", "Available")
    assert ends(cluster, "partition")

    if why == "gone":
        cluster.api.remove("BusNamespace", "shop", "orders")
    else:
        peering(cluster, other=2, ours=1)

    await eventually(lambda: ends(cluster, "partition") is None)
