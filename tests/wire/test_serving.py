"""What every server does the same way."""

import json
import logging
import resource
from typing import Any

import pytest

from bendybus.wire import serving
from bendybus.wire.serving import JsonFormatter


def test_a_log_line_is_json_that_names_entity_partition_and_action() -> None:
    record = logging.makeLogRecord(
        {
            "name": "bendybus.test",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "queue %s: full",
            "args": ("orders",),
            "entity": "orders",
            "partition": 3,
            "action": "refuse",
        }
    )

    line = JsonFormatter().format(record)

    facts = json.loads(line)
    assert "\n" not in line
    assert facts["message"] == "queue orders: full"
    assert (facts["level"], facts["entity"], facts["partition"], facts["action"]) == (
        "warning",
        "orders",
        3,
        "refuse",
    )


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("[::]", False),
        ("10.0.0.1", False),
        ("bus.example.com", False),
        ("", False),
    ],
)
async def test_plain_text_where_others_reach_it_is_said_loudly(
    host: str, loopback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Server:
        def add_insecure_port(self, listen: str) -> int:
            return 7480

    with caplog.at_level(logging.WARNING):
        server: Any = Server()
        serving.open_port(server, f"{host}:7480", None, demand_client_certificate=False)

    assert ("WITHOUT TLS" in caplog.text) is not loopback


def test_lines_of_libraries_that_callers_can_cause_are_bounded_in_a_while() -> None:
    now = [0.0]
    lines = serving.LibraryLines(lambda: now[0])

    def record(name: str) -> logging.LogRecord:
        return logging.makeLogRecord({"name": name})

    written = sum(lines.filter(record("grpc._cython.cygrpc")) for _ in range(1_000))
    ours = sum(lines.filter(record("bendybus.frontend")) for _ in range(1_000))
    now[0] = serving.LIBRARY_EVERY_S
    next_one = record("asyncio")

    assert written == serving.LIBRARY_LINES_MAX
    assert ours == 1_000
    assert lines.filter(next_one)
    assert json.loads(JsonFormatter().format(next_one))["unsaid"] == 1_000 - written


def test_a_server_takes_no_more_connections_than_it_has_files_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limit.__setitem__(0, wanted))

    assert serving.connections_max(5_000) == 4_096 - serving.FILES_SPARE
    assert serving.connections_max(5_000, 4) == (4_096 - serving.FILES_SPARE) // 4
    limit[0] = (1_024, 1_000_000)
    assert serving.connections_max(5_000) == 5_000
    limit[0] = (1_024, resource.RLIM_INFINITY)
    assert serving.connections_max(5_000) == 5_000
    assert serving.connections_max(5_000, 4) == 5_000
    assert limit[0][0] == 20_000 + serving.FILES_SPARE


def test_a_machine_that_refuses_so_many_files_gives_as_many_as_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As macOS, which starts with 256 files and no hard limit, but has one of its own."""
    limit = [(256, resource.RLIM_INFINITY)]

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limit[0] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limit[0])
    monkeypatch.setattr(resource, "setrlimit", set_limit)

    assert serving.connections_max(5_000, 7) == (8_782 - serving.FILES_SPARE) // 7
    limit[0] = (9_000, resource.RLIM_INFINITY)
    assert serving.connections_max(5_000, 7) == (9_000 - serving.FILES_SPARE) // 7
