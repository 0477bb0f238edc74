"""The checker of leases: a sound history passes, and each rule catches what breaks it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bendybus.domain import partitioning
from tests.chaos import lease_checking
from tests.chaos.cluster import PARTITIONS
from tests.chaos.history import Fault, Item, Kind, Operation, Outcome
from tests.chaos.lease_load import LEASE_S, LEASES

SESSION = "s"
HOME = f"partition-{partitioning.partition_of(SESSION, PARTITIONS)}"
OTHER = f"partition-{(partitioning.partition_of(SESSION, PARTITIONS) + 1) % PARTITIONS}"
THROUGH = "front-end-0"
UNTIL_S = 10.0 + LEASE_S


def call(
    kind: Kind, at_s: float, *items: Item, task: str = "t", took_s: float = 0.1, error: str = ""
) -> Operation:
    """Return a call of who holds the session from 10 s on."""
    outcome = Outcome.FAILED if error else Outcome.OK
    return Operation(
        *(kind, LEASES, task, at_s, at_s + took_s, outcome, items, SESSION),
        error=error,
        until_s=UNTIL_S,
        through=THROUGH,
    )


def fault(text: str, target: str, began_s: float, ended_s: float) -> list[Fault]:
    """Return the begin and the end of a fault."""
    return [
        Fault(began_s, f"{text} {target}", (target,)),
        Fault(ended_s, f"{text} {target} is over", (target,), over=True),
    ]


A, AGAIN = Item("a", 1, count=1), Item("a", 1, count=2)
SENT = call(Kind.SEND, 1, Item("a"))
HELD = call(Kind.ACCEPT, 10)
GIVEN = call(Kind.RECEIVE, 15, A)
EMPTY = call(Kind.RECEIVE, 14, took_s=2.0)
LOST = call(Kind.RECEIVE, 14, error="SessionLockLostError")
CUT = call(Kind.CUT, 16, took_s=0)
HEIR = replace(call(Kind.ACCEPT, UNTIL_S + 0.5, task="heir"), until_s=UNTIL_S + LEASE_S)
TAKEN_OVER = [SENT, HELD, GIVEN, CUT, HEIR, call(Kind.RECEIVE, UNTIL_S + 1, AGAIN, task="heir")]
EARLY = replace(HEIR, began_s=16.5, ended_s=16.6)
REFUSED = call(Kind.ACCEPT, UNTIL_S + 2, task="heir", error="SessionCannotBeLockedError")


def rules(operations: Sequence[Operation], faults: Sequence[Fault] = ()) -> list[str]:
    """Return the names of the broken rules."""
    return [each.rule for each in lease_checking.check(operations, faults)[0]]


@pytest.mark.parametrize(
    "sound",
    [
        [SENT, HELD, GIVEN],
        # Nothing was sent, or nothing is left.
        [HELD, EMPTY],
        [SENT, HELD, GIVEN, replace(EMPTY, began_s=15.5, ended_s=16.5)],
        # The lock is about to end.
        [SENT, HELD, replace(EMPTY, began_s=UNTIL_S - 2.5, ended_s=UNTIL_S - 0.5)],
        TAKEN_OVER,
        # Before the lock is over the session is locked.
        [SENT, HELD, GIVEN, CUT, replace(REFUSED, began_s=16.5, ended_s=16.6)],
    ],
)
def test_a_sound_history_passes(sound: Sequence[Operation]) -> None:
    assert rules(sound) == []


@pytest.mark.parametrize(
    ("rule", "history"),
    [
        ("starved", [SENT, HELD, EMPTY]),
        ("starved", [SENT, HELD, LOST]),
        ("late", [SENT, HELD, replace(GIVEN, ended_s=GIVEN.began_s + 6.5)]),
        ("freed", [SENT, HELD, GIVEN, CUT, EARLY]),
        ("locked", [SENT, HELD, GIVEN, CUT, REFUSED]),
        ("uncounted", [*TAKEN_OVER[:-1], call(Kind.RECEIVE, UNTIL_S + 1, A, task="heir")]),
    ],
)
def test_each_rule_catches_what_breaks_it(rule: str, history: Sequence[Operation]) -> None:
    assert rules(history) == [rule]
    # What is broken elsewhere excuses nothing.
    assert rules(history, fault("kill", OTHER, 9, UNTIL_S + 5)) == [rule]


@pytest.mark.parametrize("name", [HOME, THROUGH])
@pytest.mark.parametrize("text", ["kill", "stop", "hold"])
def test_who_cannot_be_reached_starves_nobody(name: str, text: str) -> None:
    for began_s, ended_s in ((8, 13), (15, 15.5), (13, 30)):
        assert rules([SENT, HELD, EMPTY], fault(text, name, began_s, ended_s)) == []
    assert rules([SENT, HELD, EMPTY], fault(text, name, 1, 2)) == ["starved"]


@pytest.mark.parametrize(("text", "excused"), [("kill", True), ("restart", True), ("cut", False)])
@pytest.mark.parametrize("history", [[SENT, HELD, GIVEN, CUT, EARLY]])
def test_only_a_partition_that_is_started_again_forgets_locks(
    history: Sequence[Operation], text: str, excused: bool
) -> None:
    assert rules(history, fault(text, HOME, 11, 11.5)) == ([] if excused else ["freed"])
    assert rules(history, fault(text, THROUGH, 11, 11.5)) == ["freed"]


def test_how_often_a_rule_was_judged_is_counted() -> None:
    _, judged = lease_checking.check(TAKEN_OVER, ())

    assert judged == {"starved": 1, "late": 2, "freed": 1, "uncounted": 1}
