"""Transactions in one partition: everything in one commit, or nothing."""

import shutil
from pathlib import Path

import pytest

from bendybus.domain import errors, limits, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, Counts, Settle, Transact
from bendybus.partition_server.store.errors import StoreFull
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint, tokens_of
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.running_partition import Runner, failing_once
from tests.partition_server.transacting import ID, KEY, held, locked, sending, settling, transact


@pytest.mark.requirement("R91")
def test_sends_and_every_kind_of_settlement_are_one_unit(queue: Driver) -> None:
    tokens = locked(queue, 5)

    done = transact(
        queue,
        settling(Disposition.COMPLETE, tokens[0]),
        sending(queue.ref(), b"one", b"two"),
        settling(Disposition.ABANDON, tokens[1], changed_properties=b"\x0a\x00"),
        settling(Disposition.DEFER, tokens[2]),
        settling(Disposition.DEAD_LETTER, tokens[3], dead_letter_reason="bad"),
        settling(Disposition.RENEW_LOCK, tokens[4]),
    )

    assert done.error is None
    numbers = [sequence_number.counter_of(number) for number in done.parts[1].numbers]
    assert numbers == [6, 7]
    assert done.parts[5].lock_remaining_ms == 60_000
    counts = queue.counts()
    assert (counts.active, counts.deferred, counts.dead_letter, counts.locked) == (4, 1, 1, 1)
    assert [row.payload for row, _ in queue.receive(5)] == [b"old", b"one", b"two"]


@pytest.mark.requirement("R92")
@pytest.mark.parametrize("disposition", sorted(set(Disposition) - {Disposition.RELEASE}))
def test_one_lost_lock_refuses_the_whole_and_changes_nothing(
    queue: Driver, disposition: Disposition
) -> None:
    kept, lost = locked(queue, 2)
    queue.settle(Disposition.ABANDON, lost)
    before = held(queue)

    refused = transact(
        queue,
        sending(queue.ref(), b"one"),
        settling(Disposition.DEAD_LETTER, kept),
        settling(disposition, lost),
    )
    queue.sweep()

    assert isinstance(refused.error, errors.MessageLockLost)
    assert (list(refused.parts), refused.refused_part) == ([], 2)
    assert held(queue) == before
    assert not queue.settle(Disposition.COMPLETE, kept).failures


@pytest.mark.requirement("R92")
def test_a_lock_that_ended_before_the_commit_refuses_the_whole(queue: Driver) -> None:
    [token] = locked(queue, 1)
    queue.mono_ms += 60_000

    refused = transact(queue, sending(queue.ref(), b"one"), settling(Disposition.COMPLETE, token))

    assert isinstance(refused.error, errors.MessageLockLost)
    assert queue.counts().active == 1


@pytest.mark.requirement("R92")
def test_a_message_settled_twice_in_a_transaction_refuses_it(queue: Driver) -> None:
    [token] = locked(queue, 1)

    refused = transact(
        queue, settling(Disposition.ABANDON, token), settling(Disposition.COMPLETE, token)
    )

    assert isinstance(refused.error, errors.MessageLockLost)
    assert not queue.settle(Disposition.COMPLETE, token).failures


@pytest.mark.requirement("R93")
def test_a_repeat_gets_the_first_outcome_also_after_a_restart(queue: Driver) -> None:
    [token] = locked(queue, 1)
    parts = (settling(Disposition.COMPLETE, token), sending(queue.ref(), b"one"))
    first = transact(queue, *parts)

    again = transact(queue, *parts, age_ms=1_000)
    queue.restart()
    later = transact(queue, *parts, age_ms=2_000)

    for repeat in (again, later):
        assert [list(part.numbers) for part in repeat.parts] == [
            list(part.numbers) for part in first.parts
        ]
    assert queue.counts().active == 1


@pytest.mark.requirement("R93")
def test_a_refused_transaction_stays_refused(queue: Driver) -> None:
    kept, lost = locked(queue, 2)
    queue.settle(Disposition.COMPLETE, lost)
    parts = (sending(queue.ref(), b"one"), settling(Disposition.COMPLETE, kept, lost))
    transact(queue, *parts)

    for restart in (False, True):
        if restart:
            queue.restart()
        refused = transact(queue, *parts, age_ms=1_000)

        assert isinstance(refused.error, errors.MessageLockLost)
        assert refused.refused_part == 1
    assert queue.counts().active == 1


@pytest.mark.requirement("R93")
def test_a_repeat_of_something_too_old_to_be_known_is_unknown_never_new(queue: Driver) -> None:
    with pytest.raises(errors.OutcomeUnknown):
        transact(queue, sending(queue.ref(), b"one"), age_ms=6 * limits.MINUTE_MS)

    assert queue.counts().active == 0


@pytest.mark.requirement("R93")
def test_an_outcome_keeps_its_duplicates_and_the_end_of_its_locks(driver: Driver) -> None:
    driver.create(requires_duplicate_detection=True)
    driver.send(b"a", message_ids=["a"], partition_keys=[KEY])
    [(_, token)] = driver.receive()
    parts = (
        sending(driver.ref(), b"a", b"b", message_ids=["a", "b"]),
        settling(Disposition.RENEW_LOCK, token),
    )
    first = transact(driver, *parts)

    driver.restart()
    again = transact(driver, *parts, age_ms=1)

    assert list(first.parts[0].duplicates) == list(again.parts[0].duplicates) == [True, False]
    assert again.parts[1].locked_until_ms == first.parts[1].locked_until_ms > 0


@pytest.mark.requirement("R94")
def test_transactions_of_one_turn_are_decided_each_on_its_own(queue: Driver) -> None:
    good, lost = locked(queue, 2)
    queue.settle(Disposition.COMPLETE, lost)
    ref = queue.ref()

    answers = queue.run(
        sending(ref, b"plain"),
        Transact("t", ref, b"a" * 16, [sending(ref, b"no"), settling(Disposition.COMPLETE, lost)]),
        Transact("t", ref, b"b" * 16, [sending(ref, b"yes"), settling(Disposition.COMPLETE, good)]),
        sending(ref, b"also plain"),
        Transact("t", ref, b"c" * 16, [settling(Disposition.COMPLETE, good)]),
    )

    assert [getattr(answer, "error", None) is None for answer in answers] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert [row.payload for row in queue.peek()] == [b"plain", b"yes", b"also plain"]
    # What was refused gave no numbers away.
    assert [row.counter for row in queue.peek()] == [3, 4, 5]


@pytest.mark.requirement("R91")
def test_a_commit_that_fails_leaves_nothing_of_it_and_it_can_be_repeated() -> None:
    store = MemoryStore(fingerprint())
    driver = Driver(store)
    driver.create()
    [token] = locked(driver, 1)
    before = held(driver)
    parts = (sending(driver.ref(), b"one"), settling(Disposition.COMPLETE, token))
    command = Transact("t", driver.ref(), ID, parts)

    stage = driver.partition.decide([command], driver.now)
    [refused] = driver.partition.abandon(stage, errors.PartitionUnavailable("full"), driver.now)

    assert isinstance(refused.value, Failed)
    assert held(driver) == before
    assert transact(driver, *parts, age_ms=1).error is None


@pytest.mark.requirement("R93")
def test_a_copy_of_the_file_at_the_moment_of_a_kill_answers_the_repeat(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "one", fingerprint())
    (tmp_path / "one").mkdir()
    driver = Driver(store)
    driver.create()
    [token] = locked(driver, 1)
    parts = (sending(driver.ref(), b"one"), settling(Disposition.COMPLETE, token))
    first = transact(driver, *parts)
    # As after `kill -9`: no checkpoint, the write-ahead log as it is.
    (tmp_path / "two").mkdir()
    for name in ("partition-00.db", "partition-00.db-wal"):
        shutil.copy(tmp_path / "one" / name, tmp_path / "two" / name)
    store.close()

    other = SqliteStore(tmp_path / "two", fingerprint())
    after = Driver(other)
    again = transact(after, *parts, age_ms=1_000)
    payloads = [row.payload for row in after.peek()]
    other.close()

    assert list(again.parts[0].numbers) == list(first.parts[0].numbers)
    assert payloads == [b"one"]


@pytest.mark.requirement("R91")
def test_without_room_those_that_send_are_refused_and_the_others_are_done(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"old"], partition_keys=[KEY])))
    reserved = runner.ask(Ask("s", 1, ref, False, 1, 1 << 20))
    settle = Settle(None, 0, Disposition.COMPLETE, tokens_of(reserved), entity_uid=ref.uid)

    for sends in (True, False):
        full = failing_once(runner.store, StoreFull("disk full"))
        with monkeypatch.context() as patch:
            patch.setattr(runner.store, "commit", full)
            parts = (settle, sending(ref, b"new")) if sends else (settle,)
            answer = runner.ask(Transact("t", ref, ID, parts))

        if sends:
            assert isinstance(answer.error, errors.PartitionUnavailable)
        else:
            assert answer.error is None
    [counts] = runner.ask(Counts("t"))
    assert counts.active == 0


@pytest.mark.requirement("R92")
def test_renewals_of_a_lock_whose_commit_fails_leave_it_as_it_was(queue: Driver) -> None:
    [token] = locked(queue, 1)
    [lock] = queue.partition.state.queues.main_of(queue.ref().uid).locks.values()
    until_ms = lock.until_mono_ms
    queue.mono_ms += 20_000
    renewal = settling(Disposition.RENEW_LOCK, token)
    commands = [Transact("t", queue.ref(), b"%016d" % n, [renewal]) for n in range(2)]
    stage = queue.partition.decide(commands, queue.now)
    assert lock.until_mono_ms > until_ms

    queue.partition.abandon(stage, errors.PartitionUnavailable("full"), queue.now)

    assert lock.until_mono_ms == until_ms
