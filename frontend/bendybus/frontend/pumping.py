"""One stream to a partition: a bounded outbox, a writer, a reader; and its change of channel.

A stream is moved without a loss, because of new certificates or because the partition asks for it:
a mark goes through the outbox, the writer writes what was before it and half-closes, the partition
answers what it owes and ends. What was put in after the mark is the beginning of the next stream.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc

OUTBOX_FRAMES: Final = 1_024
MARK_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ended. `moved`: in good order, the next one goes on where it stopped."""

    moved: bool
    why: str


class _Mark:
    """Where the next stream begins."""


class Pump:
    """The stream. `changed` is told when `open` may have changed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.open = False
        # Set while the current stream was opened after the last `mark`.
        self.fresh = asyncio.Event()
        self.fresh.set()
        self._changed = changed
        self._outbox: asyncio.Queue[Any] = asyncio.Queue(OUTBOX_FRAMES)

    def put(self, request: Any) -> bool:
        """Queue a frame; False when too many wait or the stream is not open."""
        return self.open and self._put(request)

    def mark(self) -> bool:
        """Begin to move; False when too much waits at the moment, or there is nothing to move."""
        if not self.open or not self._put(_Mark()):
            return False
        self.fresh.clear()
        return True

    async def run(self, call: Any, take: Callable[[Any], None]) -> Ending:
        """Write what is queued and hand over what comes until the stream ends."""
        moved = False
        writer: asyncio.Task[None] | None = None

        async def write() -> None:
            nonlocal moved
            while not isinstance(request := await self._outbox.get(), _Mark):
                await call.write(request)
            moved = True
            await call.done_writing()

        try:
            await call.wait_for_connection()
            self._show(True)
            self.fresh.set()
            writer = asyncio.get_running_loop().create_task(write(), name="upstream-writer")
            while (response := await call.read()) is not grpc.aio.EOF:
                if not response.moving:
                    take(response)
                else:
                    self._mark_soon()
            moved = moved and await call.code() is grpc.StatusCode.OK
            return Ending(moved, "the stream ended")
        except grpc.RpcError as error:
            moved = False
            return Ending(False, why(error))
        except asyncio.CancelledError:
            moved = False
            raise
        finally:
            if writer is not None:
                writer.cancel()
                with contextlib.suppress(
                    asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError
                ):
                    await writer
            call.cancel()
            if not moved:
                self._show(False)
                while not self._outbox.empty():
                    self._outbox.get_nowait()

    def _mark_soon(self) -> None:
        if self.open and not self._put(_Mark()):
            # A mark that comes too late, in the next stream, only makes that one move.
            asyncio.get_running_loop().call_later(MARK_AGAIN_S, self._mark_soon)

    def _put(self, request: Any) -> bool:
        try:
            self._outbox.put_nowait(request)
        except asyncio.QueueFull:
            return False
        return True

    def _show(self, is_open: bool) -> None:
        self.open = is_open
        self._changed()


def why(error: grpc.RpcError) -> str:
    """Return what a failed stream says."""
    return f"{error.code().name.lower()}: {error.details()}" if error.details() else str(error)
