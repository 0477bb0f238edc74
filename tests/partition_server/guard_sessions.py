"""What is asked of a session-aware queue while rules have bugs; see `guard_scenarios`."""

from typing import Final

from bendybus.domain.disposition import Disposition as D
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Ask,
    AttachSession,
    CloseSession,
    ConfirmSession,
    Deliver,
    ReceiveDeferred,
    Release,
    RenewSession,
    SetSessionState,
    Settle,
    StreamEnded,
    ToldSession,
)  # fmt: skip
from tests.partition_server.driver import Driver
from tests.partition_server.guard_scenarios import Plan, Scenario
from tests.partition_server.session_driver import Sessions


def make_sessions(driver: Driver) -> tuple[Sessions, bytes]:
    sessions = Sessions(driver)
    sessions.send(("a", b"0"), ("a", b"1"), ("a", b"2"), ("b", b"3"), ("a", b"4"))
    return sessions, sessions.accept("a")


def session_accept(driver: Driver) -> Plan:
    make_sessions(driver)
    return Plan(AcceptSession("s", 4, driver.ref(), "b"))


def session_accept_next(driver: Driver) -> Plan:
    make_sessions(driver)
    return Plan(AcceptSession("s", 4, driver.ref(), None))


def session_confirm(driver: Driver) -> Plan:
    sessions, _ = make_sessions(driver)
    [offer] = sessions.ask_accept("b")
    return Plan(ConfirmSession("s", 5, offer.session_token, receiver_id=b"r" * 16, tells=True))


def session_told(driver: Driver) -> Plan:
    plan = session_confirm(driver)
    driver.run(plan.target)
    return Plan(ToldSession("s", plan.target.session_token))


def session_renew(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    sessions.receive(token, 2)
    driver.advance(1_000)
    return Plan(RenewSession("s", 5, token))


def session_attach(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    pairs = sessions.reserve(token, 4)
    driver.run(Deliver("s", 1, pairs[0][1]))
    sessions.ask(token, 4)
    return Plan(AttachSession("new", 5, token, release_others=True, held_tokens=pairs[0][1]))


def session_close(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    sessions.receive(token, 2)
    sessions.ask(token, 9)
    return Plan(CloseSession("s", 5, token))


def session_state(driver: Driver) -> Plan:
    _, token = make_sessions(driver)
    return Plan(SetSessionState("t", token, b"state"))


def session_abandon(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    pairs = sessions.reserve(token, 4)
    driver.run(Deliver("s", 1, pairs[0][1]))
    return Plan(Settle("s", 1, D.ABANDON, pairs[0][1], session_token=token))


def session_release(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    pairs = sessions.reserve(token, 4)
    return Plan(Release("s", pairs[1][1]))


def session_receive_deferred(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    pairs = sessions.receive(token, 2)
    driver.settle(D.DEFER, *(each for _, each in pairs))
    return Plan(ReceiveDeferred("t", driver.ref(), False, [1, 2], session_token=token))


def session_ask(driver: Driver) -> Plan:
    _, token = make_sessions(driver)
    return Plan(Ask("s", 5, driver.ref(), False, 3, 1 << 20, session_token=token))


def session_stream_ended(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    sessions.ask_accept("b")
    pairs = sessions.reserve(token, 2)
    driver.run(Deliver("s", 1, pairs[0][1]))
    return Plan(StreamEnded("s"), comparable=False)


def session_untold_stream_ended(driver: Driver) -> Plan:
    sessions = Sessions(driver)
    sessions.send(("b", b"0"), ("b", b"1"))
    [offer] = sessions.ask_accept("b")
    driver.run(ConfirmSession("s", 5, offer.session_token, receiver_id=b"r" * 16, tells=True))
    return Plan(StreamEnded("s"), comparable=False)


SCENARIOS: Final[dict[str, Scenario]] = {
    each.__name__: each
    for each in (
        session_accept,
        session_accept_next,
        session_confirm,
        session_told,
        session_renew,
        session_attach,
        session_close,
        session_state,
        session_abandon,
        session_release,
        session_receive_deferred,
        session_ask,
        session_stream_ended,
        session_untold_stream_ended,
    )
}
