"""Credentials: what is taken, what travels, and when a credential is asked again."""

import asyncio
import ssl
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.core import settings
from bendybus.client.core.credentials import SCOPE, Credentials
from bendybus.client.exceptions import ServiceBusAuthenticationError
from bendybus.domain.errors import RetryableError, Unauthenticated
from tests import certificates
from tests.client.fake_front_end import FakeFrontEnd


class Identity:
    """A TokenCredential as azure-identity's: `get_token(*scopes)`."""

    def __init__(self, lasts_s: float = 3_600, token: str = "jwt") -> None:
        self.asked: list[tuple[str, ...]] = []
        self.threads: list[str] = []
        self._lasts_s = lasts_s
        self._token = token
        self.now_s = 1_000.0

    def get_token(self, *scopes: str, **options: Any) -> Any:
        self.asked.append(scopes)
        self.threads.append(threading.current_thread().name)
        return SimpleNamespace(
            token=f"{self._token}-{len(self.asked)}", expires_on=self.now_s + self._lasts_s
        )


class AsyncIdentity(Identity):
    """The same of `azure.identity.aio`; it knows on which loop it was asked."""

    loops: list[Any]

    async def get_token(self, *scopes: str, **options: Any) -> Any:
        self.loops = [*getattr(self, "loops", []), asyncio.get_running_loop()]
        await asyncio.sleep(0)
        return super().get_token(*scopes)


async def header(credentials: Credentials) -> str:
    [(name, value)] = await credentials.metadata()
    assert name == "authorization"
    return value


@pytest.mark.parametrize("kind", [Identity, AsyncIdentity])
async def test_a_credential_is_asked_once_and_again_before_its_token_ends(
    kind: type[Identity],
) -> None:
    identity = kind()
    credentials = Credentials(identity, "h", lambda: identity.now_s)

    first = [await header(credentials), await header(credentials)]
    identity.now_s += 3_600 - 299
    second = await header(credentials)

    assert first == ["Bearer jwt-1", "Bearer jwt-1"]
    assert second == "Bearer jwt-2"
    assert identity.asked == [(SCOPE,), (SCOPE,)]


async def test_many_calls_at_once_ask_once_and_off_the_io_thread() -> None:
    identity = Identity()
    credentials = Credentials(identity, "h", lambda: identity.now_s)

    found = await asyncio.gather(*(header(credentials) for _ in range(20)))

    assert set(found) == {"Bearer jwt-1"}
    assert identity.threads != [threading.current_thread().name]


async def test_a_refused_token_is_replaced() -> None:
    identity = Identity()
    credentials = Credentials(identity, "h", lambda: identity.now_s)

    await header(credentials)
    credentials.refused()

    assert await header(credentials) == "Bearer jwt-2"


async def test_a_shared_access_signature_of_a_credential_is_sent_as_it_is() -> None:
    identity = Identity(token="SharedAccessSignature sr=x")

    credentials = Credentials(identity, "h", lambda: identity.now_s)

    assert await header(credentials) == "SharedAccessSignature sr=x-1"


@pytest.mark.parametrize("given", ["", "jwt\nx", "jwt-ü", None])
async def test_a_token_that_cannot_travel_is_refused(given: Any) -> None:
    identity = SimpleNamespace(get_token=lambda *_: SimpleNamespace(token=given, expires_on=1e10))
    credentials = Credentials(identity, "h")

    with pytest.raises(Unauthenticated, match="get_token"):
        await credentials.metadata()


@pytest.mark.parametrize("bad", [5, ("name",), ("name", 5), ("name", "\ud800")])
def test_what_is_no_credential_is_refused_when_the_client_is_made(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="credential"):
        ServiceBusClient("localhost:1", bad)


def test_the_token_of_a_credential_travels_with_a_synchronous_client(fake: FakeFrontEnd) -> None:
    identity = Identity()
    identity.now_s = time.time()

    with (
        ServiceBusClient(f"127.0.0.1:{fake.port}", identity) as client,
        client.get_queue_sender("q") as sender,
    ):
        sender.send_messages(ServiceBusMessage("b"), timeout=10)

    assert fake.tokens == {"Bearer jwt-1"}


async def test_an_asynchronous_credential_is_asked_on_the_applications_loop(
    fake: FakeFrontEnd,
) -> None:
    identity = AsyncIdentity()
    identity.now_s = time.time()

    async with (
        aio.ServiceBusClient(f"127.0.0.1:{fake.port}", identity) as client,
        client.get_queue_sender("q") as sender,
    ):
        await sender.send_messages(ServiceBusMessage("b"), timeout=10)

    assert fake.tokens == {"Bearer jwt-1"}
    assert identity.loops == [asyncio.get_running_loop()]


def test_a_credential_that_fails_is_named(fake: FakeFrontEnd) -> None:
    def fail(*_: str) -> None:
        raise RuntimeError("not logged in")

    identity = SimpleNamespace(get_token=fail)
    with (
        ServiceBusClient(f"127.0.0.1:{fake.port}", identity, retry_total=0) as client,
        client.get_queue_receiver("q") as receiver,
    ):
        with pytest.raises(ServiceBusAuthenticationError, match="not logged in"):
            receiver.peek_messages()
        with pytest.raises(ServiceBusAuthenticationError, match="not logged in"):
            receiver.receive_messages(max_wait_time=5)


def test_a_bare_host_on_loopback_needs_no_word_of_plain_text(fake: FakeFrontEnd) -> None:
    with (
        ServiceBusClient(f"localhost:{fake.port}", ("k", "s")) as client,
        client.get_queue_sender("q") as sender,
    ):
        sender.send_messages(ServiceBusMessage("b"), timeout=10)

    assert len(fake.queues["q"].messages) == 1


async def test_a_port_is_asked_whether_it_speaks_tls(fake: FakeFrontEnd, tmp_path: Path) -> None:
    certificate, key = certificates.Authority().issue()
    certificates.mount_files(tmp_path, {"tls.crt": certificate, "tls.key": key})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = await asyncio.start_server(
        lambda _, writer: writer.transport.abort(), "127.0.0.1", 0, ssl=context
    )
    port = server.sockets[0].getsockname()[1]

    assert await settings.speaks_tls(f"127.0.0.1:{port}")
    assert not await settings.speaks_tls(f"127.0.0.1:{fake.port}")
    server.close()
    with pytest.raises(RetryableError, match="No bus answers"):
        await settings.speaks_tls(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1:5", True),
        ("[::1]:5", True),
        ("bus.example:7480", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_only_loopback_is_asked(host: str, local: bool) -> None:
    assert settings.is_loopback(host) is local
