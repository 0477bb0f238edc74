"""A stage whose commit fails leaves every due time exactly as it was, its value or its absence."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition as D
from bendybus.domain.message_state import EVERY_STATE
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker.rule_table import AFTER_COMMIT
from bendybus.partition_server.broker.rule_table import COMMANDS as RULES
from bendybus.partition_server.rules import expire
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.answers import SessionResult
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    ConfirmSession,
    DeleteMessages,
    Now,
    RenewSession,
    Settle,
    StreamEnded,
    ToldSession,
)
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.pipeline_commands import DrainAction
from bendybus.partition_server.store.errors import StoreFailed
from tests.partition_server import (
    guard_picture,
    guard_pipelines,
    guard_scenarios,
    guard_sessions,
    guard_sweeps,
    guard_transactions,
    topic_changes,
)
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.due_picture import due_times
from tests.partition_server.faulty_rules import break_function
from tests.partition_server.guard_scenarios import Plan, Scenario
from tests.partition_server.guard_sessions import make_sessions
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.session_driver import Sessions

pytestmark = pytest.mark.requirement("R340")
FULL = errors.PartitionUnavailable("the disk is full.")


def sweep_deletion(driver: Driver) -> Plan:
    guard_scenarios.make_queues(driver)
    driver.send(*[b"m"] * 40, time_to_live_ms=[5_000] * 40)
    driver.run(DeleteMessages("t", driver.ref(), 40, 0, EVERY_STATE))
    return Plan()


def sweep_unfinished(driver: Driver) -> Plan:
    guard_scenarios.make_queues(driver)
    driver.send(*[b"m"] * 40, time_to_live_ms=[60_000] * 40)
    pairs = driver.receive(40)
    driver.run(Settle("s", 1, D.DEFER, b"".join(token for _, token in pairs)))
    return Plan()


def sweep_bodies(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    driver.run(Append("t", driver.ref("news"), Batch([b"x" * 3_000])))
    for entity in driver.partition.state.catalogue.subscriptions(
        driver.partition.state.queues.main_of(driver.ref("news").uid).entity
    ):
        ref = driver.ref(entity.name)
        driver.run(DeleteMessages("t", ref, 40, 0, EVERY_STATE))
        driver.run(
            DeleteMessages("t", ref._replace(sub_queue=SubQueue.DEAD_LETTER), 40, 0, EVERY_STATE)
        )
    # When they are collected is decided at the first look.
    driver.sweep()
    return Plan(advance_ms=1_000)


def sweep_publish(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    driver.run(Append("t", driver.ref("news"), Batch([b"x"] * 40), [1] * 40))
    return Plan()


def sweep_awaiting_room(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    due = [driver.wall_ms + 1_000] * 2
    batch = Batch([b"x"] * 2, formats=[1] * 2, heads=[b""] * 2, scheduled_ms=due)
    driver.run(Append("t", driver.ref("news"), batch, [1] * 2))
    driver.partition.state.sends_refused = "the volume is full"
    driver.advance(2_000)
    driver.partition.state.sends_refused = ""
    return Plan(advance_ms=1_000)


COMMANDS = (
    guard_scenarios.COMMANDS
    | guard_sessions.SCENARIOS
    | guard_pipelines.COMMANDS
    | guard_transactions.COMMANDS
)
SWEEPS = (
    guard_sweeps.SCENARIOS
    | guard_pipelines.SWEEPS
    | {
        each.__name__: each
        for each in (
            sweep_deletion,
            sweep_unfinished,
            sweep_bodies,
            sweep_publish,
            sweep_awaiting_room,
        )
    }
)


def made(scenario: Scenario) -> tuple[Driver, Plan]:
    """Return a partition as a scenario finds it, and what follows."""
    driver = Driver(MemoryStore(fingerprint()))
    return driver, scenario(driver)


def wait(driver: Driver, milliseconds: int) -> None:
    """Let time pass in which nothing is swept."""
    driver.wall_ms += milliseconds
    driver.mono_ms += milliseconds
    driver.partition.state.clock.waiting(driver.mono_ms - milliseconds, driver.mono_ms)
    driver.partition.state.clock.observe(driver.now)


def differences(driver: Driver, before: dict[str, Any]) -> list[str]:
    return guard_picture.differences(due_times(driver.partition.state), before)


def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 8)


def test_the_scenarios_have_every_command_that_decides() -> None:
    decided = {kind for kind, rule in RULES.items() if rule.phase not in AFTER_COMMIT}

    tried = {type(made(scenario)[1].target) for scenario in COMMANDS.values()}

    assert decided <= tried


def test_the_scenarios_have_every_kind_of_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    small_turns(monkeypatch)
    swept = set()
    for scenario in SWEEPS.values():
        driver, plan = made(scenario)
        wait(driver, plan.advance_ms)
        while (stage := driver.partition.sweep(driver.now)) is not None:
            swept.add(driver.partition._sweeper._last[0])  # type: ignore[index]
            driver.store.commit(stage.changes)
            driver.partition.apply(stage, driver.now)

    # None: what deleted queues leave behind.
    assert swept == {*Sweep, None}


@pytest.mark.parametrize("scenario", COMMANDS.values(), ids=COMMANDS)
def test_a_command_whose_commit_found_no_room_changes_no_due_time(scenario: Scenario) -> None:
    driver, plan = made(scenario)
    if RULES[type(plan.target)].phase in AFTER_COMMIT:
        return
    driver.partition.state.begin_turn()
    before = due_times(driver.partition.state)

    stage = driver.partition.decide([plan.target], driver.now)
    driver.partition.take_back(stage)

    assert differences(driver, before) == []
    assert guard_picture.amiss(driver) == []


@pytest.mark.parametrize("scenario", SWEEPS.values(), ids=SWEEPS)
def test_a_sweep_whose_commit_found_no_room_changes_no_due_time(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_turns(monkeypatch)
    driver, plan = made(scenario)
    wait(driver, plan.advance_ms)
    for _ in range(100):
        before = due_times(driver.partition.state)
        stage = driver.partition.sweep(driver.now)
        if stage is None:
            break

        driver.partition.take_back(stage)

        assert differences(driver, before) == []
        assert guard_picture.amiss(driver) == []
        # A kind later than the one that failed comes next; then this one again.
        again = driver.partition.sweep(driver.now)
        assert again is not None
        driver.store.commit(again.changes)
        driver.partition.apply(again, driver.now)
    else:
        raise AssertionError("sweeps do not come to an end")


@pytest.mark.parametrize("scenario", (COMMANDS | SWEEPS).values(), ids=COMMANDS | SWEEPS)
def test_what_an_io_error_ended_is_due_as_if_it_had_not_begun(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_turns(monkeypatch)
    driver, plan = made(scenario)
    twin, _ = made(scenario)
    for each in (driver, twin):
        wait(each, plan.advance_ms)

    if plan.target is None:
        stage = driver.partition.sweep(driver.now)
    else:
        stage = driver.partition.decide([plan.target], driver.now)
    assert stage is not None
    assert isinstance(driver.store, MemoryStore)
    driver.store.fail_next = StoreFailed("an I/O error")
    with pytest.raises(StoreFailed):
        driver.store.commit(stage.changes)

    for each in (driver, twin):
        each.restart()
    assert differences(driver, due_times(twin.partition.state)) == []


def test_a_session_ends_after_a_sweep_that_found_no_room(sessions: Sessions) -> None:
    driver = sessions.driver
    driver.create("busy", max_delivery_count=9)
    sessions.send(("a", b"0"))
    sessions.accept("a")
    # Another queue gives the same sweep something to write.
    driver.run(guard_scenarios.append(driver, b"m", name="busy"))
    receive(driver, "busy")
    wait(driver, 120_000)

    stage = driver.partition.sweep(driver.now)
    assert stage is not None
    assert stage.changes
    driver.partition.abandon(stage, FULL, driver.now)
    driver.sweep()

    sessions.accept("a", stream="other")


def receive(driver: Driver, name: str) -> None:
    """Receive a message of a queue, and keep it."""
    from bendybus.partition_server.state.answers import Reserved
    from bendybus.partition_server.state.commands import Ask, Deliver

    [reserved] = driver.run(Ask("s", 77, driver.ref(name), False, 1, 1 << 20))
    assert isinstance(reserved, Reserved)
    driver.run(Deliver("s", 1, b"".join(token for _, token in driver.tokens(reserved))))


def test_a_session_that_was_told_lasts_although_the_commit_of_a_first_try_failed() -> None:
    driver = Driver(MemoryStore(fingerprint()))
    sessions = Sessions(driver)
    sessions.send(("b", b"0"))
    [offer] = sessions.ask_accept("b")
    token = offer.session_token
    driver.run(ConfirmSession("s", 5, token, receiver_id=b"r" * 16, tells=True))
    driver.run(StreamEnded("s"))
    before = due_times(driver.partition.state)
    stage = driver.partition.decide([ToldSession("s", token)], driver.now)
    driver.partition.take_back(stage)
    assert differences(driver, before) == []

    driver.run(ToldSession("s", token))
    driver.advance(20_000)

    [result] = driver.run(RenewSession("s", 8, token))
    assert isinstance(result, SessionResult)
    assert result.error is None


def test_a_lease_that_is_held_longer_ends_as_before_if_that_is_taken_back(queue: Driver) -> None:
    queue.run(guard_pipelines._lease(queue, DrainAction.GRANT))
    queue.run(guard_pipelines._lease(queue, DrainAction.HOLD, 1))
    queue.advance(1_000)
    hold = guard_pipelines._lease(queue, DrainAction.HOLD, 1)
    before = due_times(queue.partition.state)

    stage = queue.partition.decide([hold], queue.now)
    changed = due_times(queue.partition.state)
    queue.partition.take_back(stage)

    assert changed != before
    assert differences(queue, before) == []


def test_expiry_is_due_as_before_when_a_settlement_is_taken_back(queue: Driver) -> None:
    queue.send(b"one", time_to_live_ms=[1_000])
    [(_, token)] = queue.receive(1)
    # Expiry passes over what is locked; then the clock is corrected.
    queue.advance(2_000)
    queue.wall_ms -= 1_500
    before = due_times(queue.partition.state)

    stage = queue.partition.decide([Settle("s", 1, D.DEFER, token)], queue.now)
    changed = due_times(queue.partition.state)
    queue.partition.take_back(stage)

    assert changed != before
    assert differences(queue, before) == []


def test_a_delay_that_is_taken_back_is_no_earlier_end_of_a_lock(queue: Driver) -> None:
    queue.send(b"one")
    [(_, token)] = queue.receive(1)
    before = due_times(queue.partition.state)

    abandon = Settle("s", 1, D.ABANDON, token, delay_ms=1_000)
    stage = queue.partition.decide([abandon], queue.now)
    changed = due_times(queue.partition.state)
    queue.partition.take_back(stage)

    assert changed != before
    assert differences(queue, before) == []


def test_renewals_that_are_taken_back_leave_the_ends_of_locks_as_they_were(queue: Driver) -> None:
    # So many that the notes of all locks are made again meanwhile.
    queue.send(*[b"m"] * 500)
    tokens = b"".join(token for _, token in queue.receive(500))
    wait(queue, 10_000)
    renewals = [Settle("s", n, D.RENEW_LOCK, tokens) for n in range(6)]

    stage = queue.partition.decide(renewals, queue.now)
    queue.partition.take_back(stage)
    wait(queue, 50_000 + 1)
    queue.sweep()

    assert queue.counts().locked == 0


def test_what_a_fault_made_wait_is_due_again_when_its_sweep_found_no_room(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create(dead_lettering_on_message_expiration=True)
    faulty.send(b"a", b"poison", b"c", time_to_live_ms=[1_000] * 3)
    wait(faulty, 1_001)
    before = due_times(faulty.partition.state)
    with monkeypatch.context() as patched:
        break_function(patched, expire, "expire", lambda _turn, _queue, id_, *_: id_ & 0xFFFF == 2)
        stage = faulty.partition.sweep(faulty.now)
    assert stage is not None
    faulty.partition.abandon(stage, FULL, faulty.now)

    assert differences(faulty, before) == []
    faulty.sweep()
    assert {row.payload for row in faulty.peek(dead_letter=True)} == {b"a", b"poison", b"c"}
    assert not faulty.partition.state.faults.skipped


def test_notes_of_due_times_are_bounded_while_sweeps_fail() -> None:
    driver = Driver(MemoryStore(fingerprint()))
    sessions, token = make_sessions(driver)
    sessions.receive(token, 2)
    wait(driver, 120_000)

    for n in range(5_000):
        stage = driver.partition.sweep(Now(driver.wall_ms, driver.mono_ms + n))
        assert stage is not None
        driver.partition.abandon(stage, FULL, driver.now)

    assert len(driver.partition.state.due.lock_ends) < 3_000
