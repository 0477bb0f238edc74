"""The journal: cut at any entry and unwound, a partition is as it was, whatever was decided."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bendybus.partition_server.broker import partition as broker
from bendybus.partition_server.broker import rule_table
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.commands import Command
from bendybus.partition_server.state.journal import NOT_UNDONE, Journal
from bendybus.partition_server.state.turn import Turn
from tests.partition_server import guard_picture, test_marks
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.due_picture import due_times
from tests.partition_server.guard_scenarios import Scenario
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.test_due_times_undone import COMMANDS, SWEEPS, made, small_turns, wait

# More than any of the scenarios has.
ENTRIES_MAX = 400
pytestmark = pytest.mark.requirement("R90")


def seen(driver: Driver) -> Any:
    """Return all that a partition knows and has to know again after it was unwound."""
    made = guard_picture.of_partition(driver)
    made["due"] = due_times(driver.partition.state)
    return undone(made)


def undone(value: Any) -> Any:
    """Return a picture without what is never undone."""
    if not isinstance(value, dict):
        return value
    return {name: undone(each) for name, each in value.items() if name not in NOT_UNDONE}


class Cut:
    """A mark that is taken right before the journal gets its entry number `at`."""

    def __init__(self, driver: Driver, at: int) -> None:
        state = driver.partition.state
        state.begin_turn()
        self.driver, self.at = driver, at
        self.stage = state.begin_stage()
        self.turn = Turn(state, self.stage, driver.now, state.clock.expiry_held(driver.now))
        self.before: Any = None

    def entering(self) -> None:
        """Take the mark, if it is time."""
        if self.before is None and len(self.stage.journal) == self.at:
            self.before = seen(self.driver)
            self.stage.mark()

    def unwinding(self, length: int) -> None:
        """Forget the mark, if the rules unwind it: it is taken again."""
        if length <= self.at:
            self.before = None

    def differences(self) -> list[str] | None:
        """Return what is not as it was, once unwound to the mark; None: it was never reached."""
        before = self.before
        if before is None:
            return None
        self.stage.take_back_to(self.at)
        return guard_picture.differences(seen(self.driver), before)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[Cut]:
    """Return a list for the cut that is to be made."""
    current: list[Cut] = []

    def entering(method: Callable[..., Any]) -> Callable[..., Any]:
        def enter(journal: Journal, *args: Any) -> Any:
            for cut in current:
                cut.entering()
            return method(journal, *args)

        return enter

    unwind = Journal.unwind

    def unwinding(journal: Journal, length: int) -> None:
        for cut in current:
            cut.unwinding(length)
        unwind(journal, length)

    for name in ("note", "later", "enter"):
        monkeypatch.setattr(Journal, name, entering(getattr(Journal, name)))
    monkeypatch.setattr(Journal, "unwind", unwinding)
    return current


def decide(cut: Cut, commands: Sequence[Command]) -> None:
    for command in commands:
        broker._handle(rule_table.COMMANDS[type(command)], cut.turn, command)


@pytest.mark.parametrize("scenario", COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_is_cut_at_any_entry_leaves_nothing_of_what_follows(
    scenario: Scenario, cuts: list[Cut], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_turns(monkeypatch)
    for at in range(ENTRIES_MAX):
        driver, plan = made(scenario)
        wait(driver, plan.advance_ms)
        cuts[:] = [cut := Cut(driver, at)]

        decide(cut, [plan.target])
        cuts.clear()
        differences = cut.differences()

        if differences is None:
            return
        assert differences == [], at
        assert at or guard_picture.amiss(driver) == []
    raise AssertionError("a command has no end")


@pytest.mark.parametrize("scenario", SWEEPS.values(), ids=SWEEPS)
def test_a_sweep_that_is_cut_at_any_entry_leaves_nothing_of_what_follows(
    scenario: Scenario, cuts: list[Cut], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_turns(monkeypatch)
    for at in range(ENTRIES_MAX):
        driver, plan = made(scenario)
        wait(driver, plan.advance_ms)
        state = driver.partition.state
        due = state.sweeps_due(driver.now, expiry_held=state.clock.expiry_held(driver.now))
        cut = Cut(driver, at)
        cut.turn.sweep_budget = budget.Budget(state.clock_ms)
        cuts[:] = [cut]

        for kind in due:
            rule_table.SWEEPS[kind](cut.turn)
        cuts.clear()
        differences = cut.differences()

        if differences is None:
            return
        assert differences == [], (at, due)
    raise AssertionError("a sweep has no end")


@given(data=st.data())
@settings(
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_sequence_of_commands_is_cut_at_any_entry(cuts: list[Cut], data: st.DataObject) -> None:
    bus = test_marks.Bus(MemoryStore(fingerprint()))
    kept, undone = data.draw(test_marks.plans(bus))
    cuts[:] = [cut := Cut(bus.driver, data.draw(st.integers(0, 40)))]

    decide(cut, [*kept, *undone])
    cuts.clear()

    assert not cut.differences()


def test_what_waits_for_the_commit_is_done_once_in_its_order() -> None:
    journal, done = Journal(), list[str]()
    journal.later(done.append, "first")
    journal.note(done.append, "undone")
    journal.later(done.append, "second")

    journal.commit()
    journal.commit()

    assert done == ["first", "second"]


def test_what_is_unwound_is_undone_from_the_end_and_never_committed() -> None:
    journal, done = Journal(), list[str]()
    journal.note(done.append, "kept")
    mark = len(journal)
    journal.note(done.append, "before")
    journal.later(done.append, "later")
    journal.note(done.append, "last")

    journal.unwind(mark)
    journal.commit()

    assert done == ["last", "before"]
