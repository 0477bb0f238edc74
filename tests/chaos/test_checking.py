"""The checker: a sound history passes, and each rule catches a history that breaks it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bendybus.client import exceptions
from tests import sequence_numbers
from tests.chaos import checking, nemesis
from tests.chaos.checking import Excuses
from tests.chaos.cluster import Cluster
from tests.chaos.history import History, Item, Kind, Operation, Outcome, outcome_of

QUEUE, DEAD = "orders", "orders/dead"


def call(
    kind: Kind,
    at_s: float,
    *items: Item,
    outcome: Outcome = Outcome.OK,
    place: str = QUEUE,
    key: str = "",
    due_s: float = 0.0,
) -> Operation:
    """Return a call that took a tenth of a second."""
    return Operation(kind, place, "t", at_s, at_s + 0.1, outcome, items, key, due_s)


def rules(operations: Sequence[Operation], **excuses: Any) -> list[str]:
    """Return the names of the broken rules."""
    return [each.rule for each in checking.check(operations, Excuses(**excuses))]


def number(partition: int, counter: int) -> int:
    """Return a sequence number."""
    return sequence_numbers.of(partition, counter)


A, B = Item("a"), Item("b")
A1, A2, B1 = Item("a", number(0, 1)), Item("a", number(1, 2)), Item("b", number(0, 1))
SENT = call(Kind.SEND, 0, A)
GIVEN = call(Kind.RECEIVE, 1, A1)
ANSWER1 = Item("answer 1", number(2, 1))
ANSWER2 = Item("answer 2", number(2, 2))
DONE, LATE = call(Kind.COMPLETE, 2, A1), call(Kind.COMPLETE, 4, A1)


def answered(at_s: float, answer: Item, outcome: Outcome = Outcome.OK) -> list[Operation]:
    """Return a transaction that completes the first copy of "a" and sends an answer."""
    parts = [
        call(Kind.COMPLETE, at_s, A1, outcome=outcome),
        call(Kind.SEND, at_s, Item(answer.body), outcome=outcome, place="answers"),
    ]
    return [replace(each, transaction=answer.body) for each in parts]


def came(at_s: float, answer: Item) -> list[Operation]:
    """Return what receives and completes an answer."""
    return [
        call(Kind.RECEIVE, at_s, answer, place="answers"),
        call(Kind.COMPLETE, at_s + 0.2, answer, place="answers"),
    ]


@pytest.mark.parametrize(
    "sound",
    [
        [SENT, GIVEN, DONE],
        [SENT, GIVEN, call(Kind.ABANDON, 2, A1), call(Kind.RECEIVE, 3, A1), LATE],
        # An unknown outcome allows no copy, one, or two.
        [replace(SENT, outcome=Outcome.UNKNOWN)],
        [replace(SENT, outcome=Outcome.UNKNOWN), GIVEN, DONE, call(Kind.RECEIVE, 3, A2)],
        [replace(SENT, outcome=Outcome.FAILED)],
        # Its complete may have been done, or not.
        [SENT, GIVEN, replace(DONE, outcome=Outcome.UNKNOWN), call(Kind.RECEIVE, 3, A1)],
        # Handed over before the settlement was acknowledged.
        [SENT, GIVEN, DONE, replace(GIVEN, began_s=1.5, ended_s=3.0)],
        # Locked before, and held on its way until the lock had ended.
        [SENT, call(Kind.RECEIVE, 3, replace(A1, locked_s=0.9)), GIVEN, DONE],
        [SENT, GIVEN, call(Kind.DEFER, 2, A1), call(Kind.RECEIVE, 3, A1, key="deferred"),
         LATE],
        [SENT, GIVEN, call(Kind.DEAD_LETTER, 2, A1), call(Kind.RECEIVE, 3, A2, place=DEAD),
         call(Kind.COMPLETE, 4, A2, place=DEAD)],
        [call(Kind.SCHEDULE, 0, A1, due_s=3), call(Kind.CANCEL, 1, A1)],
        [call(Kind.SCHEDULE, 0, A1, due_s=3), call(Kind.RECEIVE, 3, A2),
         call(Kind.COMPLETE, 4, A2)],
        [call(Kind.SEND, 0, A, place="taken"), call(Kind.TAKE, 1, A1, place="taken")],
        [SENT, GIVEN, *answered(2, ANSWER1), *came(3, ANSWER1)],
        # Done, as is known by its answer, or not done.
        [SENT, GIVEN, *answered(2, ANSWER1, Outcome.UNKNOWN), *came(3, ANSWER1)],
        [SENT, GIVEN, *answered(2, ANSWER1, Outcome.UNKNOWN), replace(GIVEN, began_s=3),
         *answered(4, ANSWER2), *came(5, ANSWER2)],
        [SENT, GIVEN, *answered(2, ANSWER1, Outcome.FAILED), *answered(3, ANSWER2),
         *came(4, ANSWER2)],
        # Received while the commit was not acknowledged yet.
        [SENT, GIVEN, *[replace(each, ended_s=9) for each in answered(2, ANSWER1)],
         *came(3, ANSWER1)],
    ],
)  # fmt: skip
def test_a_sound_history_has_no_violation(sound: list[Operation]) -> None:
    assert rules(sound) == []


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("lost", [SENT]),
        ("lost", [SENT, GIVEN]),
        ("lost", [SENT, GIVEN, call(Kind.DEFER, 2, A1)]),
        ("lost", [SENT, GIVEN, call(Kind.DEAD_LETTER, 2, A1)]),
        ("lost", [call(Kind.SCHEDULE, 0, A1, due_s=1)]),
        ("lost", [call(Kind.SEND, 0, A, place="taken")]),
        ("denied", [SENT, GIVEN, replace(DONE, outcome=Outcome.FAILED)]),
        ("denied", [call(Kind.SCHEDULE, 0, A1, due_s=3),
                    call(Kind.CANCEL, 1, A1, outcome=Outcome.FAILED)]),
        ("returned", [SENT, GIVEN, DONE, call(Kind.RECEIVE, 3, A1)]),
        ("returned", [SENT, GIVEN, DONE, call(Kind.RECEIVE, 3, replace(A1, locked_s=2.5))]),
        # The call waited, and was given what was settled meanwhile.
        ("returned", [SENT, GIVEN, DONE, call(Kind.RECEIVE, 1.5, replace(A1, locked_s=2.5))]),
        ("returned", [SENT, call(Kind.TAKE, 1, A1), call(Kind.TAKE, 3, A1)]),
        ("returned", [SENT, GIVEN, call(Kind.DEFER, 2, A1), call(Kind.RECEIVE, 3, A1),
                      LATE]),
        ("refused", [replace(SENT, outcome=Outcome.FAILED), GIVEN]),
        ("doubled", [SENT, GIVEN, DONE, call(Kind.RECEIVE, 3, A2)]),
        ("early", [call(Kind.SCHEDULE, 0, A1, due_s=3), call(Kind.RECEIVE, 1, A2),
                   call(Kind.COMPLETE, 4, A2)]),
        ("cancelled", [call(Kind.SCHEDULE, 0, A1, due_s=1), call(Kind.CANCEL, 0.5, A1),
                       call(Kind.RECEIVE, 3, A2)]),
        ("renumbered", [SENT, GIVEN, DONE, call(Kind.SEND, 0, B), call(Kind.RECEIVE, 1, B1),
                        call(Kind.COMPLETE, 2, B1)]),
        # Completed without its answer.
        ("halved", [SENT, GIVEN, *answered(2, ANSWER1, Outcome.UNKNOWN)]),
        # Answered without being completed: it came again.
        ("halved", [SENT, GIVEN, *answered(2, ANSWER1, Outcome.UNKNOWN), *came(3, ANSWER1),
                    *answered(5, ANSWER2), *came(6, ANSWER2)]),
        ("halved", [SENT, GIVEN, *answered(2, ANSWER1, Outcome.UNKNOWN), *came(3, ANSWER1),
                    call(Kind.RECEIVE, 4, A1), *answered(5, ANSWER2, Outcome.UNKNOWN)]),
        # Answered twice by one transaction.
        ("halved", [SENT, GIVEN, *answered(2, ANSWER1, Outcome.UNKNOWN), *came(3, ANSWER1),
                    *came(4, replace(ANSWER1, number=number(1, 1)))]),
        # Answered before the commit began.
        ("halved", [SENT, GIVEN, *answered(4, ANSWER1), *came(3, ANSWER1)]),
        ("refused", [SENT, GIVEN, *answered(2, ANSWER1, Outcome.FAILED), DONE,
                     call(Kind.RECEIVE, 3, ANSWER1, place="answers")]),
        ("torn", [call(Kind.SEND, 0, A, B, outcome=Outcome.UNKNOWN), GIVEN, DONE]),
        ("overtaken", [call(Kind.SEND, 0, B, key="s"), call(Kind.RECEIVE, 1, B1, key="s"),
                       call(Kind.SEND, 0.5, Item("c"), key="s"),
                       call(Kind.RECEIVE, 1, Item("c", number(0, 2)), key="s"),
                       call(Kind.COMPLETE, 2, Item("c", number(0, 2)), key="s"),
                       call(Kind.COMPLETE, 3, B1, key="s")]),
        ("stale", [SENT, replace(GIVEN, items=(replace(A1, locked_s=GIVEN.ended_s - 7.0),)), DONE]),
        ("hung", [replace(SENT, ended_s=99.0), GIVEN, DONE]),
    ],
)  # fmt: skip
def test_each_rule_catches_what_breaks_it(rule: str, broken: list[Operation]) -> None:
    assert rules(broken) == [rule]


def test_what_the_load_held_up_itself_is_not_stale() -> None:
    given = replace(GIVEN, began_s=20.0, ended_s=20.1, items=(replace(A1, locked_s=13.0),))
    history = [SENT, given, replace(DONE, began_s=21.0, ended_s=21.1)]

    assert rules(history, stalls=[(14.0, 15.5)]) == []
    # Before the lock began, after the message was given, or for too short a time.
    assert rules(history, stalls=[(0.0, 13.5), (20.0, 30.0)]) == ["stale"]


@pytest.mark.parametrize("second", [number(0, 3), number(1, 9)], ids=["lower", "elsewhere"])
def test_messages_of_a_key_keep_their_order_and_their_partition(second: int) -> None:
    later, earlier = Item("b", second), Item("a", number(0, 5))
    history = [
        call(Kind.SEND, 0, A, key="k"),
        call(Kind.SEND, 1, B, key="k"),
        call(Kind.RECEIVE, 2, later, earlier),
        call(Kind.COMPLETE, 3, later, earlier),
    ]

    assert rules(history) == ["order"]
    # Sends that overlap have no order.
    overlapping = [replace(history[0], ended_s=5.0), *history[1:]]
    assert rules(overlapping) == ([] if second == number(0, 3) else ["order"])


def test_only_copies_that_the_sender_was_told_of_are_excused() -> None:
    history = [SENT, GIVEN, DONE, call(Kind.RECEIVE, 3, A2)]

    assert rules(history, possible_duplicates=frozenset({"a"})) == []
    assert rules(history, possible_duplicates=frozenset({"b"})) == ["doubled"]


def test_a_copy_that_may_be_elsewhere_is_not_cancelled_and_one_in_the_same_partition_is() -> None:
    cancelled = [call(Kind.SCHEDULE, 0, A1, due_s=1), call(Kind.CANCEL, 0.5, A1)]
    elsewhere = [*cancelled, call(Kind.RECEIVE, 3, A2), call(Kind.COMPLETE, 4, A2)]
    here = [*cancelled, call(Kind.RECEIVE, 3, Item("a", number(0, 9)))]

    assert rules(elsewhere) == ["cancelled"]
    assert rules(elsewhere, possible_duplicates=frozenset({"a"})) == []
    assert rules(here, possible_duplicates=frozenset({"a"})) == ["cancelled"]


def test_only_so_many_messages_may_get_lost_on_their_way_to_a_receiver() -> None:
    history = [call(Kind.SEND, 0, A, place="taken"), call(Kind.SEND, 0, B, place="taken")]

    assert rules(history, takes_lost=1) == ["lost"]
    assert rules(history, takes_lost=2) == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.OK),
        (exceptions.PartitionUnavailableError(message="partition 1 is away"), Outcome.FAILED),
        (exceptions.OperationTimeoutError(message="Nothing was sent."), Outcome.FAILED),
        (exceptions.OperationTimeoutError(), Outcome.FAILED),
        (exceptions.MessageNotFoundError(message="unknown number"), Outcome.FAILED),
        (exceptions.OutcomeUnknownError(message="?"), Outcome.UNKNOWN),
        (RuntimeError("a defect"), Outcome.UNKNOWN),
    ],
)
def test_what_an_error_says_of_the_outcome(error: BaseException | None, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_a_seed_gives_the_same_faults_again_and_another_seed_others() -> None:
    names = Cluster.names()

    assert nemesis.plan(7, 20, names) == nemesis.plan(7, 20, names)
    assert nemesis.plan(7, 20, names) != nemesis.plan(8, 20, names)
    plans = [step for seed in range(30) for step in nemesis.plan(seed, 20, names)]
    assert {step.fault for step in plans} == nemesis.FAULTS.keys()
    assert {step.target for step in plans} == {*names, "all"}


def test_an_excerpt_shows_what_happened_to_a_message_and_the_faults_meanwhile() -> None:
    history = History()
    history.operations += [SENT, GIVEN, DONE, call(Kind.SEND, 0, B)]
    history.add(Kind.RECEIVE, QUEUE, "t", 0, [A1], error=exceptions.MessageLockLostError())

    shown = "\n".join(history.excerpt("a", A1.number))

    assert "complete orders a#1 ok" in shown
    assert "MessageLockLostError" in shown
    assert "b#" not in shown
