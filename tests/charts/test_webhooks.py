"""Who may call the webhooks, and what shows that nobody else does."""

import importlib.util
import socket
from typing import Any

import pytest

from bendybus.operator.settings import PREFIX
from tests.charts.rendering import CHART, of_kind, render
from tests.charts.test_objects import container, deployment, environment


def ingress(values: dict[str, Any]) -> dict[str, Any]:
    """Return port → from whom, of the operator's NetworkPolicy; None: everybody."""
    [policy] = [b for b in of_kind(render(values), "NetworkPolicy") if "operator" in str(b)]
    rules = policy["spec"]["ingress"]
    return {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}


@pytest.mark.requirement("R389")
def test_webhooks_can_be_reached_from_named_addresses_only() -> None:
    cidrs = ["10.0.0.5/32", "fd00::/64"]
    values = {"networkPolicy": {"webhooksFrom": cidrs}}

    found = ingress(values)

    assert found["webhook"] == [{"ipBlock": {"cidr": each}} for each in cidrs]
    assert found["probe"] is None
    assert ingress({})["webhook"] is None
    assert [b["metadata"]["name"] for b in of_kind(render(values), "Pod")] == [
        "bendybus-test",
        "bendybus-test-webhooks",
    ]
    assert [b["metadata"]["name"] for b in of_kind(render({}), "Pod")] == ["bendybus-test"]


@pytest.mark.requirement("R389")
@pytest.mark.parametrize(("listens", "status"), [(True, 1), (False, 0)], ids=["reached", "refused"])
def test_the_test_of_the_chart_fails_where_a_pod_reaches_webhooks(
    listens: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = CHART / "files" / "test_webhooks.py"
    spec = importlib.util.spec_from_file_location("webhooks_of_the_chart", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        host, port = server.getsockname()
        monkeypatch.setenv("WEBHOOKS", f"{host}:{port}")

        assert program.main() == status


@pytest.mark.requirement("R389")
def test_a_client_certificate_of_the_api_server_can_be_demanded() -> None:
    values = {"webhooks": {"clientCAConfigMap": "api-server-ca"}}

    path = environment(values)[f"{PREFIX}WEBHOOK_CLIENT_CA"]
    mounts = {m["name"]: m["mountPath"] for m in container(values)["volumeMounts"]}
    volumes = deployment(values)["spec"]["template"]["spec"]["volumes"]

    assert path == mounts["webhook-client-ca"] + "/ca.crt"
    assert {"name": "webhook-client-ca", "configMap": {"name": "api-server-ca"}} in volumes
    assert environment({})[f"{PREFIX}WEBHOOK_CLIENT_CA"] == ""
