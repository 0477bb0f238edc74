"""What each session holds, counted a page at a time."""

import random
from collections import Counter
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.rules import session_counts
from bendybus.partition_server.rules import sessions as session_rules
from bendybus.partition_server.state.answers import Failed, SessionCounts, SessionsCounted
from bendybus.partition_server.state.commands import CountSessions, SetSessionState
from bendybus.partition_server.store.store import CountPlace
from tests.partition_server.session_driver import LOCK_MS, Sessions, settle


def pages(sessions: Sessions, size: int = 100) -> list[list[SessionCounts]]:
    """Return all pages of the list."""
    found: list[list[SessionCounts]] = []
    after: CountPlace | None = None
    while True:
        [page] = sessions.driver.run(CountSessions("t", sessions.driver.ref(), size, after))
        assert isinstance(page, SessionsCounted), page
        assert page.following is None or after is None or page.following > after
        found.append(list(page.sessions))
        after = page.following
        if after is None:
            return found


def counted(sessions: Sessions, size: int = 100) -> dict[str, SessionCounts]:
    """Return all sessions of the list, each of which is there once, in order."""
    found = [each for page in pages(sessions, size) for each in page]
    names = [each.session_id for each in found]
    assert names == sorted(set(names))
    return {each.session_id: each for each in found}


def later(sessions: Sessions) -> int:
    """Return a time to which messages are scheduled."""
    return int(sessions.driver.now.wall_ms + 3_600_000)


@pytest.mark.requirement("R240")
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_each_session_has_its_counts_its_state_and_its_lock(sessions: Sessions, size: int) -> None:
    sessions.send(*[("a", b"x")] * 4, ("b", b"x"), ("", b"x"))
    sessions.send(("c", b"x"), scheduled_ms=[later(sessions)])
    token = sessions.accept("a")
    pairs = sessions.receive(token, 3)
    settle(sessions, Disposition.DEFER, pairs[0][1])
    settle(sessions, Disposition.COMPLETE, pairs[1][1])
    sessions.driver.run(SetSessionState("t", token, b"12345"))
    empty = sessions.accept("nothing in it")
    sessions.driver.run(SetSessionState("t", empty, b""))
    sessions.close(empty)
    sessions.accept("waits")
    until_ms = sessions.driver.now.wall_ms + LOCK_MS

    assert counted(sessions, size) == {
        "": SessionCounts("", active=1),
        "a": SessionCounts(
            "a", active=2, deferred=1, locked=1, state_bytes=5, locked_until_ms=until_ms
        ),
        "b": SessionCounts("b", active=1),
        "c": SessionCounts("c", scheduled=1),
        "nothing in it": SessionCounts("nothing in it", state_bytes=0),
        "waits": SessionCounts("waits", locked_until_ms=until_ms),
    }


@pytest.mark.requirement("R240")
def test_an_offer_is_no_lock_and_one_that_is_over_is_none(sessions: Sessions) -> None:
    sessions.ask_accept("offered")
    sessions.accept("locked")

    assert list(counted(sessions)) == ["locked"]
    sessions.driver.advance(LOCK_MS)
    assert not counted(sessions)


@pytest.mark.requirement("R241")
@pytest.mark.parametrize("rows", [1, 2, 7, 50])
@pytest.mark.parametrize("seed", range(3))
def test_pages_that_end_anywhere_count_each_message_once(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, rows: int, seed: int
) -> None:
    monkeypatch.setattr(session_counts, "ROWS_MAX", rows)
    choose = random.Random(seed)
    names = [f"s{number}" for number in range(6)]
    kept = set(choose.sample(names, 2)) | {"kept", "zzz"}
    for name in kept:
        token = sessions.accept(name)
        sessions.driver.run(SetSessionState("t", token, b"state"))
        sessions.close(token)
    sent = choose.choices(names, k=40)
    sessions.send(*[(name, b"x") for name in sent])
    waiting = choose.choices(names, k=9)
    sessions.send(
        *[(name, b"x") for name in waiting], scheduled_ms=[later(sessions)] * len(waiting)
    )
    deferred: Counter[str] = Counter()
    for name in names[:3]:
        token = sessions.accept(name)
        pairs = sessions.receive(token, choose.randrange(4))
        for _, lock in pairs:
            settle(sessions, Disposition.DEFER, lock)
        deferred[name] = len(pairs)
        sessions.close(token)

    found = counted(sessions, size=choose.choice([1, 2, 5, 100]))

    assert set(found) == {*sent, *waiting, *kept}
    for name, each in found.items():
        assert each.active + each.deferred == sent.count(name)
        assert each.deferred == deferred[name]
        assert each.scheduled == waiting.count(name)
        assert each.state_bytes == (5 if name in kept else None)


@pytest.mark.requirement("R241")
def test_one_call_looks_at_a_bounded_number_of_messages(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_counts, "ROWS_MAX", 10)
    sessions.send(*[("large", b"x")] * 35, ("other", b"x"))

    found = pages(sessions)

    # Three pages inside the session, and one with its end.
    assert [len(page) for page in found] == [0, 0, 0, 2]
    assert [each.active for each in found[-1]] == [35, 1]


@pytest.mark.requirement("R241")
def test_a_page_ends_where_its_receivers_have_very_many_locks(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        sessions.send(*[(name, b"x")] * 3)
        sessions.receive(sessions.accept(name))
    assert [[each.session_id for each in page] for page in pages(sessions)] == [["a", "b"]]

    monkeypatch.setattr(session_counts, "LOCKS_MAX", 2)
    assert [[each.session_id for each in page] for page in pages(sessions)] == [["a"], ["b"]]


@pytest.mark.requirement("R240")
@pytest.mark.parametrize(
    ("after", "field"),
    [
        (CountPlace("x" * 129, 0, 0), "after.session_id"),
        (CountPlace("a\0", 0, 0), "after.session_id"),
        (CountPlace("a", 4, 0), "after.state"),
        (CountPlace("a", 0, 1 << 62), "after.counter"),
        (CountPlace("a", 0, 0, 0, 1 << 62), "after.deferred"),
    ],
)
def test_a_place_that_no_call_returned_is_refused(
    sessions: Sessions, after: Any, field: str
) -> None:
    [answer] = sessions.driver.run(CountSessions("t", sessions.driver.ref(), 10, after))
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, errors.InvalidArgument)
    assert field in answer.error.message


@pytest.mark.requirement("R240")
def test_more_sessions_than_a_page_may_have_are_refused(sessions: Sessions) -> None:
    most = session_rules.LISTED_MAX
    [answer] = sessions.driver.run(CountSessions("t", sessions.driver.ref(), most + 1))
    assert isinstance(answer, Failed)
    assert "max_sessions" in answer.error.message


ODD = [
    "",
    " ",
    "\n",
    "\x01",
    "%_'\"\\",
    "$/;--",
    "e\u0301",
    "\u00e9",
    "\u202e",
    "\ud7ff" * 128,
    "\ue000" * 128,
    "\uffff" * 128,
    "\U0001f642" * 128,
    "\U0010ffff" * 128,
    "x" * 128,
    "x" * 127,
]


@pytest.mark.requirement("R240")
@pytest.mark.parametrize("size", [1, 5, 100])
def test_sessions_of_any_characters_are_listed_once_in_one_order(
    sessions: Sessions, size: int
) -> None:
    sessions.send(*[(name, b"x") for name in ODD])
    for name in ODD[::3]:
        token = sessions.accept(name)
        sessions.driver.run(SetSessionState("t", token, b"12"))
    found = counted(sessions, size)

    assert list(found) == sorted(ODD)
    assert {name for name in found if found[name].locked_until_ms is not None} == set(ODD[::3])
    assert {name for name in found if found[name].state_bytes == 2} == set(ODD[::3])
    assert {each.active for each in found.values()} == {1}
