"""`send` without a body on a terminal says what it waits for."""

import io
import sys
from pathlib import Path

import pytest

from bendybus.cli.commands import send_command
from bendybus.cli.output import printing
from bendybus.cli.output.json_lines import Fields

pytestmark = pytest.mark.requirement("R377")


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Terminal, io.TextIOWrapper])
def test_what_is_read_from_the_keyboard_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: type
) -> None:
    monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(b"one\ntwo\n")))
    lines = [each and each.body for each in send_command._outgoing(None, None, Fields())]
    monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(b"one\ntwo\n")))
    whole = [each and each.body for each in send_command._read_raw(None)]

    asked = [
        "Reading messages from the keyboard, one per line; Ctrl-D ends.",
        "Reading one message from the keyboard; Ctrl-D ends it.",
    ]
    assert capsys.readouterr().err.splitlines() == (asked if kind is Terminal else [])
    assert (len(lines), whole) == (2, [b"one\ntwo\n"])


def test_no_bar_is_drawn_over_what_is_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"one\n")))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = send_command._is_keyboard(None)

    with printing.progress("sending", None, shown=not shown) as step:
        step(1)

    assert shown
    assert capsys.readouterr().err == ""


def test_a_file_is_not_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    path.write_text("one\n", encoding="utf-8")

    assert [*send_command._read(path), *send_command._read_raw(path)]
    assert capsys.readouterr().err == ""
