"""TLS on every hop and the roles that certificates name, between real processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusClient
from bendybus.client.exceptions import (
    ServiceBusConnectionError,
)
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from bendybus.wire import statuses
from bendybus.wire.contract_versions import FRONT_END
from tests.certificates import BUS, OPERATOR, OTHER_BUS, Authority
from tests.integration.processes import Process
from tests.integration.secured import (
    SecuredBus,
)
from tests.integration.traffic import receive_one, send_one
from tests.ports import free_port

# Roles


def call_counts(channel: grpc.Channel) -> Any:
    """Make a call that front end and operator may make."""
    stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
    return stub.GetCounts(partition_pb2.GetCountsRequest(partition=0), timeout=5)


def call_sends(channel: grpc.Channel) -> Any:
    """Open a stream that only a front end may open."""
    stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
    return list(stub.SendFrames(iter(()), timeout=5, metadata=(FRONT_END.said,)))


def call_forward(channel: grpc.Channel) -> Any:
    """Forward a frame of nothing, which only another partition may try."""
    stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
    with pytest.raises(grpc.RpcError) as refused:
        stub.Forward(partition_pb2.ForwardRequest(partition=0), timeout=5)
    if refused.value.code() is not grpc.StatusCode.INVALID_ARGUMENT:
        raise refused.value


@pytest.mark.parametrize(
    ("identity", "call", "cause"),
    [
        (f"{BUS}/partition", call_forward, ""),
        (f"{BUS}/frontend", call_forward, "wrong-role"),
        (OPERATOR, call_forward, "wrong-role"),
        (f"{OTHER_BUS}/partition", call_forward, "other-bus"),
        (f"{BUS}/frontend", call_counts, ""),
        (f"{BUS}/frontend", call_sends, ""),
        (OPERATOR, call_counts, ""),
        (OPERATOR, call_sends, "wrong-role"),
        (f"{BUS}/partition", call_counts, "wrong-role"),
        (f"{BUS}/partition", call_sends, "wrong-role"),
        (f"{OTHER_BUS}/frontend", call_counts, "other-bus"),
        (f"{OTHER_BUS}/frontend", call_sends, "other-bus"),
        ("spiffe://elsewhere/operator", call_counts, "no-identity"),
        (f"{BUS}/frontend/x", call_counts, "other-bus"),
    ],
)
def test_internal_calls_need_their_role(
    secured: SecuredBus, identity: str, call: Callable[[grpc.Channel], Any], cause: str
) -> None:
    with secured.partition_channel(secured.authority.issue(identity)) as channel:
        if not cause:
            call(channel)
            return
        with pytest.raises(grpc.RpcError) as refused:
            call(channel)
        error = statuses.from_rpc_error(refused.value)

    assert (error.reason, error.metadata["cause"]) == ("UNAUTHORIZED", cause)
    assert identity in error.message


def test_a_dns_name_that_looks_like_an_identity_is_none(secured: SecuredBus) -> None:
    pair = secured.authority.issue("spiffe://elsewhere/x", names=(OPERATOR,))

    with secured.partition_channel(pair) as channel, pytest.raises(grpc.RpcError) as refused:
        call_counts(channel)

    assert statuses.from_rpc_error(refused.value).metadata["cause"] == "no-identity"


def test_without_a_certificate_of_the_authority_nobody_reaches_a_partition(
    secured: SecuredBus,
) -> None:
    for pair in (None, Authority().issue(f"{BUS}/frontend")):
        with secured.partition_channel(pair) as channel, pytest.raises(grpc.RpcError) as refused:
            call_counts(channel)

        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_the_operator_is_who_its_own_root_signed_whatever_roots_of_other_buses_sign(
    make_secured: Callable[..., SecuredBus],
) -> None:
    """A partition trusts its bus's root and the operator's, as its ca.crt says, and no other."""
    operators, others = Authority("operator"), Authority("another bus")
    bus = make_secured(partitions=1, partition_trust=operators.pem)

    with bus.partition_channel(operators.issue(OPERATOR)) as channel:
        call_counts(channel)
    for identity in (OPERATOR, f"{BUS}/frontend"):
        with bus.partition_channel(others.issue(identity)) as channel:
            with pytest.raises(grpc.RpcError) as refused:
                call_counts(channel)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    # What a bus's own root signs for a front end is one; the operator's root is none of clients'.
    with bus.partition_channel(bus.authority.issue(f"{BUS}/frontend")) as channel:
        call_counts(channel)
    assert operators.pem not in (bus.frontend_tls / "ca.crt").read_bytes()


# TLS


def test_a_client_that_does_not_trust_the_authority_is_told_what_to_name(
    secured: SecuredBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        secured.client(connection_verify=None, retry_total=0) as client,
        pytest.raises(ServiceBusConnectionError, match="BENDYBUS_CA_FILE"),
    ):
        send_one(client)

    monkeypatch.setenv("BENDYBUS_CA_FILE", str(secured.ca_file))
    with secured.client(connection_verify=None) as client:
        send_one(client)
        receive_one(client)


def test_plain_text_to_a_tls_port_and_the_reverse_say_what_to_change(
    secured: SecuredBus, tmp_path: Path
) -> None:
    from tests.integration.processes import Bus

    plain = secured.connection_string() + ";UseDevelopmentEmulator=true"
    with (
        ServiceBusClient.from_connection_string(plain, retry_total=0) as client,
        pytest.raises(ServiceBusConnectionError, match="remove UseDevelopmentEmulator=true"),
    ):
        send_one(client)

    bus = Bus(tmp_path / "plain", partitions=1)
    try:
        tls = bus.connection_string.replace(";UseDevelopmentEmulator=true", "")
        with (
            ServiceBusClient.from_connection_string(tls, retry_total=0) as client,
            pytest.raises(ServiceBusConnectionError, match="add UseDevelopmentEmulator=true"),
        ):
            send_one(client)
    finally:
        bus.end()


@pytest.mark.parametrize("missing", ["tls.key", "ca.crt", "all"])
def test_a_server_without_its_files_says_what_is_missing(tmp_path: Path, missing: str) -> None:
    certificate, key = Authority().issue(f"{BUS}/frontend")
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": Authority().pem}
    folder = tmp_path / "tls"
    for name, content in files.items():
        if missing not in (name, "all"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)

    with pytest.raises(RuntimeError) as refused:
        Process(
            "bendybus.frontend",
            "serve",
            "--listen=127.0.0.1:0",
            "--partition=0=127.0.0.1:1",
            f"--tls-directory={folder}",
            log=tmp_path / "log",
        )

    name = "tls.crt" if missing == "all" else missing
    assert f"--tls-directory {folder}: {name}: no such file" in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_health_is_open_in_plain_text_and_nothing_else_is(
    make_secured: Callable[..., SecuredBus],
) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    ports = [free_port(), free_port()]
    make_secured(
        partitions=1,
        partition_options=(f"--health-listen=127.0.0.1:{ports[0]}",),
        front_end_options=(f"--health-listen=127.0.0.1:{ports[1]}",),
    )

    for port in ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)  # no types
            for service in ("", "live"):
                request = health_pb2.HealthCheckRequest(service=service)
                answer = health.Check(request, timeout=5)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            for service in ("internal.v1.PartitionService/GetCounts", "v1.SenderService/Send"):
                call: Any = channel.unary_unary(f"/bendybus.{service}", bytes, bytes)
                with pytest.raises(grpc.RpcError) as refused:
                    call(b"", timeout=5)
                assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
