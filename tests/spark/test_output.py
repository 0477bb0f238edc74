"""What commands print of messages, whatever is in these."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.spark.commands import run, terminal
from bendybus.spark.errors import OptionError

pytestmark = pytest.mark.requirement("R312")


@pytest.mark.parametrize("form", ["table", "markdown"])
@pytest.mark.parametrize("text", ["[/INST] x", "[red]x", ":smile:"])
def test_texts_of_messages_are_no_markup(
    capsys: pytest.CaptureFixture[str], form: str, text: str
) -> None:
    terminal.show_rows(["reason"], [[text]], form, "none")

    assert text in capsys.readouterr().out


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_texts_of_messages_change_nothing_in_a_terminal(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    terminal.show_rows(["reason"], [["a\x1b[2Jb\x07\x9bc"]], form, "none")

    assert "a\ufffd[2Jb\ufffd\ufffdc" in capsys.readouterr().out


def test_an_error_changes_nothing_in_a_terminal_and_does_not_fill_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(**_: Any) -> None:
        raise OptionError("it has \x1b[2J" + "x" * 9_000)

    monkeypatch.setattr("typer.main.get_command", lambda app: failing)
    code = run.main(["load"])

    shown = capsys.readouterr().err
    assert code == run.WRONG_USAGE
    assert "it has \ufffd[2Jxxx" in shown
    assert len(shown) < 2_100


def test_numbers_that_count_have_commas_and_those_that_name_have_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal.show_rows(["sequence_number", "messages"], [[562949953421313, 12345]], "table", "none")

    assert "562949953421313   12,345" in capsys.readouterr().out.replace("     ", "   ")


def test_times_for_programs_have_their_zone(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 11, 23, 15, 0, tzinfo=UTC).astimezone().replace(tzinfo=None)

    terminal.show_rows(["start"], [[moment]], "json", "none")

    assert json.loads(capsys.readouterr().out) == {"start": "2026-11-23T15:00:00.000+00:00"}


def test_a_time_in_a_narrow_table_is_broken_between_date_and_time_of_day(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = ["x" * 60, datetime(2026, 11, 23, 15, 38, 16), "y" * 60]

    terminal.show_rows(["reason", "oldest", "sample"], [row], "table", "none")

    lines = capsys.readouterr().out.splitlines()
    assert any("2026-11-23" in line for line in lines)
    assert any("15:38:16" in line for line in lines)
