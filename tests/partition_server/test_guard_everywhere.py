"""A bug at any line of any rule costs one answer: nothing of it is left, in memory or the file."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.partition_server.rules import session_locks
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.answers import (
    AskRefused,
    ForwardedTaken,
    Reserved,
    SessionOffered,
)
from bendybus.partition_server.state.commands import TakeForwarded
from tests.partition_server import (
    guard_picture,
    guard_pipelines,
    guard_scenarios,
    guard_sessions,
    guard_sweeps,
    guard_transactions,
)
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.faulty_rules import break_function
from tests.partition_server.guard_scenarios import Plan, Scenario
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.planted_bugs import Bug, Place, plant
from tests.partition_server.session_driver import Sessions

pytestmark = pytest.mark.slow

# Of each scenario.
PLACES_MAX = 100
# A command whose rule has a bug is as if it had not come.
REFUSED = -1


class Attack:
    """One scenario, run with a bug at one place of a rule after the other."""

    def __init__(self, scenario: Scenario, *, serving: bool = False) -> None:
        self.scenario = scenario
        self.serving = serving
        self._expected: dict[int | None, tuple[Any, Any]] = {}

    def made(self) -> tuple[Driver, Plan]:
        """Return a partition as the scenario finds it, and the turn that follows."""
        driver = Driver(MemoryStore(fingerprint()))
        plan = self.scenario(driver)
        driver.expects_faults = True
        return driver, plan

    def places(self) -> list[Place]:
        """Return where bugs can be in what a scenario runs."""
        driver, plan = self.made()
        bug = Bug()
        with pytest.MonkeyPatch.context() as patch:
            plant(patch, bug, plan.target, serving=self.serving)
            if plan.target is None:
                driver.advance(plan.advance_ms)
            else:
                driver.run(plan.target)
        return bug.places()

    def findings(self, place: Place) -> list[str]:
        """Return what a bug at one place leaves behind, at first and when the command comes again.

        The partition is compared with one that the command did not come to, then came to once.
        """
        driver, plan = self.made()
        bug = Bug(place)
        with pytest.MonkeyPatch.context() as patch:
            plant(patch, bug, plan.target, serving=self.serving)
            answers = driver.run(*plan.before, plan.target, *plan.after)
        if not bug.met:
            return []
        # A bug that is not met again, when the command is decided alone, refuses nothing; nor does
        # one after the answer.
        given = any(isinstance(answer, Reserved | SessionOffered) for answer in answers)
        refused = bool(driver.partition.state.faults.take()) and not given
        came = REFUSED if refused else None
        for answer in answers:
            if isinstance(answer, ForwardedTaken):
                came = answer.done
        without, repeated = self._without(came)
        found = [f"refused: {each}" for each in guard_picture.amiss(driver)]
        if plan.comparable:
            found += _differences("refused", driver, without)
        driver.run(plan.target)
        found += [f"repeated: {each}" for each in guard_picture.amiss(driver)]
        if plan.comparable:
            found += _differences("repeated", driver, repeated)
        return found

    def findings_later(self, place: Place) -> list[str]:
        """Return what a bug at one place of a sweep leaves behind when its pauses are over."""
        driver, plan = self.made()
        bug = Bug(place)
        with pytest.MonkeyPatch.context() as patch:
            plant(patch, bug, None)
            driver.advance(plan.advance_ms)
        for _ in range(3 if bug.met else 0):
            driver.advance(faults.PAUSE_MS_MAX + 1)
        return guard_picture.amiss(driver)

    def _without(self, came: int | None) -> tuple[Any, Any]:
        """Return what a partition holds to which the command came once, after the others.

        Before, it did not come (REFUSED), came whole (None), or as many of its forwarded messages.
        """
        if came not in self._expected:
            twin, plan = self.made()
            target, first = plan.target, [] if came == REFUSED else [plan.target]
            if isinstance(target, TakeForwarded) and came not in (None, REFUSED):
                cut = target.batch.chosen(range(came))
                first = [replace(target, counters=target.counters[:came], batch=cut)]
            twin.run(*plan.before, *first, *plan.after)
            before = guard_picture.of_partition(twin)
            twin.run(plan.target)
            self._expected[came] = before, guard_picture.of_partition(twin)
        return self._expected[came]


def _differences(when: str, driver: Driver, expected: Any) -> list[str]:
    found = guard_picture.of_partition(driver)
    return [f"{when}: {each}" for each in guard_picture.differences(found, expected)]


def _some(places: list[Place], most: int = PLACES_MAX) -> list[Place]:
    """Return at most about so many places, spread over all."""
    return places[:: max(1, -(-len(places) // most))]


def _check(attack: Attack) -> None:
    places = attack.places()
    assert places
    for place in _some(places):
        found = attack.findings(place)
        assert not found, (place, *found)


COMMANDS = (
    guard_scenarios.COMMANDS
    | guard_sessions.SCENARIOS
    | guard_pipelines.COMMANDS
    | guard_transactions.COMMANDS
)
SWEEPS = guard_sweeps.SCENARIOS | guard_pipelines.SWEEPS
# Those that are served after the commit.
SERVED = ("ask", "withdraw", "session_ask", "session_accept_next")


@pytest.mark.requirement("R250")
@pytest.mark.parametrize("scenario", COMMANDS.values(), ids=COMMANDS)
def test_a_bug_at_any_line_of_a_rule_leaves_nothing_behind(scenario: Scenario) -> None:
    _check(Attack(scenario))


@pytest.mark.requirement("R250")
@pytest.mark.parametrize("scenario", [COMMANDS[name] for name in SERVED], ids=SERVED)
def test_a_bug_at_any_line_of_giving_messages_loses_none(scenario: Scenario) -> None:
    _check(Attack(scenario, serving=True))


@pytest.mark.requirement("R251")
@pytest.mark.parametrize("scenario", SWEEPS.values(), ids=list(SWEEPS))
def test_a_bug_at_any_line_of_a_sweep_loses_nothing(scenario: Scenario) -> None:
    attack = Attack(scenario)
    places = attack.places()
    assert places
    for place in _some(places):
        found = attack.findings_later(place)
        assert not found, (place, *found)


@pytest.mark.requirement("R250")
def test_a_bug_in_giving_messages_of_a_session_refuses_the_receive_that_meets_it(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = sessions.driver
    driver.expects_faults = True
    sessions.send(("a", b"0"), ("b", b"1"))
    token, other = sessions.accept("a"), sessions.accept("b", stream="other")
    sessions.receive(other, stream="other")
    assert sessions.ask(other, stream="other") == []
    with monkeypatch.context() as patched:
        break_function(patched, session_locks, "lock_messages", lambda *_, **__: True)

        [refused] = sessions.ask(token)

    assert isinstance(refused, AskRefused)
    assert list(driver.partition.state.queues.main_of(driver.ref().uid).asks) != []
    assert [row.payload for row, _ in sessions.receive(token)] == [b"0"]
