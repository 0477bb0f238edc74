"""What programs on official SDKs see while front ends are replaced: the table of the decision
docs/internals/decisions/20261128-a-connection-ends-without-a-word.md.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.sdks.programs import PROGRAMS, Program
from tests.sdks.replaced_bus import ReplacedBus

LOADED_S: Final = 30.0
REPLACEMENTS: Final = 4
REST_S: Final = 30.0
KINDS: Final = ("load", "later")
# Which loops an SDK may report errors of, whatever ends the connection: it repeats no request.
SHOWN: Final = {"java": {"schedule", "peek"}}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tls"])
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Any]:
    """What each program saw while the front ends of all of them were replaced."""
    for program in PROGRAMS:
        program.built()
    bus = ReplacedBus(tmp_path_factory.mktemp("bus"), tls=request.param)
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        bus.create_queues([f"{kind}-{each.sdk}" for each in PROGRAMS for kind in KINDS])
        for program in PROGRAMS:
            processes[program.sdk] = started(program, bus)
        for _ in range(REPLACEMENTS):
            time.sleep(LOADED_S / (REPLACEMENTS + 2))
            bus.replace_front_end()
        return {sdk: answer_of(process) for sdk, process in processes.items()}
    finally:
        for process in processes.values():
            with process:
                process.kill()
        bus.end()


def started(program: Program, bus: ReplacedBus) -> "subprocess.Popen[str]":
    process = program.opened(program.handover, bus.ca_file)
    assert process.stdin is not None
    queues = {kind: f"{kind}-{program.sdk}" for kind in KINDS}
    times = {"seconds": LOADED_S, "rest": REST_S}
    process.stdin.write(json.dumps({"connection": bus.connection_string, **queues, **times}))
    process.stdin.close()
    return process


def answer_of(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.read() or "null")


@pytest.mark.requirement("R518")
@pytest.mark.parametrize("sdk", [each.sdk for each in PROGRAMS])
def test_a_program_sees_nothing_of_front_ends_that_are_replaced(
    answers: Mapping[str, Any], sdk: str
) -> None:
    answer = answers[sdk]

    shown = SHOWN.get(sdk, set())
    assert [each for each in answer["errors"] if each.split(":")[0] not in shown] == []
    assert set(answer["done"]) == {"send", "receive", "schedule", "peek"}
    assert set(answer["acknowledged"]) <= set(answer["completed"])
