"""The stream of transactions: one at a time, each rolled back with its stream."""

from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.transact import TransactionDispatcher
from bendybus.frontend.listeners import transaction_service
from bendybus.frontend.listeners.transaction_service import TransactionStream
from bendybus.frontend.security.authenticator import Operation
from bendybus.v1 import message_pb2, receiver_pb2, transaction_pb2
from bendybus.wire import statuses
from tests.frontend.transactions import HOME, ID, KEY, FakePartition, directory, settle

Request = transaction_pb2.TransactRequest
Response = transaction_pb2.TransactResponse


class Caller:
    """A caller with these rights on everything."""

    policy = "p"

    def __init__(self, *rights: Operation) -> None:
        self._rights = rights
        self.asked: list[tuple[Operation, str]] = []

    def check(self, operation: Operation, entity_path: str = "") -> None:
        """Raise Unauthorized without the right."""
        self.asked.append((operation, entity_path))
        if operation not in self._rights:
            raise errors.Unauthorized(f"no right to {operation}.")


class Stream:
    """A stream of transactions, and the partitions behind it."""

    def __init__(self, *rights: Operation) -> None:
        self.partitions: Any = {index: FakePartition(index) for index in range(4)}
        metrics = Metrics()
        self.transactions = TransactionDispatcher(self.partitions, directory(), metrics)
        front_end: Any = SimpleNamespace(transactions=self.transactions, metrics=metrics)
        self.caller = Caller(*(rights or (Operation.SEND, Operation.RECEIVE)))
        caller: Any = self.caller
        self.stream = TransactionStream(front_end, caller, Holder("a connection", "p"))

    async def ask(self, request: Request) -> Response:
        """Return the answer to a request."""
        return await self.stream.answer(request)

    @property
    def handed_over(self) -> list[Any]:
        """What partitions were asked for."""
        return [request for each in self.partitions.values() for request in each.requests]


def a_send(path: str = "orders", key: str = KEY) -> transaction_pb2.TransactionOperation:
    """Return a send of a message."""
    batch = message_pb2.MessageBatch(messages=[b"x"], partition_keys=[key])
    send = transaction_pb2.TransactionSend(entity_path=path, batch=batch)
    return transaction_pb2.TransactionOperation(send=send)


def a_settlement(path: str = "orders") -> transaction_pb2.TransactionOperation:
    """Return the completion of a message."""
    part: Any = settle(1).part
    settlement = transaction_pb2.TransactionSettle(
        entity_path=path,
        disposition=receiver_pb2.DISPOSITION_COMPLETE,
        lock_tokens=part.lock_tokens,
    )
    return transaction_pb2.TransactionOperation(settle=settlement)


def request(*operations: Any, end: str = "", id_: bytes = ID, age_ms: int = 0) -> Request:
    """Return a request."""
    made = Request(transaction_id=id_, operations=operations)
    if end:
        getattr(made, end).SetInParent()
    if age_ms:
        made.commit.age_ms = age_ms
    return made


def error_of(response: Response) -> errors.BusError:
    """Return why it was refused."""
    assert response.HasField("error")
    return statuses.from_error(response.error)


@pytest.mark.requirement("R120")
async def test_operations_are_collected_and_committed_together() -> None:
    bus = Stream()

    first = await bus.ask(request(a_send()))
    second = await bus.ask(request(a_settlement("orders/$DeadLetterQueue")))
    assert (first, second, bus.handed_over) == (Response(), Response(), [])
    committed = await bus.ask(request(a_send(), end="commit"))

    assert (committed.ended, len(committed.results)) == (True, 3)
    assert committed.results[0].sequence_numbers == [7]
    assert len(bus.handed_over) == 1


@pytest.mark.parametrize("end", ["", "commit"])
async def test_a_request_with_too_many_operations_is_refused_before_they_are_walked(
    end: str,
) -> None:
    bus = Stream()
    await bus.ask(request(a_send()))
    bus.caller.asked.clear()

    answer = await bus.ask(request(*[a_send()] * 101, end=end))

    assert "1 to 100 messages (got 101)" in error_of(answer).message
    assert (bus.caller.asked, bus.handed_over) == ([], [])
    # Without a commit the transaction goes on as it was.
    assert (answer.ended, bus.transactions.open()) == ((True, 0) if end else (False, 1))


@pytest.mark.requirement("R127")
async def test_a_stream_that_ends_rolls_its_transaction_back() -> None:
    bus = Stream()
    await bus.ask(request(a_send()))

    bus.stream.close()
    bus.stream.close()

    assert (bus.transactions.open(), bus.handed_over) == (0, [])


@pytest.mark.requirement("R120")
async def test_a_rollback_takes_all_of_it_back() -> None:
    bus = Stream()
    await bus.ask(request(a_send()))

    answer = await bus.ask(request(end="rollback"))

    assert (answer.ended, answer.HasField("error")) == (True, False)
    assert (bus.transactions.open(), bus.handed_over) == (0, [])


@pytest.mark.requirement("R128")
async def test_what_comes_late_for_a_transaction_does_not_begin_another() -> None:
    bus = Stream()
    await bus.ask(request(a_send()))
    await bus.ask(request(end="rollback"))

    late = await bus.ask(request(a_send(), end="commit"))

    assert "has ended" in error_of(late).message
    assert bus.handed_over == []
    assert (await bus.ask(request(a_send(), id_=bytes(16)))).ended is False


@pytest.mark.requirement("R128")
async def test_a_stream_has_one_transaction_at_a_time() -> None:
    bus = Stream()
    await bus.ask(request(a_send()))

    other = await bus.ask(request(a_send(), end="commit", id_=bytes(16)))

    assert ("another transaction" in error_of(other).message, other.ended) == (True, False)
    assert (await bus.ask(request(end="commit"))).ended
    (handed,) = bus.handed_over
    assert (handed.transaction_id, len(handed.parts)) == (ID, 1)


@pytest.mark.requirement("R122")
async def test_a_refused_operation_leaves_it_open_and_a_refused_commit_ends_it() -> None:
    bus = Stream()
    await bus.ask(request(a_send()))
    refused = await bus.ask(request(a_send(key="another")))
    assert (type(error_of(refused)), refused.ended) == (errors.InvalidOperation, False)

    at_commit = await bus.ask(request(a_send(key="another"), end="commit"))

    assert (type(error_of(at_commit)), at_commit.ended) == (errors.InvalidOperation, True)
    assert (bus.transactions.open(), bus.handed_over) == (0, [])


@pytest.mark.requirement("R129")
@pytest.mark.parametrize(
    ("right", "allowed", "other"),
    [
        (Operation.SEND, a_send(), a_settlement()),
        (Operation.RECEIVE, a_settlement(), a_send()),
    ],
)
@pytest.mark.parametrize("end", ["", "commit"])
async def test_each_operation_needs_the_right_that_it_needs_alone(
    right: Operation, allowed: Any, other: Any, end: str
) -> None:
    bus = Stream(right)
    assert not (await bus.ask(request(allowed))).HasField("error")

    refused = await bus.ask(request(other, end=end))

    assert isinstance(error_of(refused), errors.Unauthorized)
    assert {path for _, path in bus.caller.asked} == {"orders"}
    assert bus.handed_over == []


@pytest.mark.parametrize(
    "bad",
    [
        request(transaction_pb2.TransactionOperation()),
        request(a_send("a/$Other")),
        request(a_send("nowhere")),
        request(end="commit"),
        request(a_send(), id_=b"short"),
    ],
)
async def test_what_cannot_be_read_is_refused(bad: Request) -> None:
    bus = Stream()

    assert isinstance(error_of(await bus.ask(bad)), errors.BusError)
    assert bus.handed_over == []


@pytest.mark.requirement("R125")
@pytest.mark.parametrize("operation", [a_send(), a_send("nowhere"), a_settlement()])
async def test_a_repeat_that_gets_nowhere_is_of_unknown_outcome(operation: Any) -> None:
    bus = Stream(Operation.RECEIVE)
    bus.partitions[HOME].available = False
    bus.partitions[HOME].conditions = lambda: ["it is down"]

    repeat = await bus.ask(request(operation, age_ms=100))
    first = await bus.ask(request(operation, id_=bytes(16), end="commit"))

    assert (type(error_of(repeat)), repeat.ended) == (errors.OutcomeUnknown, True)
    assert error_of(first).outcome is errors.Outcome.NOT_DONE
    assert bus.transactions.open() == 0


async def test_the_requests_of_a_stream_end_when_it_is_moved() -> None:
    async def forever() -> Any:
        yield request(a_send())
        raise AssertionError("not read")

    requests = transaction_service._Requests(forever())
    assert await requests.next() is not None
    requests.end()

    assert await requests.next() is None
