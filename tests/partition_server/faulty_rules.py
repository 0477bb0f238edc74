"""Rules that are made to raise: after they did their work, so that there is something to undo."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain.errors import BusError
from bendybus.partition_server.broker.rule_table import COMMANDS, SWEEPS
from bendybus.partition_server.state.due_times import Sweep


class Bug(Exception):
    """What no rule should raise."""


def break_command(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], when: Callable[[Any], bool]
) -> None:
    """Let the rule of a kind of command raise for some of them."""
    rule = COMMANDS[kind]

    def handle(turn: Any, command: Any) -> Any:
        value = rule.handle(turn, command)
        if when(command):
            raise Bug(kind.__name__)
        return value

    monkeypatch.setitem(COMMANDS, kind, rule._replace(handle=handle))


def break_sweep(monkeypatch: pytest.MonkeyPatch, kind: Sweep, when: Callable[[], bool]) -> None:
    """Let a whole kind of sweep raise."""
    sweep = SWEEPS[kind]

    def handle(turn: Any) -> None:
        sweep(turn)
        if when():
            raise Bug(kind.name)

    monkeypatch.setitem(SWEEPS, kind, handle)


def break_function(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, when: Callable[..., bool]
) -> None:
    """Let a function of a rule raise after it did its work."""
    work = getattr(module, name)

    def broken(*args: Any, **options: Any) -> Any:
        value = work(*args, **options)
        if when(*args):
            raise Bug(name)
        return value

    monkeypatch.setattr(module, name, broken)


def poisoned(command: Any) -> bool:
    """Whether a command carries a message that is called poison."""
    return any(payload.startswith(b"poison") for payload in command.batch.payloads)


def is_internal(error: Any) -> bool:
    """Return whether an error is an internal error, as a bug in a rule is answered."""
    return type(error) is BusError and "internal error" in error.message
