"""What is kept for sessions, the list of sessions, and many sessions."""

import random
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.partition_server.rules import sessions as session_rules
from bendybus.partition_server.state import session_queue
from bendybus.partition_server.state.answers import (
    Done,
    Failed,
    SessionsListed,
    SessionStateRead,
)
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Append,
    ConfirmSession,
    DeleteMessages,
    GetSessionState,
    ListSessions,
    SetSessionState,
)
from bendybus.partition_server.state.session_queue import SessionQueue
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.session_driver import (
    LOCK_MS,
    Sessions,
    payloads,
    settle,
)


def keep(sessions: Sessions, token: bytes, state: bytes | None) -> Any:
    """Set a state; return the answer."""
    [answer] = sessions.driver.run(SetSessionState("t", token, state))
    return answer


def kept(sessions: Sessions, token: bytes) -> bytes | None:
    """Return a state."""
    [read] = sessions.driver.run(GetSessionState("t", token))
    assert isinstance(read, SessionStateRead), read
    return read.state


def listed(sessions: Sessions, count: int = 100) -> list[str]:
    """Return all sessions of the list, read in pages."""
    found: list[str] = []
    after: str | None = None
    while True:
        [page] = sessions.driver.run(ListSessions("t", sessions.driver.ref(), count, after))
        assert isinstance(page, SessionsListed), page
        found += page.session_ids
        after = page.following
        if after is None:
            return found


@pytest.mark.requirement("R77")
def test_the_state_of_a_session_is_kept_without_messages_until_it_is_cleared(
    sessions: Sessions,
) -> None:
    token = sessions.accept("a")
    assert kept(sessions, token) is None
    empty_bytes = sessions.driver.counts().size_bytes

    assert isinstance(keep(sessions, token, b"first"), Done)
    assert isinstance(keep(sessions, token, b"second one"), Done)
    sessions.close(token)
    sessions.driver.restart()

    token = sessions.accept("a")
    assert kept(sessions, token) == b"second one"
    assert sessions.driver.counts().size_bytes == empty_bytes + 64 + 1 + 10
    keep(sessions, token, None)
    assert kept(sessions, token) is None
    assert sessions.driver.counts().size_bytes == empty_bytes
    assert kept(sessions, sessions.accept("b")) is None


@pytest.mark.requirement("R77")
def test_a_state_is_set_only_under_the_lock_of_its_session(sessions: Sessions) -> None:
    token = sessions.accept("a")
    keep(sessions, token, b"mine")
    sessions.driver.advance(LOCK_MS)

    late = keep(sessions, token, b"late")

    assert isinstance(late, Failed)
    assert isinstance(late.error, errors.SessionLockLost)
    assert kept(sessions, sessions.accept("a")) == b"mine"


@pytest.mark.requirement("R77")
def test_a_state_has_the_size_of_a_message_at_most(sessions: Sessions) -> None:
    token = sessions.accept("a")
    most = 1024 * 1024

    assert isinstance(keep(sessions, token, b"x" * most), Done)
    refused = keep(sessions, token, b"x" * (most + 1))

    assert isinstance(refused.error, errors.MessageSizeExceeded)
    assert kept(sessions, token) == b"x" * most


@pytest.mark.requirement("R77")
@pytest.mark.requirement("R344")
def test_states_count_to_the_quota(driver: Driver) -> None:
    sessions = Sessions(driver, max_size_in_megabytes=1)
    first, second = sessions.accept("a"), sessions.accept("b")
    half = b"x" * (600 * 1024)
    keep(sessions, first, half)

    refused = keep(sessions, second, half)

    assert isinstance(refused.error, errors.QuotaExceeded)
    assert isinstance(keep(sessions, first, half[1:]), Done)
    keep(sessions, first, None)
    assert isinstance(keep(sessions, second, half), Done)


@pytest.mark.requirement("R77")
def test_states_of_a_subscription_count_to_the_quota_of_its_topic(driver: Driver) -> None:
    driver.put(TopicDescription(max_size_in_megabytes=1), "news")
    driver.put(SubscriptionDescription(requires_session=True), "news/Subscriptions/a")
    first, second = (accept(driver, "news/Subscriptions/a", name) for name in "ab")
    half = b"x" * (600 * 1024)

    stored = driver.run(SetSessionState("t", first, half))
    driver.advance(1)
    [refused] = driver.run(SetSessionState("t", second, half))
    driver.run(SetSessionState("t", first, None))
    driver.advance(1)
    again = driver.run(SetSessionState("t", second, half))

    assert [type(answer) for answer in (*stored, *again)] == [Done, Done]
    assert isinstance(refused.error, errors.QuotaExceeded)
    assert refused.error.message.startswith("topic 'news': partition 0 is full (1 MB).")


def accept(driver: Driver, name: str, session_id: str) -> bytes:
    """Accept a session; return its token."""
    [offer] = driver.run(AcceptSession("s", ord(session_id), driver.ref(name), session_id))
    driver.run(ConfirmSession("s", ord(session_id), offer.session_token))
    return bytes(offer.session_token)


@pytest.mark.requirement("R78")
def test_sessions_with_active_messages_or_a_state_are_listed_in_pages(sessions: Sessions) -> None:
    sessions.send(*[(name, b"x") for name in ("b", "ä", "", "deferred", "locked", "gone")])
    keep(sessions, sessions.accept("state"), b"s")
    keep(sessions, sessions.accept("z"), b"s")
    [(_, deferred)] = sessions.receive(sessions.accept("deferred"))
    settle(sessions, Disposition.DEFER, deferred)
    sessions.receive(sessions.accept("locked"))
    [(_, gone)] = sessions.receive(sessions.accept("gone"))
    settle(sessions, Disposition.COMPLETE, gone)

    wanted = ["", "b", "locked", "state", "z", "ä"]
    assert listed(sessions) == wanted
    for count in (1, 2, 3):
        assert listed(sessions, count) == wanted
    command = ListSessions("t", sessions.driver.ref(), session_rules.LISTED_MAX + 1)
    [refused] = sessions.driver.run(command)
    assert isinstance(refused.error, errors.InvalidArgument)


@pytest.mark.requirement("R78", "R107")
def test_sessions_whose_state_was_set_after_a_time_are_listed(sessions: Sessions) -> None:
    driver = sessions.driver
    sessions.send(("messages", b"x"))
    for name in ("a", "b", "c", "d"):
        keep(sessions, sessions.accept(name), b"s")
        driver.advance(1_000)
    since_ms = driver.now.wall_ms - 2_500

    def after(count: int) -> list[str]:
        names: list[str] = []
        last = None
        while True:
            command = ListSessions("t", driver.ref(), count, last, since_ms)
            [found] = driver.run(command)
            names += found.session_ids
            last = found.following
            if last is None:
                return names

    assert after(100) == after(1) == after(2) == ["c", "d"]


@pytest.mark.requirement("R78")
def test_a_deleted_queue_takes_its_sessions_and_states_with_it(sessions: Sessions) -> None:
    from bendybus.domain.entity import Origin
    from bendybus.partition_server.state.commands import CommitEntity

    sessions.send(("a", b"1"))
    keep(sessions, sessions.accept("b"), b"state")

    sessions.driver.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT))
    sessions.driver.sweep()

    reads = sessions.driver.store.sessions
    assert reads.listed(0, None, 10) == ([], None)
    assert not sessions.driver.partition.state.queues.dropped


@pytest.mark.requirement("R78")
def test_states_alone_are_removed_too_if_the_file_is_opened_again_before(driver: Driver) -> None:
    sessions = Sessions(driver)
    keep(sessions, sessions.accept("a"), b"state")
    driver.put(QueueDescription(requires_session=True), "other")
    batch = Batch([b"1"], session_ids=["a"], session_present=[True])
    driver.run(Append("t", driver.ref("other"), batch))
    commit(driver, EntityAction.DELETE)
    driver.restart()

    driver.sweep()

    assert driver.store.sessions.with_state(0, 10) == []
    assert not driver.partition.state.queues.dropped
    assert driver.partition.sweep(driver.now) is None


# Many sessions


@pytest.mark.requirement("R79")
def test_memory_does_not_grow_with_sessions_that_wait(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_queue, "CANDIDATES_MAX", 20)
    monkeypatch.setattr(session_queue, "PAGE_ROWS", 7)
    monkeypatch.setattr(session_queue, "HEAP_SPARE", 5)
    names = [f"s{n}" for n in range(100)]
    sessions.send(*[(name, b"1") for name in names])
    sessions.send(*[(name, b"2") for name in reversed(names)])
    queue = sessions.driver.partition.state.queues.at(0)
    assert isinstance(queue, SessionQueue)

    for name in names:
        # Oldest first, whatever was looked at before.
        token = sessions.accept()
        assert queue.held[name]
        pairs = sessions.receive(token)
        assert payloads(pairs) == [b"1", b"2"]
        settle(sessions, Disposition.COMPLETE, *(each for _, each in pairs))
        assert sessions.close(token).error is None
        assert len(queue.sessions._heads) <= 20
        assert len(queue.sessions._heap) <= 2 * 20 + 5

    assert not queue.held
    assert not queue.sessions._heads
    assert sessions.ask_accept() == []


@pytest.mark.requirement("R79")
def test_sessions_that_are_accepted_by_name_leave_nothing_behind(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state import session_queue

    monkeypatch.setattr(session_queue, "NOTES_SPARE", 5)
    monkeypatch.setattr(session_queue, "HEAP_SPARE", 5)
    for n in range(60):
        sessions.send((f"s{n}", b"x"))
        token = sessions.accept(f"s{n}")
        [(_, message)] = sessions.receive(token)
        settle(sessions, Disposition.COMPLETE, message)
        sessions.close(token)

    queue = sessions.driver.partition.state.queues.at(0)
    assert isinstance(queue, SessionQueue)
    assert len(queue.ends) <= 8
    assert len(queue.sessions._heap) <= 8
    assert not (queue.held)
    assert not (queue.by_number)
    assert not (queue.asks)
    assert not (queue.sessions.woken)


@pytest.mark.requirement("R72")
@pytest.mark.parametrize("seed", range(6))
def test_whatever_receivers_do_each_session_stays_in_order_and_has_one_receiver(
    sessions: Sessions, seed: int
) -> None:
    """A model: per session what is not settled, in order; random steps against it."""
    choose = random.Random(seed)
    expected: dict[str, list[int]] = {name: [] for name in "abc"}
    held: dict[str, bytes] = {}
    tokens: dict[str, dict[int, bytes]] = {name: {} for name in "abc"}
    sent = 0
    for _ in range(120):
        step = choose.choice(["send", "accept", "receive", "complete", "abandon", "close", "end"])
        name = choose.choice("abc")
        if step == "send":
            sent += 1
            sessions.send((name, b"%d" % sent))
            expected[name].append(sent)
        elif step == "accept" and name not in held:
            held[name] = sessions.accept(name)
        elif name not in held:
            continue
        elif step == "receive":
            ready = [n for n in expected[name] if n not in tokens[name]]
            pairs = sessions.receive(held[name], 2)
            assert [int(row.payload) for row, _ in pairs] == ready[:2]
            tokens[name] |= {int(row.payload): token for row, token in pairs}
        elif step in ("complete", "abandon") and tokens[name]:
            number = choose.choice(sorted(tokens[name]))
            done = step == "complete"
            disposition = Disposition.COMPLETE if done else Disposition.RELEASE
            assert not settle(sessions, disposition, tokens[name].pop(number))[0].failures
            if done:
                expected[name].remove(number)
        elif step == "close":
            sessions.close(held.pop(name))
            tokens[name].clear()
        elif step == "end" and choose.random() < 0.2:
            sessions.driver.restart()
            held.clear()
            tokens = {each: {} for each in "abc"}
        assert sessions.driver.counts().active == sum(map(len, expected.values()))
        assert sessions.driver.counts().locked == sum(map(len, tokens.values()))
    sessions.driver.run(DeleteMessages("t", sessions.driver.ref(), 1_000, 0, ACTIVE_ONLY))
    left = sum(map(len, tokens.values()))
    assert sessions.driver.counts().active == left
