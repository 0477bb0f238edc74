"""Which of the peers acts."""

import datetime as dt
from typing import Any

import pytest

from bendybus.operator.controllers.leadership import Peers, skew_s

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def peer(
    priority: object, *, seen_s: float = 0, ahead_s: float = 0, lifetime: object = 30
) -> dict[str, Any]:
    """Return an entry that was written `seen_s` after NOW, by a clock that is ahead."""
    seen = NOW + dt.timedelta(seconds=seen_s + ahead_s)
    return {"priority": priority, "lastseen": seen.isoformat(), "lifetime": lifetime}


def leads(status: dict[str, Any], priority: int = 1) -> bool:
    return Peers().leads(status, "me", priority, 0.0)


def test_one_alone_leads() -> None:
    assert leads({"me": peer(1)})


def test_the_highest_priority_leads() -> None:
    assert not leads({"me": peer(1), "you": peer(2)}, 1)
    assert leads({"me": peer(2), "you": peer(1)}, 2)


def test_of_equals_none_leads_as_with_kopf() -> None:
    assert not leads({"me": peer(1), "you": peer(1)})


@pytest.mark.parametrize("ahead_s", [-600.0, -13.0, 0.0, 13.0, 600.0])
def test_a_peer_lives_while_its_entry_changes_whatever_its_clock_says(ahead_s: float) -> None:
    peers = Peers()

    for second in range(0, 300, 5):
        you = peer(2, seen_s=second, ahead_s=ahead_s)
        assert not peers.leads({"me": peer(1), "you": you}, "me", 1, float(second))

    # It dies: its entry stays as it is.
    assert not peers.leads({"me": peer(1), "you": you}, "me", 1, 295.0 + 29)
    assert peers.leads({"me": peer(1), "you": you}, "me", 1, 295.0 + 31)


def test_a_peer_that_comes_back_leads_again() -> None:
    peers = Peers()
    gone = {"me": peer(1), "you": peer(2)}
    assert not peers.leads(gone, "me", 1, 0.0)
    assert peers.leads(gone, "me", 1, 40.0)

    assert not peers.leads({"me": peer(1), "you": peer(2, seen_s=41)}, "me", 1, 41.0)


def test_a_peer_that_signed_off_does_not_count() -> None:
    peers = Peers()
    assert not peers.leads({"me": peer(1), "you": peer(2)}, "me", 1, 0.0)

    assert peers.leads({"me": peer(1)}, "me", 1, 1.0)


@pytest.mark.parametrize(
    "invalid_answer",
    [
        {"priority": 2},
        {"priority": 2, "lastseen": "yesterday"},
        peer(2, lifetime="long"),
        peer("2"),
        peer(2, lifetime=None),
    ],
)
def test_a_peer_that_cannot_be_understood_is_taken_to_live_for_a_while(
    invalid_answer: dict[str, Any],
) -> None:
    peers = Peers()

    assert not peers.leads({"me": peer(1), "you": invalid_answer}, "me", 1, 0.0)
    assert peers.leads({"me": peer(1), "you": invalid_answer}, "me", 1, 61.0)


@pytest.mark.parametrize("nobody", [None, {}, {"priority": None}, {"priority": "first"}])
def test_a_peer_without_a_priority_is_the_last(nobody: Any) -> None:
    assert leads({"me": peer(1), "you": nobody})


def test_a_clock_that_is_ahead_is_noticed() -> None:
    status = {"me": peer(1, ahead_s=99), "you": peer(2, ahead_s=20), "odd": {"lastseen": "?"}}

    assert skew_s(status, "me", NOW) == 20.0
    assert skew_s({"you": peer(2, seen_s=-9)}, "me", NOW) == 0.0
