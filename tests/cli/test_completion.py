"""What a shell completes: the names that a bus has, where a command takes them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bendybus.domain import entity
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import run

pytestmark = pytest.mark.requirement("R368")


@pytest.fixture
def news(bus: FakeManagement, capsys: pytest.CaptureFixture[str]) -> FakeManagement:
    bus.add("orders", entity.Origin.CLIENT)
    bus.add("Notes", entity.Origin.CLIENT)
    for arguments in (
        ("topic", "news"),
        ("subscription", "news", "all"),
        ("subscription", "news", "alarms"),
        ("topic", "empty"),
    ):
        assert run(bus, "create", *arguments) == 0
    capsys.readouterr()
    return bus


def completed(bus: FakeManagement, typed: str, **environment: str) -> list[str]:
    """Return what bash is offered for the last word of a command line."""
    words = typed.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "bendybus.cli"],
        env={
            **os.environ,
            "BENDYBUS_CONNECTION_STRING": f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true",
            "_BENDYBUS_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(words) - 1),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("bendybus send ", ["Notes", "orders", "empty", "news"]),
        ("bendybus send ne", ["news"]),
        ("bendybus receive n", ["news/Subscriptions/alarms", "news/Subscriptions/all"]),
        ("bendybus peek news/Subscriptions/ala", ["news/Subscriptions/alarms"]),
        ("bendybus session list news/S", ["news/Subscriptions/alarms", "news/Subscriptions/all"]),
        ("bendybus describe topic ", ["empty", "news"]),
        ("bendybus describe subscription news ", ["alarms", "all"]),
        ("bendybus delete rule news al", ["alarms", "all"]),
        ("bendybus get ", ["queues", "topics", "subscriptions", "rules", "Notes", "orders"]),
        ("bendybus get topic n", ["news"]),
        ("bendybus get queue N", ["Notes"]),
        ("bendybus get subscription news al", ["alarms", "all"]),
        ("bendybus create queue o", []),
    ],
)
def test_names_are_completed_where_a_command_takes_them(
    news: FakeManagement, typed: str, offered: list[str]
) -> None:
    assert completed(news, typed) == offered


def test_contexts_are_completed(news: FakeManagement, tmp_path: Path) -> None:
    folder = tmp_path / "bendybus"
    folder.mkdir()
    found = {name: {"kube": True} for name in ("prod", "preview", "lab")}
    text = json.dumps({"current": "", "contexts": found})
    (folder / "contexts.json").write_text(text, encoding="utf-8")

    offered = completed(news, "bendybus context use pr", XDG_CONFIG_HOME=str(tmp_path))

    assert offered == ["preview", "prod"]
