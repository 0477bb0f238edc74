"""Progress is for a person who watches, never for a program."""

import io
import sys

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
