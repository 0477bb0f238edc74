"""The lock of a session: how long it lasts, how it ends, what a lost stream or a restart do."""

import itertools
from typing import Any
from unittest.mock import Mock

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.lock_token import LockToken
from bendybus.partition_server.state.answers import AskRefused, SessionOffered
from bendybus.partition_server.state.commands import (
    AcceptSession,
    AttachSession,
    ConfirmSession,
    GetSessionState,
    RenewSession,
    SetSessionState,
    StreamEnded,
)
from tests.partition_server.session_driver import LOCK_MS, Sessions, held, payloads, settle


@pytest.mark.requirement("R73")
def test_close_frees_a_session_at_once_and_counts_no_delivery(sessions: Sessions) -> None:
    sessions.send(("a", b"1"))
    token = sessions.accept("a")
    sessions.receive(token)

    assert sessions.close(token).error is None

    [(row, _)] = sessions.receive(sessions.accept("a"))
    assert row.delivery_count == 0
    assert isinstance(sessions.close(token).error, errors.SessionLockLost)


@pytest.mark.requirement("R73")
def test_a_session_lock_ends_also_where_every_turn_is_slow(sessions: Sessions) -> None:
    sessions.send(*[("a", b"%d" % number) for number in range(5)])
    sessions.receive(sessions.accept("a"), 5)
    # The time of a turn is over before its first message.
    sessions.driver.partition.state.clock_ms = itertools.count(0, 20).__next__

    sessions.driver.advance(LOCK_MS)

    assert len(sessions.receive(sessions.accept("a"), 5)) == 5


@pytest.mark.requirement("R73")
def test_when_a_session_lock_ends_what_the_client_had_counts_as_delivered(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"), ("a", b"2"))
    token = sessions.accept("a")
    [(_, had)] = sessions.receive(token, 1)
    sessions.reserve(token, 1)

    sessions.driver.advance(LOCK_MS)

    [failed] = settle(sessions, Disposition.COMPLETE, had, session_token=token)
    assert isinstance(failed.failures[0][1], errors.SessionLockLost)
    rows = [row for row, _ in sessions.receive(sessions.accept("a"))]
    assert [(row.payload, row.delivery_count) for row in rows] == [(b"1", 1), (b"2", 0)]


@pytest.mark.requirement("R73")
def test_a_message_that_is_delivered_too_often_is_dead_lettered_and_the_session_goes_on(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"), ("a", b"2"))
    for _ in range(3):
        sessions.receive(sessions.accept("a"), 1)
        sessions.driver.advance(LOCK_MS)

    assert payloads(sessions.receive(sessions.accept("a"))) == [b"2"]
    [dead] = sessions.driver.receive(dead_letter=True)
    assert (dead[0].payload, dead[0].session_id) == (b"1", "a")


@pytest.mark.requirement("R73")
def test_a_renewed_session_lock_and_the_locks_of_its_messages_last_longer(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"))
    token = sessions.accept("a")
    [(_, message)] = sessions.receive(token)

    for _ in range(3):
        sessions.driver.advance(LOCK_MS - 1)
        [renewed] = sessions.driver.run(RenewSession("s", 1, token))
        assert renewed.error is None
        assert renewed.lock_remaining_ms == LOCK_MS

    assert not settle(sessions, Disposition.COMPLETE, message)[0].failures
    sessions.driver.advance(LOCK_MS)
    [lost] = sessions.driver.run(RenewSession("s", 1, token))
    assert isinstance(lost.error, errors.SessionLockLost)


@pytest.mark.requirement("R73")
def test_the_lock_of_a_message_is_not_renewed_without_its_session(sessions: Sessions) -> None:
    sessions.send(("a", b"1"))
    [(_, message)] = sessions.receive(sessions.accept("a"))

    [settled] = settle(sessions, Disposition.RENEW_LOCK, message)

    assert isinstance(settled.failures[0][1], errors.InvalidOperation)


@pytest.mark.requirement("R73")
def test_a_lost_message_is_told_from_a_lost_session(sessions: Sessions) -> None:
    sessions.send(("a", b"1"))
    token = sessions.accept("a")
    [(_, message)] = sessions.receive(token)
    settle(sessions, Disposition.COMPLETE, message)

    [again] = settle(sessions, Disposition.COMPLETE, message, session_token=token)
    sessions.close(token)
    [late] = settle(sessions, Disposition.ABANDON, message, session_token=token)

    assert isinstance(again.failures[0][1], errors.MessageLockLost)
    assert isinstance(late.failures[0][1], errors.SessionLockLost)


@pytest.mark.requirement("R74")
def test_after_a_lost_stream_a_session_stays_locked_and_can_be_attached_again(
    sessions: Sessions,
) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(1, 4)])
    token = sessions.accept("a")
    [(_, had)] = sessions.receive(token, 1)
    sessions.reserve(token, 1)

    sessions.driver.run(StreamEnded("s"))
    [refused] = sessions.ask_accept("a", stream="thief")
    [attached] = sessions.driver.run(AttachSession("new", 5, token))

    assert isinstance(refused.error, errors.SessionCannotBeLocked)
    assert attached.error is None
    assert payloads(sessions.receive(token, stream="new")) == [b"2", b"3"]
    assert not settle(sessions, Disposition.COMPLETE, had)[0].failures


@pytest.mark.requirement("R74")
def test_a_session_that_is_attached_elsewhere_is_not_served_on_the_old_stream(
    sessions: Sessions,
) -> None:
    token = sessions.accept("a")
    assert sessions.ask(token) == []

    answers = sessions.driver.run(AttachSession("new", 5, token))

    assert isinstance(answers[0], AskRefused)
    assert isinstance(answers[0].error, errors.SessionLockLost)
    [late] = sessions.ask(token)
    assert isinstance(late.error, errors.SessionLockLost)


@pytest.mark.requirement("R74")
def test_after_a_lost_stream_a_session_is_free_when_its_lock_ends(sessions: Sessions) -> None:
    sessions.send(("a", b"1"))
    token = sessions.accept("a")
    sessions.receive(token)
    sessions.driver.run(StreamEnded("s"))

    assert sessions.ask_accept() == []
    answers = sessions.driver.advance(LOCK_MS)

    [offer] = [a for a in answers if isinstance(a, SessionOffered)]
    assert offer.session_id == "a"
    [lost] = sessions.driver.run(AttachSession("new", 5, token))
    assert isinstance(lost.error, errors.SessionLockLost)


@pytest.mark.requirement("R74")
def test_a_restart_of_the_partition_loses_session_locks_but_no_message(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"), ("b", b"2"), ("a", b"3"))
    token = sessions.accept("a")
    [(_, had), _] = sessions.receive(token)

    sessions.driver.restart()

    [lost] = settle(sessions, Disposition.COMPLETE, had, session_token=token)
    assert isinstance(lost.failures[0][1], errors.SessionLockLost)
    [renewed] = sessions.driver.run(RenewSession("s", 1, token))
    assert isinstance(renewed.error, errors.SessionLockLost)
    assert payloads(sessions.receive(sessions.accept())) == [b"1", b"3"]
    assert payloads(sessions.receive(sessions.accept())) == [b"2"]


def test_a_token_of_a_message_or_of_nothing_leads_to_no_session(sessions: Sessions) -> None:
    sessions.send(("a", b"1"))
    token = sessions.accept("a")
    [(_, message)] = sessions.receive(token)
    other = LockToken(0, 0, (1 << 47) + 99, 1, 5).to_bytes()

    for wrong in (message, other, b"x" * 16):
        [lost] = sessions.driver.run(RenewSession("s", 1, wrong))
        assert isinstance(lost.error, errors.SessionLockLost)
    [short] = sessions.driver.run(RenewSession("s", 1, b"short"))
    assert isinstance(short.error, errors.InvalidArgument)


@pytest.mark.requirement("R104")
def test_a_receiver_that_attaches_gets_again_what_was_lost_on_the_way(sessions: Sessions) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(1, 6)])
    token = sessions.accept("a")
    delivered = sessions.receive(token, 4)
    held = delivered[0][1] + delivered[2][1]

    sessions.driver.run(StreamEnded("s"))
    [attached] = sessions.driver.run(AttachSession("new", 5, token, "", True, held))

    assert attached.error is None
    again = sessions.receive(token, stream="new")
    assert payloads(again) == [b"2", b"4", b"5"]
    assert {row.delivery_count for row, _ in again} == {0}
    assert not settle(sessions, Disposition.COMPLETE, held[:16], held[16:])[0].failures


@pytest.mark.requirement("R104")
def test_held_tokens_have_a_bound(sessions: Sessions) -> None:
    token = sessions.accept("a")
    for tokens in (b"x", bytes(16 * 10_001)):
        [attached] = sessions.driver.run(AttachSession("s", 5, token, "", True, tokens))
        assert isinstance(attached.error, errors.InvalidArgument)


@pytest.mark.requirement("R106")
def test_the_token_of_a_session_is_good_for_its_entity_only(sessions: Sessions) -> None:
    token = sessions.accept("a")
    uid = sessions.driver.ref().uid

    for command in (RenewSession, AttachSession):
        [own] = sessions.driver.run(command("s", 1, token, uid))
        [other] = sessions.driver.run(command("s", 1, token, "other"))
        assert own.error is None
        assert isinstance(other.error, errors.SessionLockLost)
    for asked in (GetSessionState("c", token, "other"), SetSessionState("c", token, b"", "other")):
        [failed] = sessions.driver.run(asked)
        assert isinstance(failed.error, errors.SessionLockLost)


@pytest.mark.requirement("R74")
def test_a_front_end_that_is_late_does_not_take_a_session_from_the_one_its_receiver_is_at(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"))
    [offer] = sessions.ask_accept("a")
    token, known = offer.session_token, sessions.confirm(offer).attachment
    attached = AttachSession("other", 1, token, release_others=True)
    [moved] = sessions.driver.run(attached)
    assert (known, moved.attachment) == (1, 2)

    [late] = sessions.driver.run(AttachSession("s", 2, token, attachment=known))

    assert isinstance(late.error, errors.SessionLockLost)
    assert payloads(sessions.receive(token, stream="other")) == [b"1"]
    # The one that its receiver is at may have another stream, and an earlier version none to say.
    for stream, attachment in (("third", 2), ("fourth", 0)):
        again = AttachSession(stream, 3, token, attachment=attachment)
        assert sessions.driver.run(again)[0].error is None


@pytest.mark.requirement("R70", "R71")
def test_a_receiver_that_was_not_told_of_its_lock_accepts_the_session_again(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"))
    me, run, ref = b"me" * 8, sessions.driver.run, sessions.driver.ref()

    def accept(stream: str, receiver_id: bytes) -> Any:
        [answer] = run(AcceptSession(stream, sessions.next_id(), ref, "a", receiver_id))
        return answer

    first = accept("s", me).session_token
    assert run(ConfirmSession("s", 1, first, "", me))[0].error is None
    run(StreamEnded("s"))
    assert isinstance(accept("other", b""), AskRefused)
    assert isinstance(accept("other", b"another"), AskRefused)

    again = accept("other", me)
    assert run(ConfirmSession("other", 2, again.session_token, "", me))[0].error is None

    # A late close of the first lock, which no receiver has, does not end the second one.
    assert isinstance(sessions.close(first).error, errors.SessionLockLost)
    assert payloads(sessions.receive(again.session_token, stream="other")) == [b"1"]
    # From here on its receiver has the token.
    assert isinstance(accept("other", me), AskRefused)


@pytest.mark.requirement("R70")
def test_the_name_of_a_receiver_is_bounded(sessions: Sessions) -> None:
    too_long = b"x" * (limits.SETTLER_ID_BYTES_MAX + 1)
    [refused] = sessions.driver.run(AcceptSession("s", 1, sessions.driver.ref(), "a", too_long))
    assert isinstance(refused.error, errors.InvalidArgument)
    [offer] = sessions.ask_accept("a")
    [late] = sessions.driver.run(ConfirmSession("s", 2, offer.session_token, "", too_long))
    assert isinstance(late.error, errors.InvalidArgument)


@pytest.mark.requirement("R651")
def test_a_renewal_of_a_session_costs_the_same_however_many_messages_are_locked(
    sessions: Sessions,
) -> None:
    sessions.send(*(("a", b"%d" % number) for number in range(50)))
    token = sessions.accept("a")
    pairs = sessions.receive(token, 50)
    lock, looked = held(sessions), Mock(side_effect=AssertionError("looked at all locks"))
    lock.held = Mock(items=looked, values=looked)

    sessions.driver.advance(LOCK_MS - 1_000)
    [renewed] = sessions.driver.run(RenewSession("s", 1, token))

    assert renewed.error is None
    lock.held = {}
    sessions.driver.advance(LOCK_MS - 1_000)
    [settled] = settle(sessions, Disposition.COMPLETE, *(each for _, each in pairs))
    assert not settled.failures
