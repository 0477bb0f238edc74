"""Web pages of others do not use a bus on this machine that checks no key, whatever they send."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from bendybus.domain.limits import Tier
from tests.integration.processes import Bus
from tests.ports import HOST, free_port

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R586")]
FOREIGN = [
    {"Host": "evil.example"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
]
WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "AMQPWSB10",
}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Where a bus without policies serves HTTP, and metrics of both; `emulator` is its name."""
    ports = [free_port() for _ in range(3)]
    found = [f"{HOST}:{port}" for port in ports]
    changed = pytest.MonkeyPatch()
    changed.setenv("BENDYBUS_HOST_NAMES", "Emulator")
    bus = Bus(
        Path(tmp_path_factory.mktemp("bus")),
        partitions=1,
        tier=Tier.PREMIUM,
        front_end_options=(
            f"--shared-listen={found[0]}",
            f"--metrics-port={ports[1]}",
            "--host-name=Emulator",
        ),
        partition_options=(f"--metrics-port={ports[2]}",),
    )
    yield found
    bus.end()
    changed.undo()


@pytest.fixture
def address(addresses: list[str]) -> str:
    """Where it serves HTTP."""
    return addresses[0]


def asked(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Return the status and the body."""
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    for name, value in headers.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def upgraded(address: str, path: str, *also: str, **headers: str) -> str:
    """Return the first line of the answer to a request for a WebSocket; `also`: more headers."""
    host, _, port = address.rpartition(":")
    lines = [f"GET {path} HTTP/1.1"]
    given = {"Host": address} | WEBSOCKET | headers
    lines += [*(f"{name}: {value}" for name, value in given.items()), *also]
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        return raw.recv(1_000).split(b"\r\n")[0].decode()


@pytest.mark.parametrize("headers", FOREIGN, ids=json.dumps)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/$Resources/queues?api-version=2021-05"),
        ("PUT", "/orders?api-version=2021-05"),
        ("DELETE", "/orders?api-version=2021-05"),
        ("OPTIONS", "/orders"),
    ],
)
def test_a_foreign_page_gets_nothing(
    address: str, headers: dict[str, str], method: str, path: str
) -> None:
    status, said = asked(address, path, method, **headers)

    assert status == 403
    assert "BENDYBUS_HOST_NAMES" in said


@pytest.mark.parametrize("headers", FOREIGN, ids=json.dumps)
@pytest.mark.parametrize("path", ["/$servicebus/websocket", "/%24ServiceBus/WebSocket/"])
def test_a_foreign_page_opens_no_websocket(
    address: str, headers: dict[str, str], path: str
) -> None:
    assert upgraded(address, path, **headers) == "HTTP/1.1 403 Forbidden"


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://localhost:3000"}, {"Host": "emulator", "Origin": "http://emulator"}],
    ids=json.dumps,
)
def test_programs_and_pages_of_this_machine_are_served(
    address: str, headers: dict[str, str]
) -> None:
    assert asked(address, "/health", **headers)[0] == 200
    assert upgraded(address, "/$servicebus/websocket", **headers).startswith("HTTP/1.1 101")


@pytest.mark.parametrize("server", [0, 1, 2], ids=["HTTP", "front end", "partition server"])
def test_a_given_name_is_known_to_every_server(addresses: list[str], server: int) -> None:
    path = "/metrics" if server else "/health"

    assert asked(addresses[server], path, Host="emulator:1", Origin="http://EMULATOR")[0] == 200


def test_a_second_origin_is_looked_at(address: str) -> None:
    origins = [f"Origin: {each}" for each in ("http://localhost", "http://evil.example")]

    found = upgraded(address, "/$servicebus/websocket", *origins)

    assert found == "HTTP/1.1 403 Forbidden"


@pytest.mark.parametrize("server", [1, 2], ids=["front end", "partition server"])
def test_a_foreign_page_reads_no_metrics(addresses: list[str], server: int) -> None:
    assert asked(addresses[server], "/metrics")[0] == 200
    for headers in FOREIGN:
        status, said = asked(addresses[server], "/metrics", **headers)
        assert status == 403
        assert "BENDYBUS_HOST_NAMES" in said
