"""A sweep that raises delays what raised; other sweeps, entities and commands go on."""

from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import EVERY_STATE
from bendybus.partition_server.rules import (
    batch_delete,
    catalogue_entry,
    duplicates,
    expire,
    forwarded,
    redeliver,
    schedule,
    session_locks,
    settle,
)
from bendybus.partition_server.state import budget, faults
from bendybus.partition_server.state.answers import (
    Appended,
    Done,
    Failed,
    Settled,
)
from bendybus.partition_server.state.commands import (
    DeleteMessages,
    Settle,
)
from bendybus.partition_server.state.due_times import Sweep
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.faulty_rules import (
    break_function,
    break_sweep,
    is_internal,
)
from tests.partition_server.forwarding_driver import bodies, send
from tests.partition_server.session_driver import Sessions


@pytest.mark.requirement("R251")
def test_a_message_whose_expiry_raises_waits_and_the_others_expire(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create(dead_lettering_on_message_expiration=True)
    faulty.send(b"a", b"poison", b"c", time_to_live_ms=[1_000] * 3)
    mended: list[bool] = []
    with monkeypatch.context() as patched:
        break_function(
            patched, expire, "expire",
            lambda _turn, _queue, id_, *_: id_ & 0xFFFF == 2 and not mended,
        )  # fmt: skip
        faulty.advance(1_001)

        assert [row.payload for row in faulty.peek(dead_letter=True)] == [b"a", b"c"]
        assert faulty.sweep() == []
        assert faulty.partition.state.wait_ms(faulty.now) != 0
        assert [fault.work for fault in faulty.partition.state.faults.take()] == ["EXPIRY"]
        # It is tried again, less and less often.
        faulty.advance(faults.PAUSE_MS)
        assert len(faulty.partition.state.faults.take()) == 1
        faulty.advance(faults.PAUSE_MS)
        assert not faulty.partition.state.faults.take()

    faulty.advance(faults.PAUSE_MS_MAX)
    faulty.sweep()

    assert {row.payload for row in faulty.peek(dead_letter=True)} == {b"a", b"c", b"poison"}


@pytest.mark.requirement("R251")
def test_a_lock_whose_end_raises_waits_and_the_others_end(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create(lock_duration_ms=5_000)
    faulty.send(b"a", b"b", b"c")
    faulty.receive(3)
    with monkeypatch.context() as patched:
        break_function(
            patched, redeliver, "end_lock", lambda _turn, _queue, counter, _lock: counter == 2
        )
        faulty.advance(5_001)

        got = faulty.receive(3, stream="other")
        assert [row.payload for row, _ in got] == [b"a", b"c"]
        assert faulty.counts().locked == 3
        assert [fault.work for fault in faulty.partition.state.faults.take()] == ["LOCK_ENDS"]
        assert faulty.partition.state.wait_ms(faulty.now) != 0

    faulty.advance(faults.PAUSE_MS)

    assert [row.payload for row, _ in faulty.receive(3, stream="other")] == [b"b"]


@pytest.mark.requirement("R251")
def test_a_session_whose_end_raises_ends_later(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = sessions.driver
    driver.expects_faults = True
    sessions.send(("a", b"one"))
    sessions.accept("a")
    with monkeypatch.context() as patched:
        break_function(patched, session_locks, "_free", lambda *_: True)
        driver.advance(120_000)
        assert driver.partition.state.wait_ms(driver.now) != 0
        assert driver.partition.state.faults.take()

    driver.advance(faults.PAUSE_MS_MAX)

    sessions.accept("a", stream="other")


@pytest.mark.requirement("R251")
def test_a_scheduled_message_that_raises_waits_and_the_others_become_active(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    due_ms = [faulty.wall_ms + 1_000] * 3
    faulty.send(b"a", b"poison", b"c", scheduled_ms=due_ms)
    with monkeypatch.context() as patched:
        break_function(
            patched, schedule, "_activate", lambda _turn, _queue, summary: summary.counter == 2
        )
        faulty.advance(1_001)
        assert faulty.counts().active == 2
        assert faulty.partition.state.wait_ms(faulty.now) != 0

    faulty.advance(faults.PAUSE_MS)

    assert [row.payload for row, _ in faulty.receive(3)] == [b"a", b"c", b"poison"]


@pytest.mark.requirement("R251")
def test_keys_whose_purge_raises_are_purged_later_and_those_of_others_now(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    window: dict[str, Any] = {
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window_ms": 20_000,
    }
    faulty.create("orders", **window)
    faulty.create("audit", **window)
    for name in ("orders", "audit"):
        send(faulty, name, b"a", message_ids=["a"])
    slot = faulty.partition.state.queues.main_of(faulty.ref().uid).slot
    with monkeypatch.context() as patched:
        break_function(patched, duplicates, "_forgotten", lambda _turn, at: at == slot)
        faulty.advance(60_000)
        assert faulty.store.history(slot, 1 << 50, 9)
        assert [f.entity for f in faulty.partition.state.faults.take()] == ["orders"]

    faulty.advance(faults.PAUSE_MS)

    assert not faulty.store.history(slot, 1 << 50, 9)


@pytest.mark.requirement("R251")
def test_forwarding_that_raises_backs_off_and_that_of_other_queues_goes_on(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("audit", "copies"):
        faulty.create(name)
    faulty.create("orders", forward_to="audit")
    faulty.create("letters", forward_to="copies")
    with monkeypatch.context() as patched:
        break_function(
            patched, forwarded, "append",
            lambda _turn, _queue, batch, _source: any(map(_is_poison, batch.payloads)),
        )  # fmt: skip
        send(faulty, "orders", b"one", b"two", b"poison", b"four")
        send(faulty, "letters", b"five")
        faulty.sweep()

        # What is before it has gone on; what is behind keeps its order.
        assert bodies(faulty, "audit") == [b"one", b"two"]
        assert bodies(faulty, "orders") == [b"poison", b"four"]
        assert bodies(faulty, "copies") == [b"five"]
        noted = len(faulty.partition.state.faults.take())
        send(faulty, "orders", b"six")
        assert faulty.partition.sweep(faulty.now) is None
        for _ in range(10):
            faulty.advance(faults.PAUSE_MS)
        assert 1 <= noted + len(faulty.partition.state.faults.take()) < 8

    faulty.advance(faults.PAUSE_MS_MAX)

    assert bodies(faulty, "audit") == [b"one", b"two", b"poison", b"four", b"six"]


def _is_poison(payload: bytes) -> bool:
    return payload.startswith(b"poison")


@pytest.mark.requirement("R251")
def test_a_batch_delete_that_raises_is_answered_and_ends(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    faulty.send(*[b"m"] * 10, groups=(1,) * 10)
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    break_function(
        monkeypatch, batch_delete, "_go_on", lambda _turn, deletion, _budget: deletion.start > 0
    )

    [] = faulty.run(DeleteMessages("t", faulty.ref(), 100, 0, EVERY_STATE))
    [refused] = faulty.sweep()

    assert isinstance(refused, Failed)
    assert is_internal(refused.error)
    assert faulty.counts().active == 7
    monkeypatch.undo()
    [done] = faulty.run(DeleteMessages("t", faulty.ref(), 100, 0, EVERY_STATE))
    assert done == Done(7)


@pytest.mark.requirement("R251")
def test_a_settlement_that_raises_in_a_later_turn_is_answered_and_ends(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    faulty.send(*[b"m"] * 10, groups=(1,) * 10)
    tokens = [token for _, token in faulty.receive(10)]
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    begun: list[bool] = []
    break_function(
        monkeypatch, settle, "_go_on", lambda _turn, unsettled: unsettled.start > 0 and not begun
    )
    reason: dict[str, Any] = {"dead_letter_reason": "no"}

    assert faulty.run(Settle("s", 1, Disposition.DEAD_LETTER, b"".join(tokens), **reason)) == []
    [settled] = faulty.sweep()

    assert isinstance(settled, Settled)
    done = settled.count - len(settled.failures)
    assert done
    assert all(is_internal(error) for _, error in settled.failures)
    assert faulty.counts().dead_letter == done
    begun.append(True)
    # The locks of the others are what they were.
    again = [tokens[i] for i, _ in settled.failures]
    [] = faulty.run(Settle("s", 2, Disposition.DEAD_LETTER, b"".join(again), **reason))
    assert not faulty.sweep()[-1].failures


@pytest.mark.requirement("R251")
@pytest.mark.parametrize("kind", list(Sweep))
def test_a_kind_of_sweep_that_always_raises_backs_off_and_commands_go_on(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch, kind: Sweep
) -> None:
    faulty.create(lock_duration_ms=5_000)
    faulty.send(b"a", b"b", time_to_live_ms=[60_000] * 2)
    faulty.receive(1)
    break_sweep(monkeypatch, kind, lambda: True)
    state = faulty.partition.state
    monkeypatch.setattr(state, "sweeps_due", lambda now, **_: _due(state, kind, now))
    monkeypatch.setattr(state.due, "next_of", lambda due: due[0])
    faults_met = 0

    for _ in range(120):
        faulty.mono_ms += 1_000
        _sweep_if_it_can(faulty, kind)
        faults_met += len(state.faults.take())

    assert 2 <= faults_met < 12
    assert isinstance(faulty.send(b"c"), Appended)


def _due(state: Any, kind: Sweep, now: Any) -> list[Sweep]:
    return [kind] if state.faults.wait_ms(kind, now.mono_ms) <= 0 else []


def _sweep_if_it_can(driver: Driver, kind: Sweep) -> None:
    """Sweep once; where there is nothing to do for a kind, its rule raises of itself."""
    stage = driver.partition.sweep(driver.now)
    if stage is not None:
        assert not stage.changes
        driver.partition.apply(stage, driver.now)


@pytest.mark.requirement("R251")
def test_rows_of_a_deleted_queue_whose_removal_raises_are_removed_later(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    faulty.send(b"a")
    commit(faulty, EntityAction.DELETE, "orders")
    with monkeypatch.context() as patched:
        break_function(patched, catalogue_entry, "remove_dropped", lambda *_: True)
        faulty.sweep()
        assert faulty.partition.state.queues.dropped
        assert faulty.partition.state.wait_ms(faulty.now) != 0

    faulty.advance(faults.PAUSE_MS)

    assert not faulty.partition.state.queues.dropped


@pytest.mark.requirement("R251")
def test_a_kind_of_sweep_that_raised_is_not_due_before_its_time(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    faulty.send(b"a", time_to_live_ms=[1_000])
    state = faulty.partition.state
    with monkeypatch.context() as patched:
        break_sweep(patched, Sweep.EXPIRY, lambda: True)
        faulty.advance(1_001)
        assert len(state.faults.take()) == 1
        assert Sweep.EXPIRY not in state.sweeps_due(faulty.now, expiry_held=False)
        assert state.wait_ms(faulty.now) != 0

    faulty.advance(faults.PAUSE_MS)

    assert faulty.counts().active == 0
