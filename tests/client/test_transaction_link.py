"""A transaction on its way to the bus: what is repeated, and what its caller is told."""

import asyncio
from collections import deque
from typing import Any

import grpc
import pytest

from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.transaction_link import State, TransactionLink
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.v1 import transaction_pb2
from bendybus.wire import statuses
from bendybus.wire.contract_versions import CLIENT
from bendybus.wire.streams import ADMITTED

Response = transaction_pb2.TransactResponse
COLLECTED = Response()
COMMITTED = Response(ended=True, results=[transaction_pb2.TransactionResult(sequence_numbers=[7])])
# What becomes of a stream at a request: it ends cleanly, breaks, or stays silent.
ENDS, BREAKS, SILENT = "ends", "breaks", "silent"
Step = Response | str


def refused(error: BusError, *, ended: bool = True) -> Response:
    """Return the answer to what is refused."""
    return Response(error=statuses.to_error(error), ended=ended)


class FakeCall:
    """A stream that answers as its script says."""

    def __init__(self, script: deque[Step]) -> None:
        self._script = script
        self.written: list[Any] = []
        self._status: grpc.StatusCode | None = None
        self.cancelled = False

    async def initial_metadata(self) -> Any:
        """Admit it."""
        return grpc.aio.Metadata(ADMITTED, CLIENT.said)

    async def trailing_metadata(self) -> Any:
        """Return none."""
        return grpc.aio.Metadata()

    async def write(self, request: Any) -> None:
        """Take a request."""
        if self._status is not None:
            raise asyncio.InvalidStateError
        copied = type(request)()
        copied.CopyFrom(request)
        self.written.append(copied)

    async def read(self) -> Any:
        """Answer it."""
        step = self._script.popleft()
        if isinstance(step, Response):
            return step
        if step == SILENT:
            await asyncio.sleep(3_600)
        self.end(grpc.StatusCode.OK if step == ENDS else grpc.StatusCode.UNAVAILABLE)
        return grpc.aio.EOF

    def end(self, status: grpc.StatusCode) -> None:
        """End it from the bus's side."""
        self._status = status

    async def code(self) -> Any:
        """Return its status."""
        return self._status

    async def details(self) -> str:
        """Say why."""
        return "the front end is gone"

    def done(self) -> bool:
        """Whether it has ended."""
        return self._status is not None

    def cancel(self) -> None:
        """End it from this side."""
        self.cancelled = True


class Bus:
    """A link, and the streams that it opened."""

    def __init__(self, *script: Step, retries: int = 3) -> None:
        self.calls: list[FakeCall] = []
        self._script = deque(script)
        self.kept: list[FakeCall] = []
        self.closed = False
        self._retry = RetryPolicy(total=retries, backoff_factor_s=0.0)
        self.link = self.begin()

    def begin(self) -> TransactionLink:
        """Return another transaction of the same connection."""
        return TransactionLink(self, self._retry)

    async def open_transaction_stream(self) -> Any:
        """Return a stream."""
        if self.kept:
            return self.kept.pop()
        self.calls.append(FakeCall(self._script))
        return self.calls[-1]

    def keep_transaction_stream(self, call: Any) -> None:
        """Take a stream back."""
        self.kept.append(call)

    def explained(self, error: BusError) -> BusError:
        """Explain nothing."""
        return error

    @property
    def requests(self) -> list[Any]:
        """What was written, on all streams."""
        return [request for call in self.calls for request in call.written]


def operation(entity: str = "orders") -> transaction_pb2.TransactionOperation:
    """Return an operation."""
    return transaction_pb2.TransactionOperation(
        send=transaction_pb2.TransactionSend(entity_path=entity)
    )


async def test_operations_and_commit_go_over_one_stream() -> None:
    bus = Bus(COLLECTED, COLLECTED, COMMITTED)

    assert await bus.link.add(operation(), 5) == 0
    assert await bus.link.add(operation(), 5) == 1
    await bus.link.commit(5)

    (call,) = bus.calls
    assert [len(each.operations) for each in call.written] == [1, 1, 0]
    assert [each.WhichOneof("end") for each in call.written] == [None, None, "commit"]
    assert len({each.transaction_id for each in call.written}) == 1
    assert call.written[2].commit.age_ms == 0
    assert (bus.link.state, len(bus.link.results)) == (State.COMMITTED, 1)
    assert (bus.kept, call.cancelled) == ([call], False)


@pytest.mark.requirement("R127")
async def test_a_stream_that_breaks_before_the_commit_rolls_back() -> None:
    bus = Bus(COLLECTED, BREAKS)
    await bus.link.add(operation(), 5)

    with pytest.raises(errors.RetryableError, match="was rolled back with its connection"):
        await bus.link.add(operation(), 5)

    assert bus.link.state is State.ROLLED_BACK
    with pytest.raises(errors.RetryableError, match="was rolled back with its connection"):
        await bus.link.commit(5)
    assert len(bus.calls) == 1


@pytest.mark.requirement("R127")
async def test_a_stream_that_broke_unseen_rolls_back_at_the_commit() -> None:
    bus = Bus(COLLECTED)
    await bus.link.add(operation(), 5)
    bus.calls[0].end(grpc.StatusCode.UNAVAILABLE)

    with pytest.raises(errors.RetryableError, match="was rolled back with its connection"):
        await bus.link.commit(5)
    assert [each.WhichOneof("end") for each in bus.requests] == [None]


async def test_the_first_operation_is_repeated_while_nothing_is_collected() -> None:
    busy = refused(errors.ServerBusy("too many open transactions."))
    bus = Bus(BREAKS, busy, COLLECTED)

    await bus.link.add(operation(), 5)

    assert bus.link.state is State.OPEN
    assert [len(each.operations) for each in bus.requests] == [1, 1, 1]


@pytest.mark.requirement("R127")
async def test_a_stream_that_is_moved_is_opened_again_with_all_operations() -> None:
    bus = Bus(COLLECTED, ENDS, COLLECTED, COLLECTED, COMMITTED, retries=0)
    await bus.link.add(operation(), 5)
    await bus.link.add(operation(), 5)
    await asyncio.sleep(0.01)
    await bus.link.add(operation(), 5)
    bus.calls[1].end(grpc.StatusCode.OK)
    await bus.link.commit(5)

    assert [len(each.operations) for each in bus.requests] == [1, 1, 2, 1, 3]
    assert bus.requests[3].age_ms >= 10
    assert bus.requests[4].commit.age_ms == 0
    assert bus.link.state is State.COMMITTED


@pytest.mark.requirement("R125")
@pytest.mark.parametrize("lost", [BREAKS, ENDS, refused(errors.OutcomeUnknown("no answer."))])
async def test_a_commit_without_an_answer_is_repeated_by_its_id(lost: Step) -> None:
    bus = Bus(COLLECTED, lost, COMMITTED)
    await bus.link.add(operation(), 5)

    await bus.link.commit(5)

    first, second = bus.requests[1:]
    assert second.transaction_id == first.transaction_id
    assert (first.commit.age_ms, len(second.operations)) == (0, 1)
    assert second.commit.age_ms >= 1
    assert bus.link.state is State.COMMITTED


@pytest.mark.requirement("R125")
async def test_an_outcome_that_stays_unknown_is_asked_for_by_another_commit() -> None:
    bus = Bus(COLLECTED, BREAKS, BREAKS, COMMITTED, retries=1)
    await bus.link.add(operation(), 5)

    with pytest.raises(errors.OutcomeUnknown, match=r"call commit\(\) again"):
        await bus.link.commit(5)
    assert bus.link.state is State.UNKNOWN
    with pytest.raises(errors.InvalidOperation, match="may be committed"):
        await bus.link.add(operation(), 5)
    with pytest.raises(errors.InvalidOperation, match="may be committed"):
        await bus.link.rollback()
    await bus.link.commit(5)

    assert bus.requests[-1].commit.age_ms >= 1
    await bus.link.commit(5)


@pytest.mark.requirement("R125")
async def test_a_refused_repeat_is_still_of_unknown_outcome_when_the_bus_is_busy() -> None:
    busy = refused(errors.ServerBusy("too much."))
    bus = Bus(COLLECTED, BREAKS, busy, retries=1)
    await bus.link.add(operation(), 5)

    with pytest.raises(errors.OutcomeUnknown):
        await bus.link.commit(5)


async def test_a_commit_that_was_refused_for_now_is_repeated_as_a_first_one() -> None:
    busy = refused(errors.ServerBusy("too much."))
    bus = Bus(COLLECTED, busy, COMMITTED)
    await bus.link.add(operation(), 5)

    await bus.link.commit(5)

    assert [each.commit.age_ms for each in bus.requests] == [0, 0, 0]
    # The bus takes nothing more under this id on the stream where it ended.
    assert len(bus.calls) == 2


@pytest.mark.requirement("R121")
async def test_a_refused_commit_is_told_again_to_those_who_use_it_after_that() -> None:
    bus = Bus(COLLECTED, refused(errors.MessageLockLost("the lock is over.")))
    await bus.link.add(operation(), 5)

    for use in (bus.link.commit(5), bus.link.add(operation(), 5), bus.link.commit(5)):
        with pytest.raises(errors.MessageLockLost):
            await use
    assert len(bus.requests) == 2


@pytest.mark.requirement("R128")
async def test_an_operation_that_is_refused_is_not_part_of_it() -> None:
    wrong = refused(errors.InvalidOperation("another key."), ended=False)
    bus = Bus(COLLECTED, wrong, ENDS, COMMITTED)
    await bus.link.add(operation(), 5)
    with pytest.raises(errors.InvalidOperation, match="another key"):
        await bus.link.add(operation("wrong"), 5)
    await bus.link.commit(5)

    assert [each.send.entity_path for each in bus.requests[-1].operations] == ["orders"]


@pytest.mark.requirement("R128")
async def test_a_transaction_that_has_ended_is_not_used_again() -> None:
    committed, rolled_back = Bus(COLLECTED, COMMITTED), Bus(COLLECTED, Response(ended=True))
    await committed.link.add(operation(), 5)
    await committed.link.commit(5)
    await committed.link.commit(5)
    with pytest.raises(errors.InvalidOperation, match="is committed"):
        await committed.link.add(operation(), 5)
    with pytest.raises(errors.InvalidOperation, match="is committed"):
        await committed.link.rollback()

    await rolled_back.link.add(operation(), 5)
    await rolled_back.link.rollback()
    await rolled_back.link.rollback()
    with pytest.raises(errors.InvalidOperation, match="was rolled back"):
        await rolled_back.link.commit(5)
    assert rolled_back.requests[1].WhichOneof("end") == "rollback"


@pytest.mark.requirement("R128")
async def test_operations_of_two_tasks_are_done_one_after_the_other() -> None:
    bus = Bus(COLLECTED, COLLECTED, COLLECTED, COMMITTED)

    found = await asyncio.gather(*(bus.link.add(operation(), 5) for _ in range(3)))
    await bus.link.commit(5)

    assert sorted(found) == [0, 1, 2]
    assert len(bus.calls) == 1


@pytest.mark.requirement("R128")
async def test_a_cancelled_operation_rolls_the_transaction_back() -> None:
    bus = Bus(COLLECTED)
    await bus.link.add(operation(), 5)

    bus.link.abandon()

    assert bus.calls[0].cancelled
    with pytest.raises(errors.InvalidOperation, match="was cancelled"):
        await bus.link.commit(5)


@pytest.mark.requirement("R125")
async def test_a_cancelled_commit_goes_on_and_can_be_asked_for() -> None:
    bus = Bus(COLLECTED, SILENT, COMMITTED, retries=1)
    await bus.link.add(operation(), 5)
    committing = asyncio.ensure_future(bus.link.commit(0.1))
    await asyncio.sleep(0.02)

    bus.link.abandon()

    with pytest.raises(errors.OutcomeUnknown):
        await committing
    await bus.link.commit(5)
    assert bus.link.state is State.COMMITTED


async def test_a_transaction_without_operations_does_not_reach_the_bus() -> None:
    first, second = Bus(), Bus()
    await first.link.commit(5)
    await second.link.rollback()

    assert (first.calls, second.calls) == ([], [])


@pytest.mark.requirement("R128")
async def test_a_stream_serves_one_transaction_after_the_other() -> None:
    bus = Bus(COLLECTED, COMMITTED, COLLECTED, Response(ended=True), COLLECTED, COMMITTED)
    await bus.link.add(operation(), 5)
    await bus.link.commit(5)
    second, third = bus.begin(), bus.begin()
    await second.add(operation(), 5)
    await second.rollback()
    await third.add(operation(), 5)
    await third.commit(5)

    assert len(bus.calls) == 1
    ids = [each.transaction_id for each in bus.requests]
    assert len(set(ids)) == 3
    assert ids == sorted(ids, key=ids.index)


@pytest.mark.requirement("R127")
async def test_an_idle_stream_that_has_ended_costs_a_transaction_nothing() -> None:
    bus = Bus(COLLECTED, COMMITTED)
    idle = FakeCall(deque())
    idle.end(grpc.StatusCode.OK)
    bus.kept.append(idle)

    await bus.link.add(operation(), 5)
    await bus.link.commit(5)

    assert bus.link.state is State.COMMITTED


@pytest.mark.requirement("R483")
async def test_a_transaction_is_not_repeated_once_its_client_is_closed() -> None:
    bus = Bus(BREAKS, COLLECTED)
    bus.closed = True

    with pytest.raises(BusError):
        await bus.link.add(operation(), 60)

    assert len(bus.calls) == 1
