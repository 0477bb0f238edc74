"""`bendybus up --amqp-port`: where front ends speak AMQP, and what else has a port."""

import socket
from pathlib import Path

import pytest

from bendybus.cli import __main__ as command
from tests.cli.test_front_ends import three_free
from tests.cli.test_up import Start, asked, data, ready, start, until

__all__ = ["data", "start"]
pytestmark = pytest.mark.integration


def test_an_amqp_port_that_was_free_and_is_taken_meanwhile_is_chosen_again(
    start: Start, data: Path
) -> None:
    (data / "taken-amqp").write_text("1", encoding="utf-8")
    (data / "asked").touch()

    process = start()
    until(lambda: asked(data, "amqp"))
    first = asked(data, "amqp")[0]
    with socket.create_server(("127.0.0.1", int(first.rpartition(":")[2]))):
        facts = ready(process)

    assert facts["amqp_endpoints"] == asked(data, "amqp")[1:]
    assert first not in facts["amqp_endpoints"]


def test_a_port_that_was_asked_for_is_not_chosen_for_anything_else(
    start: Start, data: Path
) -> None:
    first = three_free()

    facts = ready(start(port=first, flags=("--json", "--amqp-port", str(first + 1))))

    assert facts["amqp_endpoints"] == [f"127.0.0.1:{first + 1}"]
    assert asked(data, "health") != facts["amqp_endpoints"]


@pytest.mark.parametrize("number", [0, 2])
def test_ports_of_front_ends_must_not_overlap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    first = three_free()
    ports = ("--port", str(first), "--amqp-port", str(first + number))

    code = command.main(["up", "--data", str(tmp_path), "--front-ends", "3", *ports])

    assert code == 2
    said = capsys.readouterr().err
    assert f"--amqp-port: port {first + number} is needed for --port. Choose another" in said
