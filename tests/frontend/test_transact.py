"""Transactions at the front end: bounded while they are open, handed over once."""

import asyncio
from typing import Any

import grpc
import pytest

from bendybus.domain import errors, limits
from bendybus.frontend.core import transact
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import Bounds
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.transact import Commit, Open, TransactionDispatcher
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import statuses
from tests.frontend.transactions import (
    HOME,
    ID,
    KEY,
    FakePartition,
    Lost,
    directory,
    send,
    settle,
)


@pytest.fixture
def partitions() -> dict[int, FakePartition]:
    """Four partitions."""
    return {index: FakePartition(index) for index in range(4)}


@pytest.fixture
def dispatcher(partitions: dict[int, Any]) -> TransactionDispatcher:
    """A dispatcher of these partitions."""
    return TransactionDispatcher(partitions, directory(), Metrics())


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the dispatcher, in ms."""
    clock = [1_000]
    monkeypatch.setattr(transact, "now_ms", lambda: clock[0])
    return clock


async def test_a_commit_is_one_call_with_all_parts_in_order(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition]
) -> None:
    opened = dispatcher.begin(ID, Holder("c", ""))
    dispatcher.collect(opened, [settle(1)])
    dispatcher.collect(opened, [send(KEY, KEY)])

    results = await dispatcher.commit(opened, Commit([settle(2)]))

    (request,) = partitions[HOME].requests
    assert [part.WhichOneof("kind") for part in request.parts] == ["settle", "send", "settle"]
    assert (request.transaction_id, request.age_ms) == (ID, 0)
    assert request.entity.uid == "uid-orders"
    assert request.deadline_monotonic_ms > 0
    assert [result.numbers for result in results] == [[7], [7], [7]]
    assert dispatcher.open() == 0
    assert not any(partitions[index].requests for index in partitions if index != HOME)


@pytest.mark.requirement("R235", "R238")
async def test_what_is_for_another_entity_says_so(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition]
) -> None:
    opened = dispatcher.begin(ID, Holder("c", ""))
    dispatcher.collect(opened, [settle(1), send("a", "a", entity="other")])

    await dispatcher.commit(opened, Commit([]))

    (request,) = partitions[HOME].requests
    settled, sent = request.parts
    assert settled.WhichOneof("kind") == "settle"
    # Not a field of a send: a partition that does not know it would keep the messages as its own.
    assert sent.WhichOneof("kind") == "transfer"
    assert (sent.transfer.destination.uid, sent.transfer.destination.generation) == ("uid-other", 1)
    assert len(sent.transfer.batch.messages) == 2


@pytest.mark.requirement("R120")
async def test_nothing_reaches_a_partition_before_the_commit(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition]
) -> None:
    opened = dispatcher.begin(ID, Holder("c", ""))
    dispatcher.collect(opened, [send(KEY), settle(1)])
    dispatcher.forget(opened)
    dispatcher.forget(opened)

    assert not any(each.requests for each in partitions.values())
    assert dispatcher.open() == 0


@pytest.mark.requirement("R121")
async def test_a_refusal_of_the_partition_names_the_operation(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition]
) -> None:
    error = statuses.to_error(errors.MessageLockLost("the lock is over."))
    refusal = partition_pb2.TransactionRefusal(part=1, error=error)
    partitions[HOME].answers = [partition_pb2.TransactResponse(refusal=refusal)]
    opened = dispatcher.begin(ID, Holder("c", ""))

    with pytest.raises(errors.MessageLockLost, match="operation 2 was refused: the lock is over"):
        await dispatcher.commit(opened, Commit([send(KEY), settle(1)]))
    assert dispatcher.open() == 0


@pytest.mark.requirement("R125")
async def test_a_lost_answer_is_of_unknown_outcome_and_a_repeat_says_its_age(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition]
) -> None:
    partitions[HOME].answers = [Lost(grpc.StatusCode.UNAVAILABLE)]
    opened = dispatcher.begin(ID, Holder("c", ""))
    with pytest.raises(errors.OutcomeUnknown):
        await dispatcher.commit(opened, Commit([send(KEY)]))

    again = dispatcher.begin(ID, Holder("d", ""), age_ms=500)
    await dispatcher.commit(again, Commit([send(KEY)], age_ms=300))

    first, second = partitions[HOME].requests
    assert (first.transaction_id, second.transaction_id) == (ID, ID)
    assert (first.age_ms, second.age_ms) == (0, 300)


@pytest.mark.requirement("R125")
@pytest.mark.parametrize(
    "error",
    [
        errors.EntityDisabled("it is disabled."),
        errors.ServerBusy("too much at once."),
        errors.InvalidOperation("not like this."),
    ],
)
async def test_only_the_partitions_outcome_says_that_a_repeat_was_not_done(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition], error: errors.BusError
) -> None:
    class Refused(Lost):
        def trailing_metadata(self) -> Any:
            status = statuses.to_status(error)
            return (("grpc-status-details-bin", status.SerializeToString()),)

    partitions[HOME].answers = [Refused(statuses.CODES[type(error)]) for _ in range(2)]
    first, repeat = dispatcher.begin(ID, Holder("c", "")), dispatcher.begin(ID, Holder("c", ""))

    with pytest.raises(type(error)):
        await dispatcher.commit(first, Commit([send(KEY)]))
    with pytest.raises(errors.OutcomeUnknown):
        await dispatcher.commit(repeat, Commit([send(KEY)], age_ms=1))
    gone = dispatcher.begin(ID, Holder("c", ""))
    with pytest.raises(errors.OutcomeUnknown):
        await dispatcher.commit(gone, Commit([send(KEY, entity="deleted")], age_ms=1))


async def test_a_partition_that_knows_another_version_of_the_entity_is_asked_again(
    dispatcher: TransactionDispatcher,
    partitions: dict[int, FakePartition],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transact, "RETRY_S", 0.0)

    class Older(Lost):
        def trailing_metadata(self) -> Any:
            status = statuses.to_status(errors.GenerationMismatch("another version."))
            return (("grpc-status-details-bin", status.SerializeToString()),)

    partitions[HOME].answers = [Older(grpc.StatusCode.ABORTED)]
    opened = dispatcher.begin(ID, Holder("c", ""))

    await dispatcher.commit(opened, Commit([send(KEY)]))

    assert len(partitions[HOME].requests) == 2


@pytest.mark.requirement("R124")
async def test_the_time_of_a_transaction_counts_from_its_first_operation(
    dispatcher: TransactionDispatcher, now: list[int], partitions: dict[int, FakePartition]
) -> None:
    opened = dispatcher.begin(ID, Holder("c", ""))
    dispatcher.collect(opened, [send(KEY)])
    moved = dispatcher.begin(ID, Holder("c", ""), age_ms=1_000)
    dispatcher.collect(moved, [send(KEY)])
    now[0] += limits.TRANSACTION_MS_MAX

    with pytest.raises(errors.InvalidOperation, match="within 120 s"):
        dispatcher.collect(moved, [send(KEY)])
    with pytest.raises(errors.InvalidOperation, match="within 120 s"):
        await dispatcher.commit(moved, Commit())
    assert not partitions[HOME].requests
    await dispatcher.commit(opened, Commit())


@pytest.mark.requirement("R125")
async def test_a_repeated_commit_is_never_too_late(
    dispatcher: TransactionDispatcher, partitions: dict[int, FakePartition]
) -> None:
    old = 2 * limits.TRANSACTION_MS_MAX
    opened = dispatcher.begin(ID, Holder("c", ""), age_ms=old)

    await dispatcher.commit(opened, Commit([send(KEY)], age_ms=old))

    assert len(partitions[HOME].requests) == 1


@pytest.mark.requirement("R124")
async def test_a_transaction_that_is_never_ended_is_let_go_of(
    dispatcher: TransactionDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSACTION_MS_MAX", 20)
    opened = dispatcher.begin(ID, Holder("c", ""))
    dispatcher.collect(opened, [send(KEY)])

    await asyncio.sleep(0.1)

    assert dispatcher.open() == 0
    with pytest.raises(errors.InvalidOperation, match="was rolled back"):
        dispatcher.collect(opened, [send(KEY)])
    with pytest.raises(errors.InvalidOperation, match="was rolled back"):
        await dispatcher.commit(opened, Commit())


@pytest.mark.requirement("R124")
async def test_open_transactions_and_their_bytes_are_bounded(
    dispatcher: TransactionDispatcher,
) -> None:
    dispatcher._quota.transactions.use(Bounds(2, 3, 3))
    opened: list[Open] = [dispatcher.begin(ID, Holder("c", "")) for _ in range(2)]
    with pytest.raises(errors.ServerBusy, match="of this connection"):
        dispatcher.begin(ID, Holder("c", ""))
    opened.append(dispatcher.begin(ID, Holder("d", "")))
    with pytest.raises(errors.ServerBusy, match="or of all"):
        dispatcher.begin(ID, Holder("e", ""))
    dispatcher.forget(opened[0])
    opened[0] = dispatcher.begin(ID, Holder("c", ""))

    dispatcher._quota.transaction_bytes.use(Bounds(2_000, 3_000, 3_000))
    dispatcher.collect(opened[0], [send(KEY, body=bytes(1_500))])
    with pytest.raises(errors.ServerBusy, match="of this connection"):
        dispatcher.collect(opened[1], [send(KEY, body=bytes(1_000))])
    with pytest.raises(errors.ServerBusy, match="too many bytes"):
        dispatcher.collect(opened[2], [send(KEY, body=bytes(1_600))])
    dispatcher.forget(opened[0])
    dispatcher.collect(opened[1], [send(KEY, body=bytes(1_000))])
    for each in opened:
        dispatcher.forget(each)
    assert (dispatcher.open(), dispatcher._quota.transaction_bytes.held) == (0, 0)


async def test_what_cannot_name_a_transaction_is_refused(
    dispatcher: TransactionDispatcher,
) -> None:
    with pytest.raises(errors.InvalidArgument, match="16 bytes"):
        dispatcher.begin(b"short", Holder("c", ""))
    with pytest.raises(errors.InvalidArgument, match="age_ms"):
        dispatcher.begin(ID, Holder("c", ""), age_ms=-1)
    opened = dispatcher.begin(ID, Holder("c", ""))
    with pytest.raises(errors.InvalidArgument, match="timeout_ms"):
        await dispatcher.commit(opened, Commit([send(KEY)], timeout_ms=-1))
