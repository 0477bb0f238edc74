"""Seeded runs of partitions that forward to each other while everything breaks: exactly once."""

from typing import Any

import pytest

from bendybus.partition_server.broker.rule_table import COMMANDS
from bendybus.partition_server.state.commands import TakeForwarded
from tests.simulation.forwarding import Forwarding, storm


def violations(world: Forwarding) -> list[str]:
    """Return what was forwarded twice, or is gone."""
    found = world.found()
    twice = sorted(name for name, count in found.items() if count > 1)
    lost = sorted(name for name in world.acknowledged if name not in found)
    left = world.waiting()
    return [
        *(f"twice: {name}" for name in twice),
        *(f"lost: {name}" for name in lost),
        *([f"{left} wait"] if left else []),
    ]


@pytest.mark.requirement("R253")
@pytest.mark.parametrize("seed", range(30))
def test_what_is_forwarded_arrives_exactly_once_whatever_breaks(seed: int) -> None:
    world = Forwarding(seed)

    storm(world)

    assert {world.ways[name] for name in world.acknowledged} == {"inbox", "news", "letters"}
    assert not violations(world)


@pytest.mark.requirement("R253")
def test_a_seed_is_the_same_run_again() -> None:
    first, second = Forwarding(3), Forwarding(3)
    storm(first, 150)
    storm(second, 150)

    assert first.found() == second.found()
    assert first.acknowledged == second.acknowledged


@pytest.mark.requirement("R253")
def test_a_destination_that_remembers_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = COMMANDS[TakeForwarded]

    def forgetful(turn: Any, command: Any) -> Any:
        monkeypatch.setattr(turn.partition.store.forwards, "known", lambda *_: set())
        return rule.handle(turn, command)

    monkeypatch.setitem(COMMANDS, TakeForwarded, rule._replace(handle=forgetful))
    found: list[str] = []
    for seed in range(6):
        world = Forwarding(seed)
        storm(world)
        found += violations(world)

    assert any(each.startswith("twice") for each in found)
