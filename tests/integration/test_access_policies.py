"""Rights of policies and tokens of clients, between real processes."""

import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusMessage
from bendybus.client.exceptions import (
    ClientAuthenticationError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)
from bendybus.frontend.listeners import grpc_methods
from bendybus.wire import statuses
from tests.integration.processes import Process, eventually
from tests.integration.secured import (
    LISTEN_KEY,
    MANAGE_KEY,
    OTHER_KEY,
    ROOT_KEY,
    ROOT_KEY_2,
    ROOT_POLICY,
    SEND_KEY,
    SecuredBus,
)
from tests.integration.traffic import Traffic, receive_one, send_one

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
        pytest.raises(ClientAuthenticationError, match="Manage"),
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
        pytest.raises(ClientAuthenticationError, match="whole namespace"),
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


# Tokens on open streams


class FreshTokens:
    """A credential object whose signature is read on each use; each is valid for a moment."""

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
