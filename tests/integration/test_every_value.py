"""A value of any AMQP type goes through the command line and comes out as it was."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from bendybus.amqp.sections import Message
from tests.integration import every_value
from tests.integration.amqp import AmqpBus

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R598")]
ENDS_S: Final = 60.0
FEW: Final = settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Each example takes seconds, so a failing one is not made smaller.
    phases=[Phase.explicit, Phase.generate],
)
ASCII: Final = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
UTF_8: Final = {"LC_ALL": "C.UTF-8"}
_names = itertools.count(1)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("bus"), partitions=2)
    yield made
    made.end()


def new_queue(bus: AmqpBus) -> str:
    name = f"queue-{next(_names)}"
    with bus.administration() as administration:
        administration.create_queue(name)
    return name


def run(bus: AmqpBus, *given: str, terminal: dict[str, str] | None = None) -> bytes:
    """Run a command; return its output."""
    command = [sys.executable, "-m", "bendybus.cli", "--connection-string", bus.connection_string]
    environment = {**os.environ, **(terminal or UTF_8)}
    done = subprocess.run(
        [*command, *given], capture_output=True, timeout=ENDS_S, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode(errors="replace")
    return done.stdout


def strict(line: bytes) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(line, parse_constant=refuse)


@FEW
@given(every_value.batches())
def test_every_value_is_shown_on_any_terminal(bus: AmqpBus, messages: list[Message]) -> None:
    queue = new_queue(bus)
    every_value.send(bus, queue, messages)

    count = str(len(messages))
    for terminal in (ASCII, UTF_8):
        for output in ("table", "wide", "yaml"):
            run(bus, "peek", queue, "--max", count, "-o", output, terminal=terminal)
        shown = run(bus, "peek", queue, "--max", count, "-o", "json", terminal=terminal)
        ids = [strict(line)["message_id"] for line in shown.splitlines()]
        assert sorted(ids) == sorted(every_value.facts(messages))

    back = every_value.received(bus, queue, len(messages))
    assert every_value.facts(back) == every_value.facts(messages)


@FEW
@given(every_value.batches())
def test_every_value_that_is_printed_is_sent_again_as_it_was(
    bus: AmqpBus, tmp_path_factory: pytest.TempPathFactory, messages: list[Message]
) -> None:
    source, target = new_queue(bus), new_queue(bus)
    file = tmp_path_factory.mktemp("lines") / "messages.jsonl"
    every_value.send(bus, source, messages)

    count = str(len(messages))
    file.write_bytes(run(bus, "receive", source, "--max", count, "-o", "json", terminal=ASCII))
    run(bus, "send", target, "--from-file", str(file))

    back = every_value.received(bus, target, len(messages))
    assert every_value.facts(back) == every_value.facts(messages)


@FEW
@given(every_value.batches())
def test_a_dead_letter_with_any_value_is_resubmitted_as_it_was(
    bus: AmqpBus, messages: list[Message]
) -> None:
    queue = new_queue(bus)
    every_value.send(bus, queue, messages)
    with bus.client() as client, client.get_queue_receiver(queue, max_wait_time=10) as receiver:
        left = len(messages)
        while left:
            for each in receiver.receive_messages(left):
                receiver.dead_letter_message(each, reason="a test")
                left -= 1

    run(bus, "deadletter", "resubmit", queue, "--max", "100")

    back = every_value.received(bus, queue, len(messages))
    assert every_value.facts(back) == every_value.facts(messages)


@FEW
@given(every_value.batches())
def test_every_value_is_exported_of_a_partitions_file(
    bus: AmqpBus, messages: list[Message]
) -> None:
    queue = new_queue(bus)
    every_value.send(bus, queue, messages)

    lines = [
        strict(line)
        for file in sorted(Path(bus.folder).glob("partition-*.db"))
        for line in run(bus, "store", "export", str(file), terminal=ASCII).splitlines()
    ]

    found = {line["message_id"] for line in lines if line["entity"] == queue}
    assert len(found) == len(messages), lines[:1]
    every_value.received(bus, queue, len(messages))
