"""Worlds of sessions with every kind of trouble; and what breaks a rule on purpose is seen."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.partition_server.state.session_queue import SessionReadySet
from bendybus.partition_server.store.records import Changes
from tests.partition_server.memory_store import MemoryStore
from tests.simulation import virtual_time
from tests.simulation.session_history import History
from tests.simulation.session_world import World, world

# Seed 5 meets five kinds of faults only; each of these meets at least six.
SEEDS = (*range(5), 6, 7, 168)
_KINDS = 8


def lived(seed: int, patch: pytest.MonkeyPatch, seconds: float = 20.0) -> World:
    """Return a world that has ended."""
    made: World = virtual_time.run(world(seed, seconds), patch)
    return made


@pytest.mark.requirement("R70", "R72", "R103", "R104", "R105")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_sessions_are_exclusive_in_order_and_lose_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lived(seed, monkeypatch)

    assert made.broken() == []
    assert sum(map(len, made.history.completed.values())) > 100
    assert len(made.faults) >= _KINDS - 2


def test_a_seed_gives_the_same_world_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (lived(3, monkeypatch, 5.0) for _ in range(2))

    assert one.faults == other.faults
    assert one.history.completed == other.history.completed


# Each rule, broken on purpose


def _keeps_what_was_completed(commit: Callable[..., None]) -> Callable[..., None]:
    def broken(store: MemoryStore, changes: Changes) -> None:
        kept = [store._rows[each] for each in changes.deletes if each in store._rows]
        commit(store, changes)
        for row in kept[:1]:
            if row.counter % 9 == 0:
                store._rows[row.id] = row

    return broken


def _drops_inserts(commit: Callable[..., None]) -> Callable[..., None]:
    def broken(store: MemoryStore, changes: Changes) -> None:
        commit(store, changes)
        for row in changes.inserts[:1]:
            if row.counter % 9 == 0:
                store._rows.pop(row.id, None)

    return broken


def _forgets_a_state(commit: Callable[..., None]) -> Callable[..., None]:
    def broken(store: MemoryStore, changes: Changes) -> None:
        changes.session_states.clear()
        commit(store, changes)

    return broken


def _behind(give_back: Callable[..., None]) -> Callable[..., None]:
    def broken(ready: SessionReadySet, counter: int, lock: Any) -> None:
        if counter % 3:
            give_back(ready, counter, lock)

    return broken


BROKEN: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "returned": (MemoryStore, "commit", _keeps_what_was_completed),
    "lost": (MemoryStore, "commit", _drops_inserts),
    "state": (MemoryStore, "commit", _forgets_a_state),
    "overtaken": (SessionReadySet, "give_back", _behind),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_on_purpose_is_seen(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name, broken = BROKEN[rule]
    monkeypatch.setattr(place, name, broken(getattr(place, name)))

    seen: set[str] = set()
    for seed in range(4):
        seen |= {each.split(":")[0] for each in lived(seed, monkeypatch, 8.0).broken()}
        if rule in seen:
            break

    assert rule in seen


def test_the_history_sees_two_receivers_and_a_message_out_of_order() -> None:
    history = History()
    history.stored["s"] += [1, 2, 3]
    one = history.accepted("s")
    history.delivered(one, 1)
    history.delivered(one, 3)
    history.delivered(one, 2)
    other = history.accepted("s")
    history.settled(one, 1, known=True, began_as_holder=history.is_holder(one))
    history.settled(other, 1, known=True, began_as_holder=history.is_holder(other))

    found = [each.split(":")[0] for each in history.violations]
    assert found == ["overtaken", "order", "exclusive", "twice"]
    assert history.lost() == {"s": {2, 3}}
