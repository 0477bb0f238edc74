"""How many messages of a session are locked at a time, and what an abandon looks at."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.rules import session_locks
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import (
    AttachSession,
    Deliver,
    ReceiveDeferred,
    Settle,
    StreamEnded,
)
from bendybus.partition_server.state.session_queue import SessionQueue
from tests.partition_server.session_driver import Sessions, recalled, settle
from tests.partition_server.test_session_undone import fail


class Counting(dict[int, Any]):
    """The locks of a queue; counts how often one is looked for."""

    looked = 0

    def get(self, key: int, default: Any = None) -> Any:
        """See dict."""
        self.looked += 1
        return super().get(key, default)


def queue_of(sessions: Sessions) -> SessionQueue:
    """Return the queue."""
    queue = sessions.driver.partition.state.queues.at(0)
    assert isinstance(queue, SessionQueue)
    return queue


@pytest.mark.requirement("R244")
def test_no_more_is_locked_of_a_session_than_its_receiver_may_attach_with(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_locks, "LOCKS_PER_SESSION", 10)
    sessions.send(*[("a", b"x")] * 30)
    token = sessions.accept("a")
    held = [lock for _, lock in sessions.receive(token, 9)]
    held += [lock for _, lock in sessions.receive(token, 9)]

    assert len(held) == 10
    assert sessions.receive(token) == []
    sessions.driver.run(StreamEnded("s"))
    [attached] = sessions.driver.run(
        AttachSession("s", 5, token, release_others=True, held_tokens=b"".join(held))
    )
    assert attached.error is None
    # It gets as many more as it settles.
    settle(sessions, Disposition.COMPLETE, *held[:4])
    assert len(sessions.receive(token, 9)) == 4


@pytest.mark.requirement("R244")
def test_deferred_messages_count_to_what_is_locked_of_a_session(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.send(*[("a", b"x")] * 12)
    token = sessions.accept("a")
    pairs = sessions.receive(token, 6)
    for _, lock in pairs:
        settle(sessions, Disposition.DEFER, lock)
    sessions.receive(token, 6)
    numbers = [row.counter for row, _ in pairs]
    monkeypatch.setattr(session_locks, "LOCKS_PER_SESSION", 10)

    def deferred(count: int, *, delete: bool = False) -> Any:
        ref = sessions.driver.ref()
        [answer] = sessions.driver.run(
            ReceiveDeferred("t", ref, delete, numbers[:count], session_token=token)
        )
        return answer

    refused = deferred(5)
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.ServerBusy)
    assert "10" in refused.error.message
    assert len(deferred(4).rows) == 4
    # What is deleted is not locked.
    del numbers[:4]
    assert len(deferred(2, delete=True).rows) == 2


@pytest.mark.requirement("R245")
def test_an_abandon_does_not_look_at_all_that_its_receiver_has(sessions: Sessions) -> None:
    sessions.send(*[("a", b"x")] * 300)
    token = sessions.accept("a")
    had = [lock for _, lock in sessions.receive(token, 300)]
    queue = queue_of(sessions)
    session = queue.held["a"]
    locks = Counting(queue.locks)

    assert session.reserved_after(1, locks) == []
    locks.looked = 0
    for _ in range(100):
        assert session.reserved_after(1, locks) == []

    assert locks.looked == 0
    assert not settle(sessions, Disposition.ABANDON, *had[100:])[0].failures


@pytest.mark.requirement("R245")
def test_after_an_abandon_whose_commit_failed_the_next_one_recalls_the_same(
    sessions: Sessions,
) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(5)])
    token = sessions.accept("a")
    locks = [lock for _, lock in sessions.reserve(token, 5)]
    sessions.driver.run(Deliver("s", 1, b"".join(locks[:2])))

    fail(sessions, Settle("s", 1, Disposition.ABANDON, locks[0]))
    again = settle(sessions, Disposition.ABANDON, locks[1])

    assert sorted(recalled(again)) == sorted(locks[2:])
    # Those are not recalled twice.
    assert recalled(settle(sessions, Disposition.ABANDON, locks[0])) == []


@pytest.mark.requirement("R245")
def test_what_is_reserved_again_after_a_failed_release_is_recalled(sessions: Sessions) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(4)])
    token = sessions.accept("a")
    locks = [lock for _, lock in sessions.reserve(token, 4)]
    sessions.driver.run(Deliver("s", 1, locks[0]))
    # What is unlocked for now is forgotten, and there again.
    fail(
        sessions,
        Settle("s", 1, Disposition.RELEASE, b"".join(locks[2:])),
        Settle("s", 2, Disposition.ABANDON, locks[0]),
    )

    assert sorted(recalled(settle(sessions, Disposition.ABANDON, locks[0]))) == sorted(locks[1:])


@pytest.mark.requirement("R245")
def test_what_was_delivered_is_forgotten_without_an_abandon(sessions: Sessions) -> None:
    token = sessions.accept("a")
    for _ in range(30):
        sessions.send(*[("a", b"x")] * 50)
        locks = [lock for _, lock in sessions.receive(token, 50)]
        settle(sessions, Disposition.COMPLETE, *locks)

    assert len(queue_of(sessions).held["a"].reserved) <= 400
