"""Sessions: one receiver each, in order, from accept to close."""

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.partition_server.state.answers import (
    AskRefused,
    Delivery,
    Failed,
    Reserved,
    SessionOffered,
    Withdrawn,
)
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Append,
    Ask,
    Batch,
    CloseSession,
    DeleteMessages,
    Deliver,
    Peek,
    ReceiveDeferred,
    Release,
    StreamEnded,
    Withdraw,
)
from tests.partition_server.driver import Driver
from tests.partition_server.session_driver import LOCK_MS, Sessions, payloads, recalled, settle

# Accept


@pytest.mark.requirement("R70")
def test_a_session_is_received_in_order_by_the_one_receiver_that_accepted_it(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"a1"), ("b", b"b1"), ("a", b"a2"), ("b", b"b2"))

    token = sessions.accept("a")
    [refused] = sessions.ask_accept("a", stream="other")

    assert isinstance(refused, AskRefused)
    assert isinstance(refused.error, errors.SessionCannotBeLocked)
    assert payloads(sessions.receive(token)) == [b"a1", b"a2"]
    sessions.send(("b", b"b3"), ("a", b"a3"))
    assert payloads(sessions.receive(token)) == [b"a3"]


@pytest.mark.requirement("R70")
def test_a_session_without_messages_is_accepted_by_its_name_and_gets_what_comes(
    sessions: Sessions,
) -> None:
    token = sessions.accept("empty")
    assert sessions.ask(token) == []

    [reserved] = sessions.send(("other", b"o"), ("empty", b"e"))

    assert [row.payload for row in reserved.delivery.rows] == [b"e"]


@pytest.mark.requirement("R71")
def test_the_next_session_is_the_free_one_with_the_oldest_message(sessions: Sessions) -> None:
    sessions.send(("b", b"b1"), ("a", b"a1"), ("b", b"b2"), ("c", b"c1"))
    first = sessions.accept()
    second = sessions.accept()

    assert payloads(sessions.receive(first)) == [b"b1", b"b2"]
    assert payloads(sessions.receive(second)) == [b"a1"]
    sessions.close(second)
    third = sessions.accept()
    assert payloads(sessions.receive(third)) == [b"a1"]


@pytest.mark.requirement("R71")
def test_a_session_whose_oldest_message_is_gone_takes_its_turn_by_the_next_one(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"a1"), time_to_live_ms=[1_000])
    sessions.send(("b", b"b1"), ("c", b"c1"), ("a", b"a2"))
    sessions.driver.advance(1_000)

    accepted = [payloads(sessions.receive(sessions.accept())) for _ in range(3)]

    assert accepted == [[b"b1"], [b"c1"], [b"a2"]]


@pytest.mark.requirement("R71")
def test_receivers_that_wait_for_a_session_get_them_in_turn(sessions: Sessions) -> None:
    assert sessions.ask_accept(stream="one") == []
    assert sessions.ask_accept(stream="two") == []

    [x] = sessions.send(("x", b"1"))
    [y] = sessions.send(("y", b"1"), ("z", b"1"))

    assert (x.session_id, y.session_id) == ("x", "y")
    assert sessions.confirm(x, stream="one").error is None
    assert sessions.confirm(y, stream="two").error is None


@pytest.mark.requirement("R71")
def test_an_offer_that_is_not_confirmed_lapses_uncounted(sessions: Sessions) -> None:
    sessions.send(("a", b"a1"))
    [offer] = sessions.ask_accept()

    sessions.driver.advance(2_000)

    assert sessions.confirm(offer).error is not None
    [(row, _)] = sessions.receive(sessions.accept())
    assert row.delivery_count == 0


@pytest.mark.requirement("R71")
def test_an_offer_that_is_declined_goes_to_the_next_receiver(sessions: Sessions) -> None:
    sessions.send(("a", b"a1"))
    [offer] = sessions.ask_accept()
    assert sessions.ask_accept(stream="other") == []

    _, again = sessions.driver.run(CloseSession("s", 1, offer.session_token))

    assert isinstance(again, SessionOffered)
    assert again.session_id == "a"
    assert sessions.confirm(again, stream="other").error is None


@pytest.mark.requirement("R71")
def test_an_offer_is_confirmed_only_on_the_stream_that_got_it(sessions: Sessions) -> None:
    sessions.send(("a", b"a1"))
    [offer] = sessions.ask_accept()

    assert isinstance(sessions.confirm(offer, stream="thief").error, errors.SessionLockLost)


@pytest.mark.requirement("R71")
def test_an_offer_ends_with_its_stream_and_so_does_an_accept_that_waits(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"a1"))
    sessions.ask_accept(stream="gone")
    sessions.ask_accept(stream="gone")
    sessions.driver.run(StreamEnded("gone"))
    sessions.send(("b", b"b1"))

    assert payloads(sessions.receive(sessions.accept())) == [b"a1"]
    assert payloads(sessions.receive(sessions.accept())) == [b"b1"]


@pytest.mark.requirement("R71")
def test_an_accept_that_waits_can_be_taken_back(sessions: Sessions) -> None:
    assert sessions.ask_accept() == []
    [withdrawn] = sessions.driver.run(Withdraw("s", sessions._ids))

    assert isinstance(withdrawn, Withdrawn)
    sessions.send(("a", b"a1"))
    assert sessions.accept("a")


# Order


@pytest.mark.requirement("R72")
def test_what_a_front_end_gives_back_comes_before_the_later_messages_that_it_keeps(
    sessions: Sessions,
) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(1, 5)])
    token = sessions.accept("a")
    given_back, kept = sessions.reserve(token, 2), sessions.reserve(token, 2)

    tokens = b"".join(each for _, each in given_back)
    answers = sessions.driver.run(Release("s", tokens))

    assert recalled(answers) == [each for _, each in kept]
    assert payloads(sessions.receive(token)) == [b"1", b"2", b"3", b"4"]


@pytest.mark.requirement("R72")
def test_an_abandoned_message_comes_before_the_later_ones_of_its_session(
    sessions: Sessions,
) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(1, 7)])
    token = sessions.accept("a")
    (_, first), (_, second) = sessions.receive(token, 2)
    cached = sessions.reserve(token, 2)

    answers = settle(sessions, Disposition.ABANDON, first)

    assert recalled(answers) == [each for _, each in cached]
    again = sessions.receive(token, 10)
    assert payloads(again) == [b"1", b"3", b"4", b"5", b"6"]
    assert [row.delivery_count for row, _ in again] == [1, 0, 0, 0, 0]
    assert not settle(sessions, Disposition.COMPLETE, second)[0].failures


@pytest.mark.requirement("R72")
def test_what_is_recalled_cannot_be_delivered_any_more(sessions: Sessions) -> None:
    sessions.send(("a", b"1"), ("a", b"2"))
    token = sessions.accept("a")
    [(_, first)] = sessions.receive(token, 1)
    [(_, second)] = sessions.reserve(token, 1)
    settle(sessions, Disposition.ABANDON, first)

    [delivered] = sessions.driver.run(Deliver("s", 7, second))

    assert (delivered.deliver_id, delivered.lost) == (7, [0])
    assert payloads(sessions.receive(token)) == [b"1", b"2"]


@pytest.mark.requirement("R72")
def test_what_its_receiver_had_comes_first_in_the_next_lock_of_a_session(
    sessions: Sessions,
) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(1, 5)])
    token = sessions.accept("a")
    pairs = sessions.receive(token, 3)
    settle(sessions, Disposition.COMPLETE, pairs[1][1])
    sessions.close(token)

    assert payloads(sessions.receive(sessions.accept("a"))) == [b"1", b"3", b"4"]


# What is refused


@pytest.mark.requirement("R75")
def test_a_message_without_a_session_is_refused_by_a_queue_with_sessions(
    sessions: Sessions,
) -> None:
    with pytest.raises(errors.InvalidOperation, match="The SessionId was not set on a message"):
        sessions.driver.send(b"x")

    outcome = sessions.driver.send(
        b"good", b"bad", session_ids=["", ""], session_present=[True, False], groups=(1, 1)
    )

    assert [group for group, _ in outcome.failures] == [1]
    assert payloads(sessions.receive(sessions.accept(""))) == [b"good"]


@pytest.mark.requirement("R75")
def test_queues_with_and_without_sessions_refuse_receivers_of_the_other_kind(
    driver: Driver,
) -> None:
    sessions = Sessions(driver)
    token = sessions.accept("a")
    [without] = driver.reserve()
    dead = Ask("s", 1, driver.ref(dead_letter=True), False, 1, 100, session_token=token)
    [in_dead] = driver.run(dead)
    accept_dead = AcceptSession("s", 2, driver.ref(dead_letter=True), None)
    [accepted] = driver.run(accept_dead)

    assert isinstance(without.error, errors.InvalidOperation)
    assert "non-sessionful" in str(without.error)
    assert isinstance(in_dead.error, errors.InvalidOperation)
    assert isinstance(accepted.error, errors.InvalidOperation)


@pytest.mark.requirement("R75")
def test_a_plain_queue_has_no_sessions_to_accept_or_to_peek(queue: Driver) -> None:
    queue.send(b"x", session_ids=["a"])
    [accepted] = queue.run(AcceptSession("s", 1, queue.ref(), "a"))
    [peeked] = queue.run(Peek("t", queue.ref(), 0, 1, 100, session_id="a"))

    assert isinstance(accepted.error, errors.InvalidOperation)
    assert isinstance(peeked, Failed)
    assert [row.payload for row, _ in queue.receive()] == [b"x"]


def test_a_session_id_has_at_most_128_characters(sessions: Sessions) -> None:
    [long] = sessions.ask_accept("x" * 129)
    [nul] = sessions.ask_accept("a\0")

    assert isinstance(long.error, errors.InvalidArgument)
    assert isinstance(nul.error, errors.InvalidArgument)
    odd = "\U0001f68c" * 128
    sessions.send((odd, b"1"))
    assert payloads(sessions.receive(sessions.accept(odd))) == [b"1"]


# Other states, and what else happens to messages


@pytest.mark.requirement("R76")
def test_deferred_messages_are_received_within_their_session(sessions: Sessions) -> None:
    sessions.send(("a", b"1"), ("a", b"2"), ("b", b"3"))
    token, other = sessions.accept("a"), sessions.accept("b")
    pairs = sessions.receive(token)
    settle(sessions, Disposition.DEFER, pairs[0][1])
    number = [pairs[0][0].counter]
    ref = sessions.driver.ref()

    [without] = sessions.driver.run(ReceiveDeferred("t", ref, False, number))
    [wrong] = sessions.driver.run(ReceiveDeferred("t", ref, False, number, session_token=other))
    [found] = sessions.driver.run(ReceiveDeferred("t", ref, False, number, session_token=token))

    assert isinstance(without.error, errors.InvalidOperation)
    assert isinstance(wrong.error, errors.MessageNotFound)
    assert isinstance(found, Delivery)
    assert [row.payload for row in found.rows] == [b"1"]
    [(_, message)] = sessions.driver.tokens(Reserved(0, found, 0, 0, False))
    sessions.driver.advance(LOCK_MS)
    [lost] = settle(sessions, Disposition.COMPLETE, message, session_token=token)
    assert isinstance(lost.failures[0][1], errors.SessionLockLost)
    assert sessions.driver.counts().deferred == 1


@pytest.mark.requirement("R76")
def test_a_session_is_peeked_alone_with_messages_of_every_state(sessions: Sessions) -> None:
    later = sessions.driver.wall_ms + 60_000
    sessions.send(("a", b"1"), ("b", b"2"), ("a", b"3"))
    sessions.send(("a", b"later"), scheduled_ms=[later])
    token = sessions.accept("a")
    settle(sessions, Disposition.DEFER, sessions.receive(token, 1)[0][1])

    command = Peek("t", sessions.driver.ref(), 0, 100, 1 << 20, session_id="a")
    [peeked] = sessions.driver.run(command)

    shown = [(row.payload, row.state) for row in peeked.delivery.rows]
    assert shown == [(b"1", 1), (b"3", 0), (b"later", 2)]
    sessions.driver.advance(1)
    assert payloads(sessions.receive(token)) == [b"3"]
    sessions.driver.advance(LOCK_MS)
    sessions.driver.advance(LOCK_MS)
    assert payloads(sessions.receive(sessions.accept("a"))) == [b"3", b"later"]


@pytest.mark.requirement("R76")
def test_what_is_deleted_or_expires_is_neither_received_nor_offered(sessions: Sessions) -> None:
    sessions.send(("old", b"1"), ("old", b"2"), time_to_live_ms=[1_000, 1_000])
    sessions.send(("doomed", b"3"))
    sessions.driver.run(DeleteMessages("t", sessions.driver.ref(), 10, 0, ACTIVE_ONLY))
    sessions.send(("old", b"4"), time_to_live_ms=[1_000])
    sessions.send(("alive", b"5"))
    sessions.driver.advance(1_000)

    assert payloads(sessions.receive(sessions.accept())) == [b"5"]
    assert sessions.ask_accept() == []


@pytest.mark.requirement("R76")
def test_receive_and_delete_of_a_session_deletes_what_is_delivered(sessions: Sessions) -> None:
    sessions.send(("a", b"1"), ("a", b"2"), ("a", b"3"))
    token = sessions.accept("a")
    assert payloads(sessions.receive(token, 2, delete=True)) == [b"1", b"2"]
    sessions.reserve(token, 1, delete=True)
    sessions.close(token)

    assert payloads(sessions.receive(sessions.accept("a"))) == [b"3"]
    assert sessions.driver.counts().active == 1


@pytest.mark.requirement("R108")
def test_a_partition_key_that_differs_from_the_session_is_refused(sessions: Sessions) -> None:
    batch = Batch([b"1", b"2"], session_ids=["a", "a"], partition_keys=["", "a"])
    [stored] = sessions.driver.run(Append("t", sessions.driver.ref(), batch))
    assert not stored.failures

    batch = Batch([b"1", b"2"], session_ids=["a", "a"], partition_keys=["a", "b"])
    [refused] = sessions.driver.run(Append("t", sessions.driver.ref(), batch, (1, 1)))

    assert [(group, type(error)) for group, error in refused.failures] == [
        (1, errors.InvalidOperation)
    ]
