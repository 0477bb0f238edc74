"""Which of the peers acts."""

import datetime as dt
from typing import Any

import pytest

from bendybus.operator.leadership import leads

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def peer(priority: object, *, seen_s_ago: float = 5, lifetime: object = 30) -> dict[str, Any]:
    seen = NOW - dt.timedelta(seconds=seen_s_ago)
    return {"priority": priority, "lastseen": seen.isoformat(), "lifetime": lifetime}


def test_one_alone_leads() -> None:
    assert leads({"me": peer(1)}, "me", 1, NOW)


def test_the_highest_priority_leads() -> None:
    status = {"me": peer(1), "you": peer(2)}

    assert not leads(status, "me", 1, NOW)
    assert leads(status, "you", 2, NOW)


def test_of_equals_none_leads_as_with_kopf() -> None:
    status = {"me": peer(1), "you": peer(1)}

    assert not leads(status, "me", 1, NOW)


def test_a_peer_that_was_not_seen_for_its_lifetime_is_gone() -> None:
    assert leads({"me": peer(1), "you": peer(2, seen_s_ago=31)}, "me", 1, NOW)
    assert not leads({"me": peer(1), "you": peer(2, seen_s_ago=29)}, "me", 1, NOW)


def test_a_peer_whose_clock_is_ahead_lives_longer_and_does_not_lead_less() -> None:
    assert not leads({"me": peer(1), "you": peer(2, seen_s_ago=-600)}, "me", 1, NOW)


def test_a_time_without_a_zone_is_utc() -> None:
    naive = {"priority": 2, "lastseen": "2026-11-21T11:59:50", "lifetime": 30}

    assert not leads({"me": peer(1), "you": naive}, "me", 1, NOW)


@pytest.mark.parametrize(
    "strange",
    [
        {"priority": 2},
        {"priority": 2, "lastseen": "yesterday"},
        peer(2, lifetime="long"),
        peer("2"),
        peer(2, lifetime=None),
    ],
)
def test_a_peer_that_cannot_be_understood_is_taken_to_live(strange: dict[str, Any]) -> None:
    assert not leads({"me": peer(1), "you": strange}, "me", 1, NOW)


@pytest.mark.parametrize("nobody", [None, {}, {"priority": None}, {"priority": "first"}])
def test_a_peer_without_a_priority_is_the_last(nobody: Any) -> None:
    assert leads({"me": peer(1), "you": nobody}, "me", 1, NOW)
