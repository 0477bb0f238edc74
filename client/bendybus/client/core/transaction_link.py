"""One transaction on its way to the bus: its operations, its stream, its state. No callers here.

The front end collects what is written to the stream; this side keeps the operations as well, since
a stream that the bus moves, and a commit whose answer was lost, are repeated with all of them under
the same id. On the I/O thread only; operations of several callers are done one after the other.
"""

import asyncio
import uuid
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc

from bendybus.client.core.retry_policy import Moved, RetryPolicy, counted
from bendybus.domain import errors
from bendybus.domain.errors import BusError, InvalidOperation, Outcome, RetryableError
from bendybus.v1 import transaction_pb2
from bendybus.wire import statuses, streams

if TYPE_CHECKING:
    from bendybus.client.core.connection import TransactionCall

Operation = transaction_pb2.TransactionOperation
Request = transaction_pb2.TransactRequest
# How long the pause is before a stream that was moved is opened again.
_MOVE_S: Final = 0.05
_ROLLBACK_S: Final = 5.0


class State(Enum):
    """Where a transaction is."""

    OPEN = "is open"
    COMMITTED = "is committed"
    ROLLED_BACK = "was rolled back"
    UNKNOWN = "may be committed"


class Streams(Protocol):
    """Gives a transaction its stream, and takes it back."""

    # Whether there are no streams any more.
    closed: bool

    async def open_transaction_stream(self) -> "TransactionCall":
        """Return a stream without a transaction."""

    def keep_transaction_stream(self, call: "TransactionCall") -> None:
        """Take a stream whose transaction has ended, all of it answered."""

    def explained(self, error: BusError) -> BusError:
        """Return an error with what to do about it."""


class TransactionLink:
    """See the module."""

    def __init__(self, streams: Streams, retry: RetryPolicy) -> None:
        self.state = State.OPEN
        # Why it was rolled back, if its caller did not ask for that.
        self.failure: BusError | None = None
        # Of the commit: one per operation.
        self.results: Sequence[transaction_pb2.TransactionResult] = ()
        self._id = uuid.uuid4().bytes
        self._streams = streams
        self._retry = retry
        self._operations: list[Operation] = []
        self._turn = asyncio.Lock()
        self._call: Any = None
        # Whether the request under way was written to a stream that the bus had accepted.
        self._written = False
        # On the loop's clock: its first operation; the first commit that may have been done.
        self._began_s: float | None = None
        self._doubtful_s: float | None = None
        self._committing = False

    async def add(self, operation: Operation, timeout_s: float) -> int:
        """Have the front end collect an operation; return its index. Raises BusError.

        One that is refused is not part of the transaction, which goes on.
        """
        async with self._turn:
            self._check_open()
            deadline_s = _now() + timeout_s
            if self._began_s is None:
                self._began_s = _now()
            failures = 0
            while True:
                try:
                    answer = await self._exchange(self._request([operation]), deadline_s)
                    if not answer.HasField("error"):
                        self._operations.append(operation)
                        return len(self._operations) - 1
                    error = statuses.from_error(answer.error)
                    if answer.ended:
                        self._drop()
                        if self._operations and not error.retryable:
                            self._end(State.ROLLED_BACK, error)
                except BusError as exc:
                    error = exc
                    if self._operations and not isinstance(exc, Moved):
                        # It was collected there, and is rolled back with its stream.
                        error = self._lost(exc)
                failures += counted(error)
                if self.state is not State.OPEN or not self._may_repeat(
                    error, failures, deadline_s
                ):
                    raise error
                await asyncio.sleep(self._pause_s(error, failures))

    async def commit(self, timeout_s: float) -> None:
        """Commit; return when it is done. Raises BusError: nothing is done, or OutcomeUnknown.

        After OutcomeUnknown it can be called again: the bus does it once.
        """
        async with self._turn:
            if self.state is State.COMMITTED:
                return
            if self.state is not State.UNKNOWN:
                self._check_open()
            if not self._operations:
                self._end(State.COMMITTED)
                return
            self._committing = True
            await self._commit(_now() + timeout_s)

    async def rollback(self) -> None:
        """Roll back; at once, whether the bus hears of it or not. Raises InvalidOperation."""
        async with self._turn:
            if self.state is State.ROLLED_BACK:
                return
            self._check_open()
            self.state = State.ROLLED_BACK
            try:
                if self._call is not None:
                    request = Request(transaction_id=self._id)
                    request.rollback.SetInParent()
                    answer = await self._exchange(request, _now() + _ROLLBACK_S)
                    if not answer.HasField("error"):
                        self._hand_back()
            except BusError:
                # It is rolled back with its stream.
                pass
            finally:
                self._drop()

    def abandon(self) -> None:
        """End it, since the outcome of one of its operations is not known to its caller."""
        if self.state is State.OPEN and not self._committing:
            self._end(
                State.ROLLED_BACK,
                InvalidOperation(
                    "the transaction was rolled back, since one of its operations was cancelled: "
                    "nothing of it is done. Run it again."
                ),
            )

    async def _commit(self, deadline_s: float) -> None:
        failures = 0
        await self._check_stream()
        while True:
            answered = False
            try:
                answer = await self._exchange(self._commit_request(deadline_s), deadline_s)
                if not answer.HasField("error"):
                    self._hand_back()
                    self.results = list(answer.results)
                    self._end(State.COMMITTED)
                    return
                # A stream takes nothing more for a transaction that has ended on it.
                self._drop()
                answered = True
                error = statuses.from_error(answer.error)
            except BusError as exc:
                error = exc
            unknown = error.outcome is Outcome.UNKNOWN
            if self._doubtful_s is None and (unknown or (not answered and self._written)):
                self._doubtful_s = _now()
            failures += counted(error)
            if answered and not unknown and not error.retryable:
                self._end(State.ROLLED_BACK, error)
                raise error
            if not self._may_repeat(error, failures, deadline_s):
                raise self._given_up(error)
            await asyncio.sleep(self._pause_s(error, failures))

    def _given_up(self, error: BusError) -> BusError:
        if self._doubtful_s is None:
            self._end(State.ROLLED_BACK, error)
            return error
        self._drop()
        self.state = State.UNKNOWN
        if error.outcome is Outcome.UNKNOWN:
            return error
        return errors.OutcomeUnknown(
            f"{error.message} The outcome of the transaction is unknown: call commit() again to "
            "find out.",
            metadata={**error.metadata, "cause": error.reason},
        )

    def _request(self, operations: Sequence[Operation]) -> Request:
        """Return a request, with all operations so far for a stream that has none of them."""
        request = Request(transaction_id=self._id)
        if self._began_s is not None and self._operations:
            request.age_ms = max(1, round((_now() - self._began_s) * 1_000))
        if self._call is None:
            request.operations.extend(self._operations)
        request.operations.extend(operations)
        return request

    def _commit_request(self, deadline_s: float) -> Request:
        request = self._request(())
        request.commit.timeout_ms = max(1, round((deadline_s - _now()) * 1_000))
        if self._doubtful_s is not None:
            request.commit.age_ms = max(1, round((_now() - self._doubtful_s) * 1_000))
        return request

    async def _exchange(
        self, request: Request, deadline_s: float
    ) -> transaction_pb2.TransactResponse:
        """Write a request, return the answer; opens the stream when there is none.

        Raises BusError; the stream is gone then. Moved: the bus closed it cleanly.
        """
        self._written = False
        admitted = True
        try:
            async with asyncio.timeout_at(deadline_s):
                if self._call is None:
                    self._call = await self._streams.open_transaction_stream()
                    # `abandon` found no stream to end.
                    self._check_not_abandoned()
                    admitted = await streams.admitted(self._call)
                call = self._call
                if admitted:
                    self._check_not_abandoned()
                    self._written = True
                    await call.write(request)
                answer = await call.read()
            if answer is not grpc.aio.EOF:
                found: transaction_pb2.TransactResponse = answer
                return found
            await self._check_ending()
            raise AssertionError("a stream that has ended has a status")
        except BusError as error:
            self._drop()
            raise self._streams.explained(error) from error.__cause__
        except TimeoutError:
            self._drop()
            raise errors.ServiceTimeout("the bus did not answer in time.") from None
        except grpc.aio.AioRpcError as error:
            self._drop()
            raise self._streams.explained(statuses.from_rpc_error(error)) from error
        except (asyncio.InvalidStateError, grpc.aio.UsageError):
            # Written to a stream that has just ended: nothing of it was read.
            self._written = False
            await self._check_ending()
            raise AssertionError("a stream that has ended has a status") from None
        except asyncio.CancelledError:
            current = asyncio.current_task()
            self._drop()
            if current is not None and current.cancelling():
                raise
            raise RetryableError("The connection was closed.") from None

    async def _check_stream(self) -> None:
        """Raise RetryableError if the stream broke: what it had collected is rolled back."""
        if self._call is not None and self._call.done():
            try:
                await self._check_ending()
            except Moved:
                pass
            except BusError as exc:
                raise self._lost(exc) from exc

    async def _check_ending(self) -> None:
        """Raise why the stream ended, which is gone then."""
        call = self._call
        self._drop()
        code, details = await call.code(), await call.details()
        if code is grpc.StatusCode.OK:
            raise Moved("The bus closed the stream of the transaction.")
        metadata = await call.initial_metadata(), await call.trailing_metadata()
        error = grpc.aio.AioRpcError(code, *metadata, details)
        raise self._streams.explained(statuses.from_rpc_error(error)) from error

    def _check_open(self) -> None:
        if self.state is State.OPEN:
            return
        if self.failure is not None:
            raise self.failure
        raise InvalidOperation(f"the transaction {self.state.value}. Begin another one.")

    def _check_not_abandoned(self) -> None:
        """Raise why it was rolled back, if that came while an operation waited for its stream."""
        if (failure := self.failure) is not None:
            raise failure

    def _lost(self, error: BusError) -> BusError:
        lost = RetryableError(
            f"{error.message} The transaction was rolled back with its connection: nothing of it "
            "is done. Run it again."
        )
        self._end(State.ROLLED_BACK, lost)
        return lost

    def _end(self, state: State, failure: BusError | None = None) -> None:
        self.state, self.failure = state, failure
        self._drop()

    def _hand_back(self) -> None:
        """Let go of the stream, whose last answer has ended the transaction."""
        call, self._call = self._call, None
        if call is not None:
            self._streams.keep_transaction_stream(call)

    def _drop(self) -> None:
        """Let go of the stream. Nothing else may keep it: a fork waits until gRPC is gone."""
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _may_repeat(self, error: BusError, failures: int, deadline_s: float) -> bool:
        again = error.retryable or error.outcome is Outcome.UNKNOWN
        in_time = _now() + self._pause_s(error, failures) < deadline_s
        again = again and failures <= self._retry.total
        return again and in_time and not self._streams.closed

    def _pause_s(self, error: BusError, failures: int) -> float:
        return _MOVE_S if isinstance(error, Moved) else self._retry.pause_s(failures, error)


def _now() -> float:
    return asyncio.get_running_loop().time()
