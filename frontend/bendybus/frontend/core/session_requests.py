"""Requests about sessions' locks that partitions have not answered yet."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Final

from bendybus.domain import bounds, errors, lock_token
from bendybus.domain.errors import BusError
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.upstream import Upstream

# A partition that does not answer in this time about a lock: the outcome is unknown.
REQUEST_S: Final = 30.0

Result = deliver_frames.SessionResult
Answered = Callable[[Result | BusError], None]


class SessionRequests:
    """What was asked of partitions, and what takes the answers."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        # By request id: its partition, and what takes the answer.
        self._waiting: dict[int, tuple[int, Answered]] = {}

    def next_id(self) -> int:
        """Return an id for a request."""
        return next(self._ids)

    def await_answer(self, request_id: int, partition: int, answered: Answered) -> None:
        """Note what takes the answer of a request, or the error that there is none."""
        self._waiting[request_id] = (partition, answered)

    async def ask(self, upstream: Upstream, frame: Callable[[int], deliver_frames.Frame]) -> Result:
        """Return a partition's answer. Raises the domain error, PartitionUnavailable included."""
        request_id = self.next_id()
        if not upstream.follow(frame(request_id)):
            raise unavailable(upstream)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def answered(result: Result | BusError) -> None:
            if future.done():
                return
            if isinstance(result, BusError):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.await_answer(request_id, upstream.partition, answered)
        try:
            async with asyncio.timeout(REQUEST_S):
                return await future
        except TimeoutError as error:
            raise errors.OutcomeUnknown(
                f"partition {upstream.partition} did not answer in {REQUEST_S:.0f} s about a "
                "session; the outcome is unknown. Repeat it."
            ) from error
        finally:
            self._waiting.pop(request_id, None)

    def answered(self, partition: int, result: Result) -> None:
        """Take a partition's answer."""
        _, taken = self._waiting.pop(result.request_id, (partition, _nothing))
        taken(result if result.error is None else result.error)

    def lost(self, partition: int) -> None:
        """Take the end of a partition's stream: what it was asked stays unanswered."""
        gone = errors.PartitionUnavailable(
            f"partition {partition} is unavailable: its stream ended.",
            metadata={"partition": str(partition)},
        )
        for request_id, (where, taken) in list(self._waiting.items()):
            if where == partition:
                del self._waiting[request_id]
                taken(gone)


def partition_of(token: bytes, partitions: Mapping[int, Upstream]) -> int:
    """Return the partition of a session's token. Raises InvalidArgument, SessionLockLost."""
    bounds.check_session_token(token)
    partition = lock_token.partition_of(token)
    if partition not in partitions:
        raise errors.SessionLockLost(
            f"invalid session token: this namespace has no partition {partition}.",
            metadata={"partition": str(partition)},
        )
    return partition


def unavailable(upstream: Upstream) -> BusError:
    """Return the error for a partition that cannot be asked now."""
    why = "; ".join(upstream.conditions()) or "its stream is not open"
    return errors.PartitionUnavailable(
        f"partition {upstream.partition} is unavailable ({why}). Try again when it is back.",
        metadata={"partition": str(upstream.partition)},
    )


def _nothing(_: object) -> None:
    """Take an answer that no caller waits for."""
