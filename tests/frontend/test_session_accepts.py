"""Receivers that wait for any session: who is asked, who gets an offer, what is given back."""

import itertools
from typing import Any

import pytest

from bendybus.frontend.core.partition_asks import WithdrawAsk
from bendybus.frontend.core.session_accepts import (
    ASKS_MAX,
    Action,
    AskForSession,
    Decline,
    Give,
    NextSessions,
    Offer,
)


class Partitions:
    """Three partitions; those in `away` cannot be asked."""

    def __init__(self) -> None:
        self.away: set[int] = set()
        self._ids = itertools.count(1)
        self.accepts: NextSessions[str] = NextSessions(
            range(3), lambda partition: partition not in self.away, lambda: next(self._ids)
        )

    def asked(self, actions: list[Action[Any]]) -> list[int]:
        """Return which partitions are asked by these actions."""
        return [each.partition for each in actions if isinstance(each, AskForSession)]


def offer(partition: int = 0, name: str = "s") -> Offer:
    """Return an offer."""
    return Offer(partition, name, b"t" * 16, "uid")


def ask_of(actions: list[Action[Any]], partition: int) -> int:
    """Return the id of the ask of a partition."""
    found = [each for each in actions if isinstance(each, AskForSession)]
    return next(each.ask_id for each in found if each.partition == partition)


@pytest.mark.requirement("R102")
def test_all_available_partitions_are_asked_at_once() -> None:
    partitions = Partitions()
    partitions.away = {1}

    assert partitions.asked(partitions.accepts.wait("a")) == [0, 2]
    assert partitions.asked(partitions.accepts.wait("b")) == [0, 2]
    partitions.away = set()
    assert partitions.asked(partitions.accepts.ask()) == [1, 1]


@pytest.mark.requirement("R102")
def test_the_first_offer_is_taken_and_the_losers_of_the_race_are_given_back() -> None:
    partitions = Partitions()
    actions = partitions.accepts.wait("a")
    first, second = ask_of(actions, 0), ask_of(actions, 1)

    given = partitions.accepts.offered(first, offer(0, "x"))

    assert given[0] == Give("a", offer(0, "x"))
    withdrawn = [each.partition for each in given if isinstance(each, WithdrawAsk)]
    assert sorted(withdrawn) == [1, 2]
    assert partitions.accepts.offered(second, offer(1, "y")) == [Decline(offer(1, "y"))]


@pytest.mark.requirement("R102")
def test_an_offer_is_for_whoever_waits_longest() -> None:
    partitions = Partitions()
    first = partitions.accepts.wait("a")
    partitions.accepts.wait("b")

    assert partitions.accepts.offered(ask_of(first, 0), offer())[0] == Give("a", offer())
    # One that was given an offer which lapsed waited already.
    partitions.accepts.wait("a", first=True)
    assert partitions.accepts.waiters() == ["a", "b"]


def test_a_receiver_that_leaves_takes_its_asks_with_it() -> None:
    partitions = Partitions()
    partitions.accepts.wait("a")
    partitions.accepts.wait("b")

    withdrawn = partitions.accepts.leave("a")

    assert sorted(each.partition for each in withdrawn if isinstance(each, WithdrawAsk)) == [
        0,
        1,
        2,
    ]
    assert partitions.accepts.leave("a") == []


def test_asks_are_bounded_however_many_receivers_wait() -> None:
    partitions = Partitions()
    asked = [
        each
        for number in range(1_000)
        for each in partitions.asked(partitions.accepts.wait(str(number)))
    ]

    assert len(asked) == 3 * ASKS_MAX
    given = partitions.accepts.offered(1, offer(0))
    assert partitions.asked(given) == [0]


def test_the_asks_of_a_lost_stream_are_made_again() -> None:
    partitions = Partitions()
    partitions.accepts.wait("a")

    partitions.accepts.lost(1)

    assert partitions.asked(partitions.accepts.ask()) == [1]
