"""A bidirectional stream that is opened when there is something to send, and again when it breaks.

Runs on the I/O thread. The owner provides the requests and handles the responses; this module keeps
the stream open and never loses a request: `broken` tells the owner to send it again.
"""

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

import grpc
from google.protobuf.message import Message

from bendybus.client.core.retry_policy import Moved, Outage, RetryPolicy, counted
from bendybus.domain.errors import (
    BusError,
    EntityDrained,
    RetryableError,
    SessionCannotBeLocked,
)
from bendybus.wire import frame_forms, statuses, streams

_log = logging.getLogger("bendybus.client")
_END_TIMEOUT_S: Final = 2.0
# The longest pause: after an outage of any length, streams reconnect this soon.
_PAUSE_MAX_S: Final = 2.0
_JITTER: Final = (0.5, 1.0)
# A stream that is moved again this soon pauses first.
_MOVE_AGAIN_S: Final = 0.5
# What grpc.aio makes of a write into a stream that is just ending; the real status is lost then.
_WRITE_RACE: Final = "Internal error from Core"


class BusClock:
    """The clock of the front end of one stream: milliseconds of its own, any zero. No I/O.

    A front end gives its time as it admits a stream, and with everything that has a lock. What it
    wrote at a time of its own was written here at the earliest at `at(time)`: later by less than
    the quickest round trip of the stream. So a lock that has ended on the way is known to have,
    however long the line was mute.
    """

    __slots__ = ("_offset_s",)

    def __init__(self) -> None:
        self._offset_s = -math.inf

    def restart(self) -> None:
        """Forget the clock: another front end may answer now."""
        self._offset_s = -math.inf

    def answered(self, asked_s: float, bus_ms: int) -> None:
        """Take the time of an answer to what was asked at `asked_s` of our monotonic clock."""
        self._offset_s = max(self._offset_s, asked_s - bus_ms / 1_000)

    def at(self, bus_ms: int, now_s: float) -> float:
        """Return a time of the bus on our monotonic clock; `now_s` if that is not known (0)."""
        if not bus_ms or self._offset_s == -math.inf:
            return now_s
        return min(now_s, bus_ms / 1_000 + self._offset_s)


# Of whatever frames; its `read` returns the end of the stream, too.
Call: TypeAlias = "grpc.aio.StreamStreamCall[Any, Any]"


class Owner(Protocol):
    """Provides the requests of a stream, and handles its responses."""

    async def open_call(self) -> Call:
        """Return a new call of the stream."""

    def has_work(self) -> bool:
        """Whether there is a reason to have the stream open."""

    def next_request(self) -> Message | None:
        """Return what to write now, or None; asked again after `Stream.wake`."""

    def handle(self, response: Any) -> None:
        """Take an answer."""

    def broken(self, error: BusError) -> None:
        """Queue what is in flight again, or fail it. The stream has ended."""


class Stream:
    """Keeps one stream of an owner going."""

    def __init__(
        self,
        owner: Owner,
        retry: RetryPolicy,
        explain: Callable[[BusError], BusError] = lambda error: error,
        *,
        merges: bool = False,
    ) -> None:
        """`merges`: requests that wait are written as one frame."""
        self._merges = merges
        self._owner = owner
        self._retry = retry
        self._explain = explain
        # What logs call it.
        self.name = "stream"
        # Shared by all streams of a connection.
        self.outage = Outage()
        # The largest frame that the bus takes; 0: not told.
        self.request_bytes_max = 0
        # The clock of who answers on it.
        self.clock = BusClock()
        # Why the bus ended the current one, if it sent an error as its last frame.
        self.refusal: BusError | None = None
        # Whether the bus ever answered on it.
        self.answered = False
        self._wake = asyncio.Event()
        self._closed = asyncio.Event()
        self._call: Any = None
        self._opening: asyncio.Task[None] | None = None
        self._moving = False
        self._writer_error: Exception | None = None
        self._ended = asyncio.Event()
        self._ended.set()

    def wake(self) -> None:
        """Look for requests again."""
        self._wake.set()

    def half_close(self) -> None:
        """Write nothing more on the current call: the bus ends it without an error."""
        self._moving = True
        self._wake.set()

    async def run(self) -> None:
        """Keep the stream until `close`; the task of the owner."""
        failures = 0
        while not self._closed.is_set():
            if not self._owner.has_work():
                self.outage.ended(self)
                self._wake.clear()
                await self._wake.wait()
                continue
            began = self._loop_time()
            try:
                heard, error = await self._session()
            except Exception as exc:
                # The boundary of this task: if it died, callers would wait forever.
                _log.exception("client: a stream failed")
                heard, error = True, _internal(exc)
            error = self._explain(error)
            if self._closed.is_set():
                break
            self._owner.broken(error)
            if isinstance(error, Moved) and heard and self._loop_time() - began > _MOVE_AGAIN_S:
                # Asked to go elsewhere: at once, and it is no failure.
                _log.info("client: %s: the bus asked to reconnect", self.name)
                failures = 0
                continue
            failures = 1 if heard else failures + counted(error) or 1
            # Jitter: clients that lost the same front end do not all reconnect at once.
            pause_s = min(self._retry.pause_s(failures, error), _PAUSE_MAX_S)
            pause_s *= random.uniform(*_JITTER)
            if self._owner.has_work():
                self._log_retry(self.refusal or error, pause_s)
            await self._pause(pause_s)
        self.outage.ended(self)

    def _log_retry(self, error: BusError, pause_s: float) -> None:
        if isinstance(error, SessionCannotBeLocked | EntityDrained):
            # The bus works: another receiver has the session, or a pipeline the entity.
            _log.info("client: %s: retrying in %.1f s: %s", self.name, pause_s, error.message)
        else:
            self.outage.broke(self, self.name, pause_s, error.message, self._loop_time())

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    async def cancel(self) -> None:
        """End the call at once and wait until nothing of it is left."""
        if self._opening is not None:
            # Also one that waits for a token, or for a bus that does not answer.
            self._opening.cancel()
        if self._call is not None:
            self._call.cancel()
        async with asyncio.timeout(_END_TIMEOUT_S):
            await self._ended.wait()

    async def close(self) -> None:
        """Close the stream. The owner finishes what is in flight before."""
        self._closed.set()
        self._wake.set()
        await self.cancel()

    async def _session(self) -> tuple[bool, BusError]:
        heard = False
        self._ended.clear()
        self._moving = False
        self._writer_error = self.refusal = None
        writer: asyncio.Task[None] | None = None
        try:
            self._opening = asyncio.get_running_loop().create_task(
                self._open(), name="bendybus-opening"
            )
            await self._opening
            self._opening = None
            self.clock.restart()
            writer = asyncio.get_running_loop().create_task(
                self._write(self._call, time.monotonic()), name="bendybus-writer"
            )
            while (response := await self._call.read()) is not grpc.aio.EOF:
                if not heard:
                    heard = self.answered = True
                    self.outage.back(self, self._loop_time())
                if response.moving:
                    # Nothing more is written, so that the answers to what was can all come in.
                    self._moving = True
                    self._wake.set()
                else:
                    self._owner.handle(response)
            return heard, await self._ending()
        except grpc.aio.AioRpcError as exc:
            return heard, _bus_error(exc)
        except BusError as exc:
            # There is no token, or nothing that answers: before there is a call.
            return heard, exc
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            if self._writer_error is not None:
                return heard, _internal(self._writer_error)
            return heard, RetryableError("The connection was closed.")
        finally:
            if writer is not None:
                writer.cancel()
                await asyncio.wait([writer])
            self._call = None
            self._ended.set()

    async def _open(self) -> None:
        # Set in the step in which it is opened, for `cancel` to find. Nothing else may keep the
        # call: a fork waits until gRPC is gone.
        self._call = await self._owner.open_call()

    async def _ending(self) -> BusError:
        code, details = await self._call.code(), await self._call.details()
        if code is grpc.StatusCode.OK:
            return Moved("The bus closed the stream.", answered=True)
        return _bus_error(
            grpc.aio.AioRpcError(
                code,
                await self._call.initial_metadata(),
                await self._call.trailing_metadata(),
                details,
            )
        )

    async def _write(self, call: Call, opened_s: float) -> None:
        try:
            # Nothing is written to a stream that is not accepted yet: it would count as sent.
            if not await streams.admitted(call):
                return
            metadata = await call.initial_metadata()
            if bus_ms := streams.clock_of(metadata):
                self.clock.answered(opened_s, bus_ms)
            self.request_bytes_max = streams.request_limit_of(metadata)
            waiting: deque[Message] = deque()
            while not self._moving:
                request = waiting.popleft() if waiting else self._owner.next_request()
                if request is None:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                if self._merges:
                    request = frame_forms.merged(request, lambda most: self._next(most, waiting))
                await call.write(request)
            await call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            return  # the reader gets the status of the call
        except BusError as exc:
            # The bus runs a version that this client does not work with.
            self._writer_error = exc
            call.cancel()
        except Exception as exc:
            # The boundary of this task: a writer that is gone would leave its requests waiting.
            _log.exception("client: a stream cannot be written to")
            self._writer_error = exc
            call.cancel()

    def _next(self, bytes_max: int, waiting: deque[Message]) -> Message | None:
        """Return what goes in the same frame; what is too large for it waits for the next one."""
        request = None if waiting or self._moving else self._owner.next_request()
        if request is not None and request.ByteSize() > bytes_max:
            waiting.append(request)
            return None
        return request

    async def _pause(self, pause_s: float) -> None:
        # Not woken by new work: it would turn an outage into a storm of attempts.
        try:
            await asyncio.wait_for(self._closed.wait(), pause_s)
        except TimeoutError:
            return


def _internal(exc: Exception) -> BusError:
    if isinstance(exc, BusError):
        return exc
    # Of the kind that is repeated a few times, then given up: what waits gets this sentence.
    return RetryableError(f"Internal error of the client: {exc!r}")


def _bus_error(error: grpc.aio.AioRpcError) -> BusError:
    if error.code() is grpc.StatusCode.INTERNAL and (error.details() or "").startswith(_WRITE_RACE):
        return Moved("The connection was closed during a write.")
    return statuses.from_rpc_error(error)
