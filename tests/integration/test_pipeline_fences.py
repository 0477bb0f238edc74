"""`bendybus pipeline fences` with a bus of real processes, without Spark."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bendybus.spark.bus import ConnectedSender
from bendybus.spark.commands import run
from bendybus.spark.options import Connection
from bendybus.spark.sink.lane import Attempt
from bendybus.spark.sink.task_writer import TaskWriter
from tests.integration.processes import Bus
from tests.integration.secured import LISTEN_KEY, SecuredBus

pytestmark = pytest.mark.requirement("R363")


@pytest.fixture
def queue(bus: Bus, new_queue: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BENDYBUS_CONNECTION_STRING", bus.connection_string)
    return new_queue(enable_partitioning=True)


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Put back what a command sets, which is a process of its own elsewhere."""
    names = ("bendybus.pipeline", "bendybus.client", "SQLQueryContextLogger", "py4j")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def write(queue: str, *bodies: str) -> int:
    """Write rows under the key k; return how many were stored."""
    attempt = Attempt("batch\0k", 0, 1, 1)
    writer = TaskWriter(attempt, lambda path: ConnectedSender(Connection(), path, 30.0), queue)
    return writer.write([{"body": body} for body in bodies]).stored


def fences(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run.main(["fences", *words, "--tasks", "4"])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_show_reset_and_adopt(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = ("--to", queue, "--idempotency-key", "k")
    assert write(queue, "a", "b") == 2

    code, shown = fences(capsys, "show", *named, "--format", "json")
    assert (code, shown.count('"rows": 2')) == (0, 1)
    code, shown = fences(capsys, "reset", *named)
    assert code == 1
    assert f"nothing is done without --yes: up to 2 messages of batch 0 of {queue}" in shown
    assert write(queue, "a", "b") == 0

    code, shown = fences(capsys, "reset", *named, "--yes")
    assert (code, shown) == (
        0, f"Reset: up to 2 messages of batch 0 of {queue} may be stored twice.\n",
    )  # fmt: skip
    assert write(queue, "a", "b") == 2

    code, shown = fences(capsys, "adopt", *named, "--yes")
    assert code == 0
    assert "a repeat of it by up to 4 tasks stores nothing" in shown
    assert write(queue, "x", "y", "z") == 0


def test_what_is_wrong_is_named(
    queue: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, sentence in (
        ((), "--checkpoint: set this one or --idempotency-key"),
        (("--checkpoint", str(tmp_path)), "is not the checkpoint of a query on this machine"),
        (("--idempotency-key", "other"), "knows no task of this write"),
    ):
        code, shown = fences(capsys, "reset", "--to", queue, *words)
        assert (code != 0, sentence in shown) == (True, True), shown


def test_who_may_only_listen_changes_nothing(
    secured: SecuredBus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    string = secured.connection_string(LISTEN_KEY, "listener")
    monkeypatch.setenv("BENDYBUS_CONNECTION_STRING", string)
    monkeypatch.setenv("BENDYBUS_CA_FILE", str(secured.ca_file))

    code, shown = fences(capsys, "adopt", "--to", "orders", "--idempotency-key", "k", "--yes")

    assert code == 1
    assert "Send" in shown
