"""What every server does the same way."""

import json
import logging
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
