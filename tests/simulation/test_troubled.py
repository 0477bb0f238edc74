"""Worlds with every kind of trouble; and every rule is broken on purpose once, and that is seen."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain import partitioning
from bendybus.frontend.core.send_failover import SendFailover
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state.producer_memory import Producers
from bendybus.partition_server.store.records import Changes
from tests.partition_server.memory_store import MemoryStore
from tests.simulation.troubled import TroubledBus, mend, storm, violations

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_goes_wrong_no_rule_is_broken(seed: int) -> None:
    bus = TroubledBus(seed)

    storm(bus)

    assert violations(bus) == set()


def test_the_storms_have_all_kinds_of_messages_and_trouble() -> None:
    worlds = [TroubledBus(seed) for seed in range(1, 5)]
    for bus in worlds:
        storm(bus)

    assert all(bus.due and bus.ends and bus.completed for bus in worlds)
    assert sum(bus.entity.generation for bus in worlds) > 2 * len(worlds)


# Each rule, broken on purpose

_commit = MemoryStore.commit


def _drops_inserts(store: MemoryStore, changes: Changes) -> None:
    # What was dropped before cannot be changed any more.
    there = store._rows.keys() | {row.id for row in changes.inserts}
    changes.updates[:] = [update for update in changes.updates if update.id in there]
    _commit(store, changes)
    for row in changes.inserts[:1]:
        if row.counter % 7 == 0:
            store._rows.pop(row.id)


def _keeps_what_was_completed(store: MemoryStore, changes: Changes) -> None:
    kept = [store._rows[id_] for id_ in changes.deletes if id_ in store._rows]
    _commit(store, changes)
    for row in kept:
        store._rows[row.id] = row


def _knows_no_repeat(*_: Any) -> None:
    return None


def _elsewhere(key: str, partition_count: int) -> int:
    return (len(key) + 1) % partition_count


def _never(*_: Any, **__: Any) -> list[Any]:
    return []


def _nothing_is_due(*_: Any, **__: Any) -> None:
    return None


BROKEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "lost": (MemoryStore, "commit", _drops_inserts),
    "returned": (MemoryStore, "commit", _keeps_what_was_completed),
    "doubled": (Producers, "find", _knows_no_repeat),
    "misplaced": (partitioning, "partition_of", _elsewhere),
    "stuck": (Partition, "sweep", _nothing_is_due),
    "immortal": (MemoryStore, "expiring", _never),
    "unfinished": (SendFailover, "due", _never),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_on_purpose_is_seen(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name, broken = BROKEN[rule]
    monkeypatch.setattr(place, name, broken)

    seen: set[str] = set()
    for seed in range(40):
        bus = TroubledBus(seed, silent_crashes=0.05)
        storm(bus, steps=150)
        seen |= violations(bus)
        if rule in seen:
            break

    assert rule in seen


def test_a_front_end_that_stood_still_reads_what_arrived_before_it_judges_by_the_time() -> None:
    bus = TroubledBus(1, silent_crashes=0)
    for n in range(10):
        bus.send([f"keyless-{n}"])
    bus.run_until(bus.now + 1)
    bus.freeze(4_000)
    for _ in range(100):
        bus.run_until(bus.now + 50)
        bus.tick()
    mend(bus)

    assert len(bus.acknowledged) == 10
    assert len(bus.stored()) == 10
