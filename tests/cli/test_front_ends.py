"""`bendybus up --front-ends N`: several front ends of one local bus."""

import os
import random
import signal
import socket
from pathlib import Path

import pytest

from bendybus.cli import __main__ as command
from bendybus.cli.local import programs
from tests.cli.test_up import Start, alive, data, processes, ready, start, until

__all__ = ["data", "start"]
pytestmark = [pytest.mark.integration, pytest.mark.requirement("R367")]
THREE = ("--json", "--three")


def three_free() -> int:
    """Return a port that is free, with the two after it."""
    # By chance, since other test processes look for some at the same time.
    return next(
        first
        for first in iter(lambda: random.randint(programs.PORT_MIN, programs.last_port() - 9), 0)
        if all(programs.is_free_port(first + number) for number in range(9))
    )


def test_front_ends_listen_at_the_port_and_those_after_it(start: Start, data: Path) -> None:
    first = three_free()

    facts = ready(start(port=first, flags=THREE))

    fronts = [each for each in facts["processes"] if each["role"] == "frontend"]
    wanted = [f"127.0.0.1:{first + number}" for number in range(3)]
    assert facts["endpoints"] == wanted == [each["address"] for each in fronts]
    assert facts["endpoint"] == wanted[0]
    assert f"sb://{wanted[0]};" in facts["connection_string"]
    assert [each["name"] for each in fronts] == ["frontend-0", "frontend-1", "frontend-2"]
    assert len({each["log"] for each in facts["processes"]}) == 5
    metrics = [facts["metrics"][each["name"]] for each in fronts]
    assert metrics == [f"http://127.0.0.1:{first + 4 + 2 * n}/metrics" for n in range(3)]


def test_a_front_end_that_dies_comes_back_where_it_was_and_the_end_ends_all(
    start: Start, data: Path
) -> None:
    process = start(flags=THREE)
    facts = ready(process)
    pids = [each["pid"] for each in facts["processes"]]

    os.kill(facts["processes"][3]["pid"], signal.SIGKILL)
    until(lambda: processes(data)[3]["restarts"] == 1)
    until(lambda: processes(data)[3]["state"] == "running")
    again = processes(data)[3]
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=30)

    assert again["address"] == facts["endpoints"][1]
    assert code == 0
    assert not any(alive(pid) for pid in [*pids, again["pid"]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--front-ends", "0"), "--front-ends: 0 is outside 1 to 16."),
        (("--front-ends", "2", "--port", "65535"), "2 front ends need ports 65535 to 65536"),
    ],
)
def test_front_ends_that_cannot_be_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    code = command.main(["up", "--data", str(tmp_path), *options])

    assert code == 2
    assert said in capsys.readouterr().err


def test_a_port_of_the_second_front_end_that_is_taken_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = three_free()
    with socket.create_server(("127.0.0.1", first + 1)):
        code = command.main(
            ["up", "--data", str(tmp_path), "--port", str(first), "--front-ends", "2"]
        )

    assert code == 1
    assert f"Port {first + 1} is taken." in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        process = start(port=port)
        errors = process.communicate(timeout=30)[1]

    assert process.returncode == 1
    assert f"Port {port} is taken. Choose another with --port" in errors
