"""What is forgotten of repeats to make room: the oldest of the entity that has too much."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition as D
from bendybus.domain.entity import Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.lock_token import LockToken
from bendybus.partition_server.state import (
    outcomes,
    producer_memory,
    settler_memory,
)
from bendybus.partition_server.state.answers import Done, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CommitEntity,
    Now,
    Transact,
)
from bendybus.partition_server.state.outcomes import Operations
from bendybus.partition_server.state.settler_memory import Settlers
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver

DELETE = EntityAction.DELETE

PRODUCER = b"p" * 16


@pytest.fixture
def both(driver: Driver) -> Driver:
    """Return a partition with two queues, `orders` and `other`."""
    driver.create()
    driver.create("other")
    return driver


def send(driver: Driver, name: str, sequence: int, age_ms: int = 0) -> Any:
    batch = Batch([b"m"])
    [value] = driver.run(
        Append("t", driver.ref(name), batch, (), PRODUCER + name.encode(), sequence, age_ms=age_ms)
    )
    return value


@pytest.mark.requirement("R342")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_busy_queue_shortens_its_own_window_of_repeats_and_no_other(
    both: Driver, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 20)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 4)
    first = send(both, "other", 1)
    both.advance(1_000)
    for sequence in range(100):
        both.advance(10)
        send(both, "orders", sequence)
    if restarted:
        both.restart()

    again = send(both, "other", 1, age_ms=2_500)
    new = send(both, "other", 2, age_ms=2_000)
    forgotten = send(both, "orders", 3, age_ms=2_000)
    known = send(both, "orders", 99, age_ms=2_000)

    assert (list(again.numbers), list(new.numbers)) == (list(first.numbers), [2])
    assert isinstance(forgotten.error, errors.OutcomeUnknown)
    assert list(known.numbers) == [100]
    assert len(both.store.open().producers) <= 26


@pytest.mark.requirement("R342")
def test_a_queue_of_large_outcomes_is_forgotten_before_small_ones(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 4)
    monkeypatch.setattr(producer_memory, "BYTES_MAX", 20_000)
    first = send(both, "other", 1)
    for sequence in range(30):
        both.advance(10)
        batch = Batch([b"m"] * 40, partition_keys=["k" * 200, "k"] * 20)
        both.run(Append("t", both.ref(), batch, [1] * 40, PRODUCER, sequence))

    assert list(send(both, "other", 1, age_ms=900).numbers) == list(first.numbers)


@pytest.mark.requirement("R342")
def test_a_transaction_is_remembered_with_its_entity(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 20)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 4)

    def transact(name: str, number: int, age_ms: int = 0) -> Any:
        ref = both.ref(name)
        parts = [Append(None, ref, Batch([b"m"], partition_keys=["k"]))]
        [value] = both.run(Transact("t", ref, b"%016d" % number, parts, age_ms=age_ms))
        return value

    first = transact("other", 1_000)
    for number in range(60):
        both.advance(10)
        if number == 10:
            both.restart()
        transact("orders", number)
    both.restart()

    [again] = transact("other", 1_000, age_ms=1_000).parts
    assert list(again.numbers) == list(first.parts[0].numbers)
    assert isinstance(transact("orders", 1, age_ms=1_000).error, errors.OutcomeUnknown)


@pytest.mark.requirement("R342")
def test_what_an_older_version_forgot_is_unknown_of_all_entities(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 20)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 4)
    driver = Driver(store)
    driver.create()
    driver.create("other")
    for sequence in range(60):
        driver.advance(10)
        send(driver, "orders", sequence)
    # An older version reads this one time, for all of them.
    [(mark,)] = store._connection().execute(
        "SELECT value FROM marks WHERE name = 'producers_forgotten_until_ms'"
    )
    assert mark == max(store._producers.unknown().values())
    driver.restart()
    assert not isinstance(send(driver, "other", 1, age_ms=500), Failed)

    store._connection().execute(
        "UPDATE marks SET value = ? WHERE name = 'producers_forgotten_until_ms'",
        (driver.wall_ms,),
    )
    # It was opened by it.
    store._connection().execute("UPDATE header SET boot = boot + 1")
    driver.wall_ms += 100
    driver.restart()

    assert isinstance(send(driver, "other", 2, age_ms=500).error, errors.OutcomeUnknown)
    assert not isinstance(send(driver, "other", 3, age_ms=50), Failed)


@pytest.mark.requirement("R342")
def test_what_is_remembered_of_a_deleted_queue_goes_first_and_leaves_no_mark(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 20)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 4)
    for sequence in range(60):
        send(both, "orders", sequence)
    for sequence in range(8):
        send(both, "other", sequence)
    uid = both.ref().uid
    both.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT, kind=EntityKind.QUEUE))
    assert uid not in both.store.open().producers_unknown

    for sequence in range(8, 20):
        send(both, "other", sequence)

    assert uid not in both.store.open().producers_unknown
    both.restart()
    assert [list(send(both, "other", n, age_ms=100).numbers) for n in range(20)] == [
        [n + 1] for n in range(20)
    ]


@pytest.mark.requirement("R461")
def test_deleted_queues_leave_nothing_in_memory(
    both: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = both.partition.state.producers._gone
    for n in range(5):
        both.create(f"reply-{n}")
        both.run(CommitEntity("t", DELETE, f"reply-{n}", Origin.CLIENT, kind=EntityKind.QUEUE))
    assert len(gone) == 0

    send(both, "orders", 1)
    both.run(CommitEntity("t", DELETE, "orders", Origin.CLIENT, kind=EntityKind.QUEUE))
    assert len(gone) == 1
    # It is among the first to be forgotten.
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 2)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 1)
    for sequence in range(4):
        send(both, "other", sequence)

    assert len(gone) == 0


@pytest.mark.requirement("R342")
def test_operations_on_one_entity_leave_those_on_others_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcomes, "OPERATIONS_MAX", 64)
    memory = Operations(Now(0, 0))
    memory.remember(b"other/1/x", Done(7), Now(0, 500))

    for n in range(200):
        memory.remember(b"orders/1/%d" % n, Done(n), Now(0, 1_000 + n))

    now = Now(0, 2_000)
    assert memory.outcome_of(b"other/1/x", 1_900, now, Done) == Done(7)
    assert memory.outcome_of(b"other/1/y", 1_500, now, Done) is None
    with pytest.raises(errors.OutcomeUnknown):
        memory.outcome_of(b"orders/1/3", 1_500, now, Done)
    assert memory.outcome_of(b"orders/1/199", 1_500, now, Done) == Done(199)
    # All of that is forgotten in time.
    later = 2_000 + 2 * outcomes.AGE_MS_MAX
    for n in range(99):
        memory.remember(b"new/1/%d" % n, Done(1), Now(0, later + n))
    assert set(memory._windows) == {b"new"}


@pytest.mark.requirement("R342")
def test_receivers_of_one_queue_leave_what_those_of_others_settled_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settler_memory, "BYTES_MAX", 20_000)
    memory = Settlers()

    def token(slot: int, counter: int) -> bytes:
        return LockToken(0, slot, counter, 1, 1).to_bytes()

    memory.remember(b"mine", D.COMPLETE, token(1, 1), 1_000)
    for n in range(500):
        memory.remember(b"%d" % n, D.COMPLETE, token(2, n), 1_000 + n)

    assert memory.settled(b"mine", D.COMPLETE) == {token(1, 1)}
    assert memory.settled(b"3", D.COMPLETE) == set()
    assert memory.settled(b"499", D.COMPLETE) == {token(2, 499)}
    assert memory.used()[1] <= 20_000
