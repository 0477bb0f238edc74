"""One stream to a partition: an outbox of three lanes, a writer, a reader; its change of channel.

    FLOW   asks, withdrawals, deliveries, releases of front end and clients: in their order. Asks
           are refused when the lane is long; what follows from an ask that was taken never is:
           there is one withdrawal per ask, no more deliveries and releases than messages that were
           reserved, and no more releases of clients than their streams may have under way.
           Also sends to topics: bounded.
    RENEW  renewals of locks: bounded
    WORK   sends or settlements: bounded; a caller that fills it waits for `room`, or goes elsewhere

The writer serves the lanes in turn, so that none waits for another one to become empty.
`send_outbox` and `deliver_outbox` decide which frames are written together, and which ones wait.

A stream is moved without a loss, because of new certificates or because the partition asks for it:
what was put in so far is written, the stream is half-closed, the partition answers what it owes and
ends. What is put in from then on is the beginning of the next stream.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

logger = logging.getLogger(__name__)


class Lane(IntEnum):
    """Part of an outbox with room of its own."""

    FLOW = 0
    RENEW = 1
    WORK = 2


# Renewals do not wait here: there is room for as many as there is among the locks that are being
# settled or renewed (TOKENS of quota/bounds.py), so that one policy leaves some to others.
FRAMES_MAX: Final = {Lane.FLOW: 4_096, Lane.RENEW: 10_000, Lane.WORK: 1_024}


_ALL: Final = 2**31


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ended. `moved`: it closed cleanly, and the next one goes on where it stopped."""

    moved: bool
    why: str


class Answer(Protocol):
    """A frame of a partition."""

    # It asks for the stream to be moved, and carries nothing else.
    moving: bool


Later = Callable[[float, Callable[[], None]], Any]
RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Answer)


def later_on_loop(delay_s: float, do: Callable[[], None]) -> None:
    """Call something after some seconds."""
    asyncio.get_running_loop().call_later(delay_s, do)


class Outbox(Generic[RequestT]):
    """Frames that wait to be written to one stream."""

    def __init__(self) -> None:
        self._lanes: tuple[deque[RequestT], ...] = tuple(deque() for _ in Lane)
        self._turn = 0
        # Nothing more is put in: the stream ends when it is empty.
        self.marked = False
        self.wake = asyncio.Event()

    def put(self, request: RequestT, lane: Lane) -> bool:
        """Add a frame; False, and it is not added, when the lane is full."""
        if len(self._lanes[lane]) >= FRAMES_MAX[lane]:
            return False
        self._add(request, lane)
        return True

    def _add(self, request: RequestT, lane: Lane) -> None:
        self._lanes[lane].append(request)
        self.wake.set()

    def put_always(self, request: RequestT) -> None:
        """Add a frame that follows from an ask to the lane FLOW."""
        self._add(request, Lane.FLOW)

    def take(self, bytes_max: int | None = None) -> RequestT | None:
        """Return the next frame, of one lane after the other; None when there is none.

        None also when it is larger than `bytes_max`; then it is the next one.
        """
        lanes = self._lanes
        for step in range(len(lanes)):
            frames = lanes[(self._turn + step) % len(lanes)]
            if frames:
                if bytes_max is not None and frames[0].ByteSize() > bytes_max:
                    return None
                self._turn = (self._turn + step + 1) % len(lanes)
                return frames.popleft()
        return None

    def take_next(self) -> RequestT | None:
        """Return the next frame to write; None when no frame is to be written now."""
        return self.take()

    def answered(self, response: Any) -> None:
        """Take note of an answer of the partition."""

    def mark(self) -> None:
        """End the stream when everything is written."""
        self.marked = True
        self.wake.set()

    def room(self, lane: Lane) -> int:
        """Return how many frames `put` takes now."""
        return FRAMES_MAX[lane] - len(self._lanes[lane])

    def waiting(self, lane: Lane) -> int:
        """Return how many frames of a lane wait."""
        return len(self._lanes[lane])


class PatientOutbox(Outbox[RequestT]):
    """An outbox whose frames may wait for the answers to others, for a time that is limited.

    `later` calls something after some seconds.
    """

    patience_s: float

    def __init__(self, later: Later = later_on_loop) -> None:
        super().__init__()
        self._later = later
        self._timed = False
        # The ids of those that others wait for.
        self._under_way: set[int] = set()

    def _limit_wait(self) -> None:
        """Let nothing wait any more for what is under way now and is not answered in time."""
        if not self._timed:
            self._timed = True
            under_way = frozenset(self._under_way)
            self._later(self.patience_s, lambda: self._give_up(under_way))

    def _give_up(self, under_way: AbstractSet[int]) -> None:
        self._timed = False
        self._under_way -= under_way
        # The writer goes on, or waits for what went since then.
        self.wake.set()


class PartitionStream(Generic[RequestT, AnswerT]):
    """The stream. `changed` is told when `open` may have changed, `moving` when it moves.

    From `moving` on, what is put in goes to the next stream, which knows nothing of this one.
    `outbox` makes the frames' outbox.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        moving: Callable[[], None] = lambda: None,
        *,
        outbox: Callable[[], Outbox[RequestT]] = Outbox,
    ) -> None:
        self.open = False
        # Set while the current stream was opened after the last `mark`.
        self.fresh = asyncio.Event()
        self.fresh.set()
        self._changed = changed
        self._moving = moving
        self._make_outbox = outbox
        self._outbox = outbox()
        # Callers that wait for room, in order: a write wakes as many as there is room for, the end
        # of a stream all.
        self._waiting: deque[asyncio.Future[None]] = deque()
        # How many were woken and have not come yet.
        self._woken = 0

    def put(self, request: RequestT, lane: Lane = Lane.WORK, *, waited: bool = False) -> bool:
        """Queue a frame; False when too many wait in its lane or the stream is not open.

        The room that others wait for is theirs. `waited`: this frame waited for `room`.
        """
        if not self.open or (lane is Lane.WORK and not waited and self._claimed()):
            return False
        return self._outbox.put(request, lane)

    def _claimed(self) -> bool:
        """Whether all room belongs to callers that wait for it or have just been woken."""
        claims = len(self._waiting) + self._woken
        return claims > 0 and claims >= self._outbox.room(Lane.WORK)

    def put_always(self, request: RequestT) -> bool:
        """Queue a frame that follows from an ask; False only when the stream is not open."""
        if self.open:
            self._outbox.put_always(request)
        return self.open

    async def room(self) -> None:
        """Wait until the lane WORK takes a frame or the stream is not open any more.

        The room is the caller's until it awaits something else: see `put`.
        """
        line = self._waiting.append
        behind = self._claimed()
        while self.open and (behind or self._outbox.room(Lane.WORK) <= 0):
            behind = False
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            line(turn)
            # If another frame came in between, it keeps its place.
            line = self._waiting.appendleft
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    # Woken in the same moment: its room is for the next one.
                    self._woken -= 1
                    self._wake(self._outbox.room(Lane.WORK))
                raise
            self._woken -= 1

    def _wake(self, most: int) -> None:
        """Wake the first ones that wait for room, so that `most` are on their way."""
        while self._waiting and self._woken < most:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._woken += 1

    def mark(self) -> bool:
        """Begin to move; False when there is nothing to move."""
        if not self.open:
            return False
        self.fresh.clear()
        self._move()
        return True

    async def run(self, call: Any, take: Callable[[AnswerT], None]) -> Ending:
        """Write what is queued and hand over what comes until the stream ends."""
        response: AnswerT
        moved = False
        writer: asyncio.Task[None] | None = None
        outbox = self._outbox

        async def write() -> None:
            nonlocal moved
            while True:
                request = outbox.take_next()
                if request is not None:
                    await call.write(request)
                    if self._waiting:
                        self._wake(self._outbox.room(Lane.WORK))
                elif outbox.marked:
                    break
                else:
                    if self._waiting:
                        self._wake(self._outbox.room(Lane.WORK))
                    outbox.wake.clear()
                    await outbox.wake.wait()
            moved = True
            await call.done_writing()

        try:
            await call.wait_for_connection()
            self._show(True)
            self.fresh.set()
            writer = asyncio.get_running_loop().create_task(write(), name="upstream-writer")
            # A writer that fails ends the stream: no caller may wait for what it does not write.
            writer.add_done_callback(lambda task: _end_with(task, call))
            while (response := await call.read()) is not grpc.aio.EOF:
                if not response.moving:
                    failed = _taken(outbox, take, response)
                    if failed is not None:
                        moved = False
                        return Ending(False, failed)
                elif outbox is self._outbox:
                    self._move()
            moved = moved and await call.code() is grpc.StatusCode.OK
            return Ending(moved, "the stream ended")
        except grpc.RpcError as error:
            moved = False
            return Ending(False, why(error))
        except asyncio.CancelledError:
            moved = False
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return Ending(False, "its writer failed")
        finally:
            if writer is not None:
                writer.cancel()
            call.cancel()
            if not moved:
                self._outbox = self._make_outbox()
                self._show(False)
                self._wake(_ALL)
            if writer is not None:
                # Not awaited itself: a cancellation of this task must not be mistaken for its own.
                await asyncio.wait({writer})

    def _move(self) -> None:
        outbox, self._outbox = self._outbox, self._make_outbox()
        self._wake(_ALL)
        outbox.mark()
        self._moving()

    def _show(self, is_open: bool) -> None:
        self.open = is_open
        self._changed()


def _end_with(writer: asyncio.Task[None], call: grpc.aio.Call) -> None:
    error = None if writer.cancelled() else writer.exception()
    if error is None:
        return
    call.cancel()
    if not isinstance(error, grpc.RpcError | asyncio.InvalidStateError):
        # A frame that cannot be written: callers that wait learn that the stream ended.
        logger.error("partition stream: writer failed", exc_info=error)


def _taken(
    outbox: Outbox[RequestT], take: Callable[[AnswerT], None], response: AnswerT
) -> str | None:
    """Hand over an answer; return why that failed. It costs a stream, never the process."""
    try:
        outbox.answered(response)
        take(response)
    except Exception as error:
        logger.exception("partition stream: an answer could not be taken")
        return f"an answer could not be taken: {error!r}"
    return None


def why(error: grpc.RpcError) -> str:
    """Return what a failed stream says."""
    return f"{error.code().name.lower()}: {error.details()}" if error.details() else str(error)
