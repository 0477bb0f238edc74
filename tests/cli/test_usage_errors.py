"""What is wrong with a command line, its streams, or an answer, is one sentence of this project."""

import os
import subprocess
import sys

import pytest
import typer

from bendybus.cli import __main__ as command
from bendybus.domain import entity
from tests.cli.fake_management import FakeManagement

Capture = pytest.CaptureFixture[str]


@pytest.mark.requirement("R440")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "--front-ends", "x"), "must be a whole number (got 'x')."),
        (("logs", "--tail", "-5"), "must be at least -1 (got '-5')."),
        (("top", "--interval", "x"), "must be a number (got 'x')."),
        (("top", "--interval", "9999"), "must be at most 3600.0 (got '9999')."),
        (("logs", "nobody"), "'nobody' is not one of 'all', 'partition', 'frontend'."),
        (("describe", "queue", "q", "-o", "x"), "'x' is not one of 'table', 'wide'"),
        (("up", "--data", ""), "--data: must name a folder (got '')."),
        (("--data", "", "get", "queues"), "--data: must name a folder (got '')."),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_it_must_be(
    words: tuple[str, ...], said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    code = command.main(words)

    text = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert said in text
    assert "Input should" not in text
    assert "Value error" not in text


@pytest.mark.requirement("R441")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_output_that_cannot_be_written_is_one_sentence(bus: FakeManagement) -> None:
    bus.add("orders", entity.Origin.CLIENT)
    where = f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true"

    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bendybus.cli", "--connection-string", where, "get", "queues"],
            stdout=full,
            stderr=subprocess.PIPE,
            # What is in a buffer is written once more at the end.
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            text=True,
            timeout=60,
        )

    assert (done.returncode, done.stderr) == (
        1,
        "bendybus: The output cannot be written: no space left on device. Make room, or write it "
        "elsewhere.\n",
    )


@pytest.mark.requirement("R441")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
@pytest.mark.parametrize("words", ["get queues", "delete queue orders", "--version"])
def test_streams_that_the_caller_closed_are_empty_or_not_read(
    bus: FakeManagement, closed: str, words: str
) -> None:
    bus.add("orders", entity.Origin.CLIENT)
    where = f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true"

    script = f'"$0" -m bendybus.cli --connection-string "$1" {words} {closed}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, where],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == (2 if "delete" in words else 0)
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("R441")
@pytest.mark.parametrize(
    ("cause", "code", "said"),
    [(KeyboardInterrupt(), 130, ""), (EOFError(), 1, "bendybus: Nothing was changed.")],
)
def test_a_question_is_interrupted_as_everything_is_and_no_answer_changes_nothing(
    bus: FakeManagement,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    cause: BaseException,
    code: int,
    said: str,
) -> None:
    bus.add("orders", entity.Origin.CLIENT)

    def asked(question: str, err: bool) -> bool:
        try:
            raise cause
        except (KeyboardInterrupt, EOFError):
            raise typer.Abort from None

    monkeypatch.setattr(typer, "confirm", asked)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    where = f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true"

    found = command.main(["--connection-string", where, "delete", "queue", "orders"])

    assert (found, capsys.readouterr().err.strip()) == (code, said)
