"""TLS, roles and tokens between real processes."""

import functools
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from bendybus.frontend.listeners import grpc_methods
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from bendybus.wire import statuses
from tests.certificates import BUS, OPERATOR, OTHER_BUS, Authority
from tests.integration.processes import Process, eventually
from tests.integration.secured import (
    ROOT,
    ROOT_KEY,
    ROOT_KEY_2,
    ROOT_POLICY,
    SecuredBus,
    policy,
)
from tests.integration.traffic import Traffic, receive_one, send_one
from tests.ports import free_port

SEND_KEY, LISTEN_KEY, MANAGE_KEY, OTHER_KEY = "send-key", "listen-key", "manage-key", "orders-key"
POLICIES = (
    ROOT,
    policy("sender", ["Send"], [SEND_KEY]),
    policy("listener", ["Listen"], [LISTEN_KEY]),
    policy("manager", ["Manage"], [MANAGE_KEY]),
    policy("orders-only", ["Send", "Listen"], [OTHER_KEY], "orders"),
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBus]:
    """A bus with policies of every kind and two queues, that no test breaks."""
    port = free_port()
    made = SecuredBus(
        tmp_path_factory.mktemp("secured"), POLICIES, front_end_options=(f"--metrics-port={port}",)
    )
    made.bus.metrics_port = port  # type: ignore[attr-defined]
    with made.administration() as administration:
        administration.create_queue("orders")
        administration.create_queue("bills")
    yield made
    made.end()


@pytest.fixture
def make_secured(tmp_path: Path) -> Iterator[Callable[..., SecuredBus]]:
    """Return a function that starts a bus with the queue `orders`; it is ended with the test."""
    made: list[SecuredBus] = []

    def make(**options: Any) -> SecuredBus:
        bus = SecuredBus(tmp_path / f"bus-{len(made)}", **options)
        made.append(bus)
        with bus.administration() as administration:
            administration.create_queue("orders")
        return bus

    yield make
    for bus in made:
        bus.end()


# Rights


def test_the_root_key_and_its_secondary_may_do_everything(secured: SecuredBus) -> None:
    for key in (ROOT_KEY, ROOT_KEY_2):
        with secured.client(key) as client, secured.administration(key) as administration:
            send_one(client)
            assert receive_one(client) == 1
            assert administration.get_queue("orders").name == "orders"
            assert len(list(administration.list_queues())) >= 2


def test_a_right_that_the_policy_lacks_is_refused_by_name(secured: SecuredBus) -> None:
    with (
        secured.client(SEND_KEY, "sender") as sends,
        secured.client(LISTEN_KEY, "listener") as listens,
    ):
        send_one(sends)
        with pytest.raises(ServiceBusAuthorizationError, match="'listener' does not grant Send"):
            send_one(listens)
        with pytest.raises(ServiceBusAuthorizationError, match="'sender' does not grant Listen"):
            receive_one(sends)
        with (
            sends.get_queue_receiver("orders") as receiver,
            pytest.raises(ServiceBusAuthorizationError, match="Listen") as refused,
        ):
            receiver.peek_messages(1)
        assert receive_one(listens) == 1

    assert refused.value.metadata["cause"] == "missing-right"


def test_manage_implies_send_and_listen_and_nothing_else_manages(secured: SecuredBus) -> None:
    with secured.client(MANAGE_KEY, "manager") as client:
        send_one(client)
        assert receive_one(client) == 1
    with (
        secured.administration(SEND_KEY, "sender") as administration,
        pytest.raises(ServiceBusAuthorizationError, match="Manage"),
    ):
        administration.create_queue("never")


def test_a_policy_on_a_queue_is_not_for_one_whose_name_begins_like_it(
    secured: SecuredBus,
) -> None:
    with secured.administration() as administration:
        administration.create_queue("orders/eu")

    with secured.client(OTHER_KEY, "orders-only") as client:
        with pytest.raises(ServiceBusAuthorizationError, match="orders/eu"):
            send_one(client, "orders/eu")
        with pytest.raises(ServiceBusAuthorizationError, match="orders/eu"):
            receive_one(client, "orders/eu")
        with client.get_queue_receiver(
            "orders", sub_queue="deadletter", max_wait_time=0.2
        ) as receiver:
            assert receiver.receive_messages(max_wait_time=0.2) == []


def test_a_policy_on_a_queue_is_for_that_queue_only(secured: SecuredBus) -> None:
    with secured.client(OTHER_KEY, "orders-only") as client:
        send_one(client)
        assert receive_one(client) == 1
        with pytest.raises(ServiceBusAuthorizationError, match="bills") as on_send:
            send_one(client, "bills")
        with pytest.raises(ServiceBusAuthorizationError, match="bills"):
            receive_one(client, "bills")
        # The refusals ended nothing that was allowed.
        send_one(client)
        assert receive_one(client) == 1
    with (
        secured.administration(OTHER_KEY, "orders-only") as administration,
        pytest.raises(ServiceBusAuthorizationError, match="whole namespace"),
    ):
        administration.create_queue("never")

    assert on_send.value.metadata["cause"] == "wrong-entity"


@pytest.mark.parametrize(
    ("credential", "cause"),
    [
        ((ROOT_POLICY, "a key of another namespace"), "wrong-key"),
        (("nobody", ROOT_KEY), "unknown-policy"),
        (None, "no-token"),
        ("SharedAccessSignature nonsense", "malformed-token"),
    ],
)
def test_who_is_not_known_is_told_why(secured: SecuredBus, credential: Any, cause: str) -> None:
    with secured.client_with(credential) as client:
        with pytest.raises(ServiceBusAuthenticationError) as on_send:
            send_one(client)
        with pytest.raises(ServiceBusAuthenticationError):
            receive_one(client)

    assert on_send.value.metadata["cause"] == cause
    assert on_send.value.reason == "UNAUTHENTICATED"


def test_a_fixed_token_works_until_it_expires_and_then_says_so(secured: SecuredBus) -> None:
    with secured.client_with(secured.token(60)) as client:
        send_one(client)
        assert receive_one(client) == 1
    with (
        secured.client_with(secured.token(-1)) as client,
        pytest.raises(ServiceBusAuthenticationError, match="has expired") as refused,
    ):
        send_one(client)

    assert refused.value.metadata["cause"] == "expired-token"


def test_every_call_of_clients_demands_a_token(secured: SecuredBus) -> None:
    credentials = grpc.ssl_channel_credentials(secured.bundle)
    with grpc.secure_channel(secured.bus.front_end_address, credentials) as channel:
        for name, method in grpc_methods.METHODS.items():
            make = channel.stream_stream if method.stream else channel.unary_unary
            call: Any = make(name, lambda request: request, lambda response: response)
            request = iter([b""]) if method.stream else b""
            with pytest.raises(grpc.RpcError) as refused:
                list(call(request, timeout=5))
            error = statuses.from_rpc_error(refused.value)

            assert (error.reason, error.metadata["cause"]) == ("UNAUTHENTICATED", "no-token")


def test_refusals_are_counted_and_logged_without_keys_or_tokens(secured: SecuredBus) -> None:
    secrets = (ROOT_KEY, ROOT_KEY_2, SEND_KEY, "wrong-key-of-this-test", "sig=")
    with secured.client("wrong-key-of-this-test") as client, pytest.raises(ServiceBusError) as bad:
        send_one(client)

    port = secured.bus.metrics_port  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{port}/metrics"
    metrics = urllib.request.urlopen(url, timeout=5).read().decode()
    logs = "".join(path.read_text() for path in secured.bus.folder.glob("*.log"))
    processes = [secured.bus.front_end, *secured.bus.partitions.values()]
    arguments = "".join(Path(f"/proc/{p.pid}/cmdline").read_text() for p in processes)

    assert 'bendybus_refused_callers_total{cause="wrong-key"}' in metrics
    assert f'"who": "{ROOT_POLICY}", "reason": "wrong-key"' in logs
    for secret in secrets:
        assert secret not in logs + metrics + arguments
        assert secret not in str(bad.value) + repr(bad.value) + repr(client)


# Roles


def call_counts(channel: grpc.Channel) -> Any:
    """Make a call that front end and operator may make."""
    stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
    return stub.GetCounts(partition_pb2.GetCountsRequest(partition=0), timeout=5)


def call_sends(channel: grpc.Channel) -> Any:
    """Open a stream that only a front end may open."""
    stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
    return list(stub.SendFrames(iter(()), timeout=5))


@pytest.mark.parametrize(
    ("identity", "call", "cause"),
    [
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


def test_nonsense_in_the_file_of_policies_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    file.write_text('{"policies": [{"name": "a", "rights": ["Read"], "keys": ["secret-key"]}]}')

    with pytest.raises(RuntimeError) as refused:
        Process(
            "bendybus.frontend",
            "serve",
            "--listen=127.0.0.1:0",
            "--partition=0=127.0.0.1:1",
            f"--access-policies={file}",
            log=tmp_path / "log",
        )

    assert "policies[0]: rights must be a list of Manage, Send, Listen" in str(refused.value)
    assert "secret-key" not in str(refused.value)
    assert "Traceback" not in str(refused.value)


# Rotation


def renewed(log: Path, times: int) -> bool:
    """Whether ways to partitions were made anew so often."""
    return log.read_text().count("new channels") == times


def reloads(bus: SecuredBus, log: str) -> int:
    """Return how often a process took new certificates."""
    return (bus.bus.folder / log).read_text().count("tls: new certificates are in use")


@pytest.mark.slow
def test_certificates_and_their_authority_are_exchanged_under_traffic(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    old, new = secured.authority, Authority("new authority")
    log = secured.bus.folder / "front-end.log"
    with secured.client() as client, Traffic(client, keyed=True) as traffic:
        traffic.goes_on()
        # The bundle first trusts both, then certificates change, then the old one goes.
        steps = [(old, old.pem + new.pem), (new, old.pem + new.pem), (new, new.pem)]
        for count, (secured.authority, secured.bundle) in enumerate(steps, 1):
            secured.issue("partition")
            secured.issue("frontend")
            eventually(functools.partial(renewed, log, 2 * count), what="new channels")
            traffic.goes_on()
    traffic.check()

    text = log.read_text()
    assert text.count("new channels") == 6
    assert "not connected yet" not in text
    assert "circuit breaker opened" not in text
    # Those who trust only the new authority are served, without a restart.
    secured.trust(new.pem)
    with secured.client() as client:
        send_one(client)
        assert receive_one(client) == 1
    secured.trust(old.pem)
    with secured.client(retry_total=0) as client, pytest.raises(ServiceBusConnectionError):
        send_one(client)
    assert reloads(secured, "front-end.log") == 3


def test_a_client_reads_its_authorities_again_when_they_were_exchanged(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured(partitions=1)
    with secured.client() as client:
        send_one(client)
        secured.authority = Authority("new authority")
        secured.bundle = secured.authority.pem
        secured.issue("partition")
        secured.issue("frontend")
        secured.bus.front_end.terminate()
        secured.bus.start_front_end()
        secured.trust(secured.bundle)

        send_one(client)
        assert receive_one(client) == 1


def test_commands_take_the_key_of_the_connection_string_and_a_file_of_authorities(
    secured: SecuredBus,
) -> None:
    def run(*arguments: str, ca_file: bool = True) -> subprocess.CompletedProcess[str]:
        trust = ["--ca-file", str(secured.ca_file)] if ca_file else []
        where = ["--connection-string", secured.connection_string()]
        command = [sys.executable, "-m", "bendybus.cli", *where, *trust, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    listed = run("get", "queues")
    sent = run("send", "bills", "hello")
    received = run("receive", "bills", "--max", "1", "--json")
    untrusting = run("get", "queues", ca_file=False)

    assert "orders" in listed.stdout
    assert sent.returncode == 0, sent.stderr
    assert "hello" in received.stdout
    assert untrusting.returncode == 4
    assert "--ca-file" in untrusting.stderr
    assert ROOT_KEY not in untrusting.stderr


def test_half_written_certificates_are_not_taken(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    log = secured.bus.folder / "front-end.log"
    certificate, key = secured.authority.issue(f"{BUS}/frontend")
    target = (secured.frontend_tls / "..data").resolve()

    (target / "tls.crt").write_bytes(certificate)
    eventually(lambda: "no pair of a PEM certificate" in log.read_text(), what="the refusal")
    with secured.client() as client:
        send_one(client)
        (target / "tls.key").write_bytes(key)
        eventually(lambda: reloads(secured, "front-end.log") == 1, what="the new pair")
        assert receive_one(client) == 1
    with secured.client() as client:
        send_one(client)


def refused(client: ServiceBusClient, why: str) -> bool:
    """Whether a send is refused for that reason; any other error fails the test."""
    try:
        send_one(client)
    except ServiceBusAuthenticationError as error:
        assert why in str(error)  # noqa: PT017
        return True
    return False


@pytest.mark.slow
def test_keys_are_exchanged_without_a_restart(make_secured: Callable[..., SecuredBus]) -> None:
    secured = make_secured()
    log = secured.bus.folder / "front-end.log"
    with secured.client(ROOT_KEY) as first, secured.client(ROOT_KEY_2) as second:
        send_one(first)
        with Traffic(second) as traffic:
            traffic.goes_on()
            secured.grant(
                [policy(ROOT_POLICY, ["Manage", "Send", "Listen"], ["new-primary", ROOT_KEY_2])]
            )
            eventually(lambda: "policies-reloaded" in log.read_text(), what="the new policies")
            # The old secondary works on; the removed key is refused, on open streams too: those are
            # asked to end, and take what was written before that arrives.
            eventually(lambda: refused(first, "not signed with a key"), what="the refusal")
            traffic.goes_on()
        assert traffic.errors == []
    with secured.client("new-primary") as client:
        send_one(client)


def test_a_bad_file_of_policies_leaves_the_good_one_in_use(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    log = secured.bus.folder / "front-end.log"

    (secured.policies / "..data" / "policies.json").write_text('{"policies": [{"keys": ["abc"')
    eventually(lambda: "policies-refused" in log.read_text(), what="the refusal")

    with secured.client() as client:
        send_one(client)
    assert "abc" not in log.read_text()


# Tokens on open streams


class FreshTokens:
    """A credential object whose signature is read anew; each is good for a moment only."""

    def __init__(self, bus: SecuredBus, lives_s: float) -> None:
        self._bus = bus
        self._lives_s = lives_s
        self.given: set[str] = set()

    @property
    def signature(self) -> str:
        """A new token."""
        made = self._bus.token(self._lives_s)
        self.given.add(made)
        return made


@pytest.mark.slow
def test_a_stream_outlives_its_token_when_the_client_has_new_ones(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    tokens = FreshTokens(secured, 2)
    with secured.client_with(tokens, retry_total=0) as client, Traffic(client) as traffic:
        eventually(lambda: traffic.errors or len(tokens.given) >= 4, what="four tokens")
    traffic.check()


def test_a_token_that_expires_on_a_live_stream_ends_what_it_allowed(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    with (
        secured.client_with(secured.token(3)) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("in time"))
        assert len(receiver.receive_messages(1, max_wait_time=5)) == 1
        # The wait outlives the token.
        with pytest.raises(ServiceBusAuthenticationError, match="has expired"):
            receiver.receive_messages(1, max_wait_time=30)
        with pytest.raises(ServiceBusAuthenticationError, match="has expired"):
            sender.send_messages(ServiceBusMessage("too late"))


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
