"""The four memories of outcomes: bounds, what they take, what each may have forgotten."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import (
    outcomes,
    producer_memory,
    settler_memory,
)
from bendybus.partition_server.state.answers import Appended, Done, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, EntityRef, Now, Transact
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.outcomes import Operations, Outcomes
from bendybus.partition_server.state.producer_memory import Producers
from bendybus.partition_server.state.settler_memory import Settlers
from bendybus.partition_server.state.transaction_outcomes import Transactions
from bendybus.partition_server.store.records import Changes

pytestmark = pytest.mark.requirement("R93")
START = Now(1_000_000, 1_000_000)
REF = EntityRef("uid", 1)

# A memory, what remembers one more thing in it, and a user of it.
Made = tuple[Outcomes[Any], Callable[[int, Now], None], Any]


def of_producers() -> Made:
    memory = Producers((), START, {}, Journal())

    def remember(n: int, now: Now) -> None:
        command = Append("t", REF, Batch([b"x"]), producer_id=b"p" * 16, producer_sequence=n)
        memory.remember(command, Appended([n]), now, Changes())

    return memory, remember, "uid"


def of_transactions() -> Made:
    memory = Transactions(Producers((), START, {}, Journal()))

    def remember(n: int, now: Now) -> None:
        command = Transact("t", REF, n.to_bytes(16, "big"), ())
        memory.remember(command, Transacted(()), now, Changes())

    return memory, remember, "uid"


def of_operations() -> Made:
    memory = Operations(START)

    def remember(n: int, now: Now) -> None:
        memory.remember(b"uid/0/%d" % n, Done(n), now)

    return memory, remember, b"uid"


def of_settlers() -> Made:
    memory = Settlers()

    def remember(n: int, now: Now) -> None:
        token = n.to_bytes(16, "big")
        memory.remember(b"r%d" % n, Disposition.COMPLETE, token, now.mono_ms)

    return memory, remember, 0


MEMORIES = [of_producers, of_transactions, of_operations, of_settlers]


@pytest.mark.parametrize("make", MEMORIES)
def test_a_memory_takes_no_more_than_its_bounds_and_knows_what_it_forgot(
    make: Callable[[], Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 20)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 2)
    monkeypatch.setattr(outcomes, "OPERATIONS_MAX", 20)
    monkeypatch.setattr(settler_memory, "BYTES_MAX", 20 * settler_memory.ENTRY_BYTES)
    memory, remember, user = make()
    known_ms = memory.unknown_before(user, START)

    for n in range(100):
        now = Now(START.wall_ms + n, START.mono_ms + n)
        remember(n, now)

        entries, size_bytes = memory.used()
        assert 0 < entries <= memory.bounds().entries
        assert 0 < size_bytes <= memory.bounds().size_bytes
    assert known_ms < memory.unknown_before(user, now) < now.mono_ms


@pytest.mark.parametrize("make", MEMORIES)
def test_only_what_was_tried_before_something_was_forgotten_is_unknown(
    make: Callable[[], Made],
) -> None:
    memory, remember, user = make()
    now = Now(START.wall_ms + 10, START.mono_ms + 10)
    remember(1, now)
    age_ms = now.mono_ms - memory.unknown_before(user, now)

    assert not outcomes.may_be_forgotten(memory, user, 0, now)
    assert not outcomes.may_be_forgotten(memory, user, age_ms - 1, now)
    assert outcomes.may_be_forgotten(memory, user, age_ms, now)
