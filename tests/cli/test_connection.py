"""A bus on a cluster: which one, its keys, the way to it; with a kubectl of our own."""

import base64
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.cli.__main__ import main
from bendybus.cli.bus import cluster
from bendybus.cli.bus.cluster import Access, BusKey, ClusterChoice
from bendybus.cli.bus.kubectl import Kubectl
from bendybus.cli.errors import CliError, NotFound, Unreachable
from bendybus.domain.entity import Origin
from tests.cli import fake_management
from tests.cli.conftest import FakeKubectl
from tests.cli.fake_management import FakeManagement

KEY = "a-key-that-nobody-may-see"
STRING = f"Endpoint=sb://flights-frontend.shop.svc:7480;SharedAccessKeyName=R;SharedAccessKey={KEY}"


def bus(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}}


def listed(*names: str) -> dict[str, str]:
    return {"out": json.dumps({"items": [bus(name) for name in names]})}


def secret(**values: str) -> dict[str, str]:
    data = {
        name.replace("_", "."): base64.b64encode(text.encode()).decode()
        for name, text in values.items()
    }
    return {"out": json.dumps({"data": data})}


def not_found(what: str) -> dict[str, Any]:
    return {"err": f"Error from server (NotFound): {what} not found\n", "code": 1}


def stays(port: int) -> dict[str, Any]:
    return {"out": f"Forwarding from 127.0.0.1:{port} -> 7480\n", "stays_s": 60}


@pytest.fixture
def front_end() -> Iterator[tuple[FakeManagement, int]]:
    fake = FakeManagement()  # type: ignore[abstract]
    server, address = fake_management.serve(fake)
    yield fake, int(address.rpartition(":")[2])
    server.stop(None)


def test_the_only_bus_is_the_one(kubectl: FakeKubectl) -> None:
    kubectl.answers(get=listed("flights"))

    assert cluster.find(Kubectl(), "") == BusKey("shop", "flights")


def test_several_buses_must_be_told_apart(kubectl: FakeKubectl) -> None:
    kubectl.answers(get=listed("flights", "orders"))

    with pytest.raises(CliError, match=r"'shop': flights, orders\. Choose one with --bus NAME"):
        cluster.find(Kubectl(), "")


def test_no_bus_says_where_it_looked(kubectl: FakeKubectl) -> None:
    kubectl.answers(get=listed(), config={"out": "shop"})

    with pytest.raises(NotFound, match=r"no BusNamespace in namespace 'shop' of context 'prod'"):
        cluster.find(Kubectl("prod"), "")


def test_a_bus_that_is_not_there_is_named(kubectl: FakeKubectl) -> None:
    kubectl.answers(get=not_found('busnamespaces.bendybus.io "nope"'), config={"out": ""})

    with pytest.raises(NotFound, match=r"no BusNamespace 'nope' in namespace 'default'"):
        cluster.find(Kubectl(), "nope")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            not_found('secrets "x"'),
            r"shop/flights-rootm.* does not exist yet; the operator creates it",
        ),
        (
            {"err": 'Error from server (Forbidden): secrets "x" is forbidden: …\n', "code": 1},
            r"You may not read Secret shop/flights-root.*--connection-string",
        ),
        (secret(ca_crt="PEM"), r"has no primaryConnectionString\. Delete it"),
    ],
)
def test_a_secret_that_cannot_be_used_says_why(
    kubectl: FakeKubectl, answer: dict[str, Any], sentence: str
) -> None:
    kubectl.answers(get_secret=answer)

    with pytest.raises(CliError, match=sentence):
        cluster.read_access(Kubectl(), BusKey("shop", "flights"))


def test_keys_show_nowhere(kubectl: FakeKubectl) -> None:
    kubectl.answers(get_secret=secret(primaryConnectionString=STRING, ca_crt="PEM"))

    access = cluster.read_access(Kubectl(), BusKey("shop", "flights"))

    assert access == Access(STRING, "PEM")
    assert KEY not in repr(access)
    assert KEY not in json.dumps(kubectl.calls())


def test_only_the_address_of_a_connection_string_moves() -> None:
    moved = cluster.moved(STRING + ";EntityPath=q", "127.0.0.1:99")

    assert moved == (
        f"Endpoint=sb://127.0.0.1:99;SharedAccessKeyName=R;SharedAccessKey={KEY};EntityPath=q"
    )


def test_a_bus_is_reached_through_a_port_forward_that_ends_with_the_block(
    kubectl: FakeKubectl,
) -> None:
    kubectl.answers(
        get_secret=secret(primaryConnectionString=STRING, ca_crt="PEM"),
        get=listed("flights"),
        **{"port-forward": stays(4711)},
    )

    with cluster.reached(ClusterChoice("prod"), {}) as (where, trusted):
        assert where.startswith("Endpoint=sb://127.0.0.1:4711;")
        assert trusted is not None
        assert trusted.read_text() == "PEM"
        call = kubectl.calls()[-1]
        os.kill(call["pid"], 0)

    assert call["arguments"] == [
        "--context=prod",
        "--namespace=shop",
        "port-forward",
        "service/flights-frontend",
        ":7480",
        "--address=127.0.0.1",
    ]
    assert not trusted.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(call["pid"], 0)


@pytest.mark.parametrize(("context", "direct"), [("", True), ("prod", False)])
def test_in_a_pod_the_service_is_reached_by_its_name(
    kubectl: FakeKubectl, context: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda host, port: [])
    kubectl.answers(
        get_secret=secret(primaryConnectionString=STRING, ca_crt="PEM"),
        get=listed("flights"),
        **{"port-forward": stays(4711)},
    )

    with cluster.reached(ClusterChoice(context), {"KUBERNETES_SERVICE_HOST": "x"}) as (where, _):
        assert (where == STRING) is direct


def test_a_forward_that_breaks_is_made_again_on_the_same_port(kubectl: FakeKubectl) -> None:
    ends = {"out": "Forwarding from 127.0.0.1:4711 -> 7480\nerror: lost connection to pod\n"}
    kubectl.answers(**{"port-forward": [{**ends, "code": 1}, stays(4711)]})

    with cluster.forwarded(Kubectl(), "flights-frontend", 7480) as port:
        over_at = time.monotonic() + 20
        while len(kubectl.calls()) < 2 and time.monotonic() < over_at:
            time.sleep(0.02)

    assert port == 4711
    assert [call["arguments"][2] for call in kubectl.calls()] == [":7480", "4711:7480"]


def test_a_forward_that_never_works_says_what_kubectl_said(kubectl: FakeKubectl) -> None:
    kubectl.answers(**{"port-forward": not_found('services "flights-frontend"')})

    with (
        pytest.raises(Unreachable, match=r'service/x: services "flights-frontend" not found\.'),
        cluster.forwarded(Kubectl(), "x", 7480),
    ):
        pass


def test_a_forward_that_says_nothing_is_given_up(kubectl: FakeKubectl) -> None:
    kubectl.answers(**{"port-forward": {"stays_s": 60}})

    # On a busy machine it may be given up before it even began: then it gets longer.
    ready_s = 0.3
    while not kubectl.calls():
        with (
            pytest.raises(Unreachable, match=rf"not ready within {ready_s:.0f} s"),
            cluster.forwarded(Kubectl(), "x", 7480, ready_s=ready_s),
        ):
            pass
        ready_s *= 4

    with contextlib.suppress(ProcessLookupError):
        os.kill(kubectl.calls()[0]["pid"], 0)
        raise AssertionError("the process is still there")


def test_a_command_works_on_a_bus_of_a_cluster(
    kubectl: FakeKubectl,
    front_end: tuple[FakeManagement, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake, port = front_end
    fake.add("orders", Origin.MANIFEST)
    plain = "Endpoint=sb://x:7480;UseDevelopmentEmulator=true"
    kubectl.answers(
        get_secret=secret(primaryConnectionString=plain),
        get=listed("flights"),
        **{"port-forward": stays(port)},
    )

    listing = main(["--context", "prod", "get", "queues"])
    deleting = main(["--context", "prod", "delete", "queue", "orders", "--yes"])
    printed = capsys.readouterr()

    assert (listing, deleting) == (0, 1)
    assert "orders" in printed.out
    assert "the operator would recreate it" in printed.err
    assert "delete orders" not in fake.calls


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (["up", "-f", "x"], "kubectl apply"),
        (["ps"], "kubectl get pods"),
        (["partition", "stop", "3"], "kubectl delete pod NAME-partition-3"),
        (["store", "inspect", "3"], "kubectl exec"),
    ],
)
def test_what_only_a_local_bus_has_says_what_to_use_instead(
    command: list[str], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--kube", *command])

    assert code == 2
    assert instead in capsys.readouterr().err


def test_two_ways_to_name_a_bus_are_one_too_many(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main(["--kube", "--data", str(tmp_path), "get"])

    assert code == 2
    assert "not two" in capsys.readouterr().err


def test_a_command_that_is_ended_ends_its_forward(kubectl: FakeKubectl) -> None:
    kubectl.answers(**{"port-forward": stays(4711)})

    with pytest.raises(KeyboardInterrupt), cluster.forwarded(Kubectl(), "x", 7480):
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(ProcessLookupError):
        os.kill(kubectl.calls()[0]["pid"], 0)
