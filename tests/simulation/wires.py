"""Calls between simulated processes: frames in order, each way with a delay, until they break.

What gRPC does for a bidirectional stream, as far as the code under test sees it. A line that breaks
is seen by its caller first; what was under way may still arrive, and the other end may see the end
much later: the partition or front end then serves a stream without a reader.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import grpc

# How long the served end may go on after its caller saw the end.
HALF_OPEN_S = 3.0


class Way:
    """One direction."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._under_way: deque[Any] = deque()
        self._arrived: deque[Any] = deque()
        self._last_s = 0.0
        self._reader: asyncio.Future[None] | None = None
        self.ended = False

    def put(self, frame: Any) -> None:
        """Send a frame; nothing overtakes another one."""
        loop = asyncio.get_running_loop()
        delay_s = self._random.choice((0.0, 0.001, 0.005, 0.005))
        if self._random.random() < 0.02:
            delay_s = self._random.uniform(0.05, 1.5)
        self._last_s = max(self._last_s, loop.time() + delay_s)
        self._under_way.append(frame)
        # The loop does not keep the order of what is due at the same time.
        loop.call_at(self._last_s, self._arrive)

    def _arrive(self) -> None:
        frame = self._under_way.popleft()
        if not self.ended:
            self._arrived.append(frame)
            self._wake()

    def end(self) -> None:
        """Let nothing arrive any more."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def next(self) -> Any:
        """Return the next frame; None where it ended."""
        while not self._arrived:
            if self.ended:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._arrived.popleft()


_DONE = object()
# What serves a call: takes its requests, and what to answer with.
Serve = Callable[[AsyncIterator[Any], Callable[[Any], None]], Awaitable[None]]


class Call:
    """One stream, as its caller has it. `request` and `response` are the types of frames."""

    def __init__(self, random: Random, serve: Serve, request: Any, response: Any) -> None:
        self._random = random
        self._there, self._here = Way(random), Way(random)
        self._request, self._response = request, response
        self.broken = self._ok = False
        self.metadata: tuple[tuple[str, str], ...] = ()
        loop = asyncio.get_running_loop()
        self._server = loop.create_task(self._serve(serve))

    # The end that serves

    async def _serve(self, serve: Serve) -> None:
        await serve(self._requests(), self._answer)
        self._here.put(_DONE)

    async def _requests(self) -> AsyncIterator[Any]:
        while True:
            frame = await self._there.next()
            if frame is None:
                # The call is cancelled.
                await asyncio.get_running_loop().create_future()
            if frame is _DONE:
                return
            yield frame

    def _answer(self, frame: Any) -> None:
        self._here.put(self._response.FromString(frame.SerializeToString()))

    # The caller's end

    def break_(self, *, at_once: bool = False) -> None:
        """Break the line. `at_once`: the process that serves is gone."""
        if self.broken:
            return
        self.broken = True
        self._here.end()
        late_s = 0.0 if at_once else self._random.choice((0.0, 0.01, 0.3, HALF_OPEN_S))
        asyncio.get_running_loop().call_later(late_s, self._end_there)

    def _end_there(self) -> None:
        self._there.end()
        self._server.cancel()

    def cancel(self) -> None:
        """See grpc.aio."""
        self.break_()

    async def wait_for_connection(self) -> None:
        """See grpc.aio."""
        await asyncio.sleep(0.001)
        self._check()

    async def initial_metadata(self) -> Any:
        """See grpc.aio."""
        await asyncio.sleep(0.001)
        self._check()
        return self.metadata

    async def trailing_metadata(self) -> Any:
        """See grpc.aio."""
        return ()

    async def code(self) -> grpc.StatusCode:
        """See grpc.aio."""
        return grpc.StatusCode.OK if self._ok else grpc.StatusCode.UNAVAILABLE

    async def details(self) -> str:
        """See grpc.aio."""
        return "broken"

    def _check(self) -> None:
        if self.broken:
            raise gone()

    async def write(self, frame: Any) -> None:
        """See grpc.aio."""
        self._check()
        self._there.put(self._request.FromString(frame.SerializeToString()))

    async def done_writing(self) -> None:
        """See grpc.aio."""
        self._check()
        self._there.put(_DONE)

    async def read(self) -> Any:
        """See grpc.aio."""
        frame = await self._here.next()
        if frame is None:
            raise gone()
        if frame is _DONE:
            self._ok = self.broken = True
            return grpc.aio.EOF
        return frame


def gone() -> grpc.aio.AioRpcError:
    """Return the error of a line that broke."""
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "broken")
