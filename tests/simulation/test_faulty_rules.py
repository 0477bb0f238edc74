"""Seeded runs in which rules raise now and then: each costs an answer, or a delay, nothing else."""

from random import Random

import pytest

from bendybus.partition_server.rules import locks, redeliver
from bendybus.partition_server.state.commands import Append, Ask, Deliver, Release, Settle
from tests.partition_server.faulty_rules import break_command, break_function
from tests.simulation.bus import Bus
from tests.simulation.test_simulation import drain, storm, wrong_figures


@pytest.mark.requirement("R250")
@pytest.mark.requirement("R251")
@pytest.mark.parametrize("seed", range(20))
def test_rules_that_raise_lose_nothing_and_store_nothing_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    luck = Random(seed)

    def unlucky(*_: object) -> bool:
        return luck.random() < 0.02

    bus = Bus(seed + 9_000)
    bus.expects_faults = True
    with monkeypatch.context() as patched:
        for kind in (Append, Settle, Deliver, Release, Ask):
            break_command(patched, kind, unlucky)
        break_function(patched, redeliver, "end_lock", unlucky)
        break_function(patched, locks, "lock", unlucky)
        storm(bus, steps=250)
    assert bus.faults

    assert not wrong_figures(bus)
    held = bus.stored()
    assert not [p for p in bus.acknowledged if p not in held.values() and p not in bus.delivered]
    assert not bus.completed_numbers & held.keys()
    assert not bus.failed & {*held.values(), *bus.delivered}
    keyed = [p for p in held.values() if not p.startswith("keyless")]
    assert len(keyed) == len(set(keyed))
    # Nothing is left behind: every message can be received.
    bus.run_until(bus.now + 120_000)
    drain(bus)
    assert not bus.stored()
