"""Ways back from the thread of a partition to callers on the event loop.

A partition's thread delivers answers a turn at a time; `Dispatcher` moves them to the loop in one
call, where each finds its `Call` (a future) or its `Outbox` (a stream's queue of frames).
Outboxes need no bound of their own: deliveries are bounded by the credit of asks, answers by the
frames that the stream's reader let in.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.stage import Answer
from bendybus.wire import frame_forms
from bendybus.wire.streams import AnswerQueue

logger = logging.getLogger(__name__)
Frame = TypeVar("Frame", bound=Any)


class Call:
    """A unary call that waits for one value."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, value: object) -> None:
        """Hand the value over, unless the call was cancelled."""
        if not self._future.done():
            self._future.set_result(value)

    async def value(self) -> Any:
        """Return the value; raise the domain error of a failure."""
        value = await self._future
        if isinstance(value, Failed):
            raise value.error
        return value


class Outbox(AnswerQueue[Frame]):
    """Frames on their way to one stream, made from values by `convert`.

    With `merges`, frames that wait go in one: those of streams whose frames have parts.
    """

    def __init__(
        self,
        convert: Callable[[Any], Frame | None],
        *,
        awaited: Callable[[Any], bool] = lambda value: True,
        merges: bool = False,
    ) -> None:
        super().__init__(lambda: self._expected > 0)
        self._convert = convert
        # Answers that the other end waits for; `awaited` says which are.
        self._awaited = awaited
        self._merges = merges
        self._expected = 0

    def answer(self, value: object) -> None:
        """Queue the frame of a value; a failure ends the stream with its error."""
        if isinstance(value, Failed):
            self.put(value.error)
            return
        frame = self._convert(value)
        if frame is not None:
            self.put(frame)
        if self._awaited(value):
            self._expected -= 1
            self.wake()

    def expect(self) -> None:
        """Note that an answer must come before the stream may end."""
        self._expected += 1

    def close(self) -> None:
        """End the stream after what is queued."""
        self.put(None)

    async def next(self) -> Frame | None:
        """Return the next frame; None at the end. Raises the domain error of a failure."""
        frame = await super().next()
        if frame is None or not self._merges or not len(self) or _moves(frame):
            return frame
        return frame_forms.merged(frame, self._take_small)

    def _take_small(self, bytes_max: int) -> Frame | None:
        return self.take(lambda frame: not _moves(frame) and frame.ByteSize() <= bytes_max)


def _moves(frame: Any) -> bool:
    """Whether a frame asks the other end to end the stream: it goes alone."""
    return bool(frame.moving)


class SendReply:
    """Where the outcome of one frame goes."""

    __slots__ = ("_frame_id", "_outbox")

    def __init__(self, outbox: Outbox[partition_pb2.SendFramesResponse], frame_id: int) -> None:
        self._outbox = outbox
        self._frame_id = frame_id

    def answer(self, value: object) -> None:
        """Queue the outcome."""
        self._outbox.answer((self._frame_id, value))


class Dispatcher:
    """Moves answers from partitions' threads to the loop: one wake-up for all that are ready."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Here it is known what callers are: a Call, an Outbox, or what has such an `answer`.
        self._ready: deque[Sequence[tuple[Any, object]]] = deque()
        self._woken = False

    def deliver(self, answers: Sequence[Answer]) -> None:
        """Called on a partition's thread."""
        self._ready.append(answers)
        if not self._woken and not self._loop.is_closed():
            self._woken = True
            self._loop.call_soon_threadsafe(self._hand_out)

    def _hand_out(self) -> None:
        # STRICTLY BEFORE emptying: who appends from here on wakes the loop again.
        self._woken = False
        for _ in range(len(self._ready)):
            for to, value in self._ready.popleft():
                try:
                    to.answer(value)
                except Exception:  # it costs one caller its answer, never the others theirs
                    logger.exception("partition server: a reply could not be delivered")
