"""Bugs that are planted in rules: an exception at one line of a rule, each time it comes there."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from bendybus.partition_server.broker.rule_table import COMMANDS, SWEEPS
from bendybus.partition_server.rules import catalogue_entry, receive

_ROOMS: Final = ("/partition_server/rules/", "/partition_server/state/")
# What takes back, or notes, what a bug did: a bug in here reopens the file.
_EXEMPT: Final = ("/state/journal.py", "/state/turn.py", "/state/faults.py", "/state/budget.py")

# A line, and the how-manieth time it is run.
Place = tuple[str, int, int]


class Planted(Exception):
    """A bug."""


class Bug:
    """An exception at one place, while `rule` or a sweep runs; without a place, what is run."""

    def __init__(self, place: Place | None = None) -> None:
        self.place = place
        self.target: Any = None
        self.met = 0
        self.lines: list[Place] = []
        self._counts: dict[tuple[str, int], int] = {}

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Watch what is run."""
        self._counts.clear()
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(room in name for room in _ROOMS) or name.endswith(_EXEMPT):
            return None
        return self._line

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event != "line":
            return self._line
        at = frame.f_code.co_filename, frame.f_lineno
        count = self._counts[at] = self._counts.get(at, 0) + 1
        place = (*at, count)
        if self.place is None:
            self.lines.append(place)
        elif place == self.place:
            self.met += 1
            raise Planted(f"{at[0].rsplit('/', 1)[1]}:{at[1]} ({count})")
        return self._line

    def places(self) -> list[Place]:
        """Return the places to plant bugs at: the first and the last time each line is run."""
        last: dict[tuple[str, int], int] = {}
        for name, line, count in self.lines:
            last[name, line] = count
        return list(
            dict.fromkeys(
                (name, line, count) for (name, line), most in last.items() for count in (1, most)
            )
        )


def plant(monkeypatch: pytest.MonkeyPatch, bug: Bug, target: Any, *, serving: bool = False) -> None:
    """Let the rule of a command, or every sweep (None), run under a bug."""
    if target is None:
        for kind, sweep in SWEEPS.items():
            monkeypatch.setitem(SWEEPS, kind, _armed(bug, sweep))
        remove = catalogue_entry.remove_dropped
        monkeypatch.setattr(catalogue_entry, "remove_dropped", _armed(bug, remove))
        return
    if serving:
        monkeypatch.setattr(receive, "serve", _armed(bug, receive.serve))
        return
    rule = COMMANDS[type(target)]

    def handle(turn: Any, command: Any) -> Any:
        if command is not target:
            return rule.handle(turn, command)
        with bug.armed():
            return rule.handle(turn, command)

    monkeypatch.setitem(COMMANDS, type(target), rule._replace(handle=handle))


def _armed(bug: Bug, work: Callable[..., Any]) -> Callable[..., Any]:
    def armed(*args: Any) -> Any:
        with bug.armed():
            return work(*args)

    return armed
