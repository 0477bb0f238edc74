"""The short form of `make chaos`: a bus of real processes, load of every kind, a few faults."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import nemesis, running

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    # azure-servicebus leaves sockets of connections that broke to the garbage collector, which may
    # come at any time of a run. See sdk_leftovers.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Reconnects are what this is about; other tests of the process read the log again."""
    logger = logging.getLogger("bendybus")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def shown(seed: int, folder: Path, lasts_s: float) -> list[str]:
    """Do one run; return its violations, each with its history."""
    report, history = running.run(seed, folder, lasts_s)
    assert report.outcomes["send ok"] > 0
    return [
        "\n".join((f"{each.rule}: {each.text}", *history.excerpt(each.body, each.number)))
        for each in report.violations
    ]


def test_without_faults_every_message_of_shared_clients_comes_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nemesis, "plan", lambda *_: [])

    assert shown(1, tmp_path, 3.0) == []


@pytest.mark.parametrize("seed", [4, 6])
def test_whatever_breaks_the_history_is_sound(tmp_path: Path, seed: int) -> None:
    assert shown(seed, tmp_path, 5.0) == []
