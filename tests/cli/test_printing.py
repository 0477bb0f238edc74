"""Progress is for a person who watches, never for a program."""

import io
import sys
from typing import Any, cast

import pytest

from bendybus.cli.output import printing


class Screen(io.StringIO):
    """Standard error that is, or is not, a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Say what it is."""
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_long_work_shows_a_bar_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")

    with printing.progress("sending", 10) as step:
        step(10)

    assert ("sending" in screen.getvalue()) is terminal


class Pieces(io.RawIOBase):
    """A pipe that keeps apart what is written at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def writable(self) -> bool:
        """Say that it is."""
        return True

    def write(self, piece: Any) -> int:
        """Take a piece."""
        self.written.append(bytes(piece))
        return len(self.written[-1])


@pytest.mark.requirement("R582")
def test_a_line_is_written_in_one_piece_where_python_buffers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = Pieces()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(cast(Any, pipe), write_through=True))

    printing.json_line({"body": "0"})
    printing.line("one")
    printing.table(["NAME"], [["orders"]])

    assert pipe.written == [b'{"body": "0"}\n', b"one\n", b"NAME\n", b"orders\n"]
