"""The sessions that the links of a connection hold, found by id and by link."""

import pytest

from bendybus.frontend.core.sessions import LockedSession
from bendybus.frontend.listeners.amqp.held_sessions import HeldSessions
from tests.work import steps


def session(name: str, token: bytes) -> LockedSession:
    return LockedSession(0, name, token, 0, 0)


@pytest.mark.requirement("R546")
def test_a_session_is_found_by_the_name_of_its_link_first() -> None:
    held = HeldSessions()
    held.add("Orders", "one", session("a", b"1"))
    held.add("orders", "two", session("a", b"2"))

    assert held.token("orders", "a", "one") == b"1"
    assert held.token("ORDERS", None, "two") == b"2"
    # The one that was locked last.
    assert held.token("orders", "a", "unknown") == b"2"
    assert held.token("orders", None, "unknown") is None
    assert held.token("orders", "b", "one") is None
    assert held.token("other", "a", "one") is None


def test_a_session_that_is_held_no_more_is_not_found() -> None:
    held = HeldSessions()
    first, second = session("a", b"1"), session("a", b"2")
    held.add("orders", "one", first)
    held.add("orders", "two", second)

    held.remove("orders", "two", second)
    assert held.token("orders", "a", "") == b"1"
    held.remove("orders", "one", first)
    assert held.token("orders", "a", "one") is None


def test_finding_a_session_costs_the_same_however_many_there_are() -> None:
    def work(count: int) -> int:
        held = HeldSessions()
        for number in range(count):
            held.add("orders", f"link {number}", session(f"{number}", b"%d" % number))
        return steps(lambda: held.token("orders", "1", ""))

    assert work(5_000) < 1.5 * work(10)
