"""Messages of sessions that are settled in transactions of one partition."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    ReceiveDeferred,
    Settle,
    StreamEnded,
    Transact,
)
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.session_driver import LOCK_MS, Sessions, payloads, recalled, transact
from tests.partition_server.transacting import ID, held, settling


@pytest.fixture
def sessions(driver: Driver) -> Sessions:
    """A session-aware queue."""
    return Sessions(driver, max_delivery_count=10)


def answering(sessions: Sessions, session_id: str, *bodies: bytes) -> Append:
    """Return a part that sends messages of a session."""
    batch = Batch(list(bodies), session_ids=[session_id] * len(bodies))
    return Append(None, sessions.driver.ref(), batch)


@pytest.mark.requirement("R230")
def test_every_settlement_of_a_session_is_one_unit_with_what_is_sent(sessions: Sessions) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(5)])
    token = sessions.accept("a")
    locks = [each for _, each in sessions.receive(token)]

    [done] = transact(
        sessions,
        settling(Disposition.COMPLETE, locks[0], session_token=token),
        answering(sessions, "a", b"answer"),
        settling(Disposition.ABANDON, locks[1], changed_properties=b"\x0a\x00"),
        settling(Disposition.DEFER, locks[2], session_token=token),
        settling(Disposition.DEAD_LETTER, locks[3], dead_letter_reason="bad"),
    )

    assert done.error is None
    counts = sessions.driver.counts()
    assert (counts.active, counts.deferred, counts.dead_letter, counts.locked) == (3, 1, 1, 1)
    # In their order, without the one that is still locked.
    again = sessions.receive(token)
    assert payloads(again) == [b"1", b"answer"]
    assert again[0][0].delivery_count == 1
    [deferred] = sessions.driver.run(
        ReceiveDeferred("t", sessions.driver.ref(), False, [3], session_token=token)
    )
    assert [row.payload for row in deferred.rows] == [b"2"]


@pytest.mark.requirement("R230")
def test_a_lost_message_lock_refuses_all_and_the_session_keeps_its_messages(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"0"), ("a", b"1"), ("a", b"2"))
    token = sessions.accept("a")
    locks = [each for _, each in sessions.receive(token)]
    sessions.driver.settle(Disposition.COMPLETE, locks[2])
    before = held(sessions.driver)

    refused, *others = transact(
        sessions,
        settling(Disposition.ABANDON, locks[0], session_token=token),
        settling(Disposition.COMPLETE, locks[1], session_token=token),
        answering(sessions, "a", b"answer"),
        settling(Disposition.COMPLETE, locks[2], session_token=token),
    )
    sessions.driver.sweep()

    assert isinstance(refused.error, errors.MessageLockLost)
    assert others == []
    assert held(sessions.driver) == before
    assert sessions.receive(token) == []
    # They end with the session, as before the transaction.
    assert sessions.close(token).error is None
    assert payloads(sessions.receive(sessions.accept("a"))) == [b"0", b"1"]


@pytest.mark.requirement("R231")
@pytest.mark.parametrize("how", ["over", "closed", "restarted", "never"])
@pytest.mark.parametrize(
    "disposition",
    [Disposition.COMPLETE, Disposition.ABANDON, Disposition.DEFER, Disposition.DEAD_LETTER],
)
def test_a_lost_session_refuses_all_of_the_transaction(
    sessions: Sessions, how: str, disposition: Disposition
) -> None:
    driver = sessions.driver
    sessions.send(("a", b"0"))
    token = sessions.accept("a")
    [(_, lock)] = sessions.receive(token)
    if how == "over":
        driver.mono_ms += LOCK_MS
    elif how == "closed":
        sessions.close(token)
    elif how == "restarted":
        driver.restart()
    else:
        lock, token = bytes(16), bytes(16)

    [refused] = transact(
        sessions,
        answering(sessions, "a", b"answer"),
        settling(disposition, lock, session_token=token),
    )

    assert isinstance(refused.error, errors.SessionLockLost)
    assert refused.refused_part == 1
    counts = driver.counts()
    assert (counts.active, counts.deferred, counts.dead_letter) == (1, 0, 0)


@pytest.mark.requirement("R231")
def test_a_session_whose_stream_was_lost_is_still_locked_at_the_commit(sessions: Sessions) -> None:
    sessions.send(("a", b"0"))
    token = sessions.accept("a")
    [(_, lock)] = sessions.receive(token)
    sessions.driver.run(StreamEnded("s"))

    [done] = transact(sessions, settling(Disposition.COMPLETE, lock, session_token=token))

    assert done.error is None
    assert sessions.driver.counts().active == 0


@pytest.mark.requirement("R232")
def test_two_sessions_are_refused_on_a_partitioned_queue(sessions: Sessions) -> None:
    sessions.send(("a", b"0"), ("b", b"1"))
    tokens = [sessions.accept("a"), sessions.accept("b")]
    locks = [sessions.receive(token)[0][1] for token in tokens]
    before = held(sessions.driver)
    together = [settling(Disposition.COMPLETE, lock) for lock in locks]

    both: list[list[Append | Settle]] = [
        [*together],
        [together[0], answering(sessions, "b", b"answer")],
    ]
    for n, parts in enumerate(both):
        [refused] = transact(sessions, *parts, id_=b"%016d" % n)
        assert isinstance(refused.error, errors.InvalidOperation)
        assert "different sessions" in refused.error.message
    assert held(sessions.driver) == before


@pytest.mark.requirement("R232")
def test_two_sessions_are_one_transaction_on_a_plain_queue(make_store: Any) -> None:
    sessions = Sessions(Driver(make_store(fingerprint(count=1))))
    sessions.send(("a", b"0"), ("b", b"1"))
    locks = [sessions.receive(sessions.accept(name))[0][1] for name in ("a", "b")]

    [done] = transact(
        sessions,
        *[settling(Disposition.COMPLETE, lock) for lock in locks],
        answering(sessions, "c", b"answer"),
    )

    assert done.error is None
    assert [row.payload for row in sessions.driver.peek()] == [b"answer"]


@pytest.mark.requirement("R233")
def test_what_is_cached_behind_an_abandoned_message_is_recalled_at_the_commit(
    sessions: Sessions,
) -> None:
    sessions.send(*[("a", b"%d" % n) for n in range(4)])
    token = sessions.accept("a")
    [(_, lock)] = sessions.receive(token, 1)
    cached = [each for _, each in sessions.reserve(token)]
    refused, *none = transact(
        sessions,
        settling(Disposition.ABANDON, lock, session_token=token),
        settling(Disposition.COMPLETE, bytes(16)),
        id_=b"refused".ljust(16),
    )
    assert refused.error is not None
    assert recalled(none) == []

    done, *answers = transact(
        sessions, settling(Disposition.ABANDON, lock, session_token=token), id_=b"done".ljust(16)
    )

    assert done.error is None
    assert recalled(answers) == cached
    assert payloads(sessions.receive(token)) == [b"0", b"1", b"2", b"3"]


@pytest.mark.requirement("R230")
def test_a_lock_of_a_session_is_not_renewed_alone(sessions: Sessions) -> None:
    sessions.send(("a", b"0"))
    token = sessions.accept("a")
    [(_, lock)] = sessions.receive(token)

    [refused] = transact(sessions, settling(Disposition.RENEW_LOCK, lock, session_token=token))

    assert isinstance(refused.error, errors.InvalidOperation)
    assert "Renew the session" in refused.error.message


@pytest.mark.requirement("R234")
def test_a_copy_of_the_file_at_a_kill_has_all_of_a_sessions_transaction_or_nothing(
    tmp_path: Path,
) -> None:
    for name in ("one", "before", "after"):
        (tmp_path / name).mkdir()
    store = SqliteStore(tmp_path / "one", fingerprint())
    sessions = Sessions(Driver(store))
    sessions.send(("a", b"0"), ("a", b"1"))
    token = sessions.accept("a")
    [(_, lock), _] = sessions.receive(token)
    _copy(tmp_path, "before")
    parts = (
        settling(Disposition.COMPLETE, lock, session_token=token),
        answering(sessions, "a", b"answer"),
    )
    transact(sessions, *parts)
    _copy(tmp_path, "after")
    store.close()

    found: dict[str, list[bytes]] = {}
    repeats: dict[str, Any] = {}
    for name in ("before", "after"):
        other = SqliteStore(tmp_path / name, fingerprint())
        driver = Driver(other)
        found[name] = [row.payload for row in driver.peek()]
        [repeat] = driver.run(Transact("t", driver.ref(), ID, parts, age_ms=1_000))
        repeats[name] = repeat.error
        other.close()

    assert found["before"] == [b"0", b"1"]
    assert found["after"] == [b"1", b"answer"]
    assert isinstance(repeats["before"], errors.SessionLockLost)
    assert repeats["after"] is None


def _copy(folder: Path, to: str) -> None:
    """Copy the file as after `kill -9`: no checkpoint, the write-ahead log as it is."""
    for name in ("partition-00.db", "partition-00.db-wal"):
        shutil.copy(folder / "one" / name, folder / to / name)
