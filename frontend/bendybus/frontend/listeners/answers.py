"""Answers of one receiver's stream that wait to be written to its client. On the loop only."""

import asyncio
import functools
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from bendybus.domain.errors import BusError
from bendybus.frontend.core.flow_control import StreamFlow
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import merged_frames, statuses

# Answers that the client has not read; nothing more of it is read beyond that.
ANSWERS_MAX: Final = 2_048
# A delivery that waited longer than this to be written has locks that are shorter by then.
LATE_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """One event; counted in the stream's flow until it is written."""

    frame: receiver_pb2.ReceiveStreamResponse
    # Bytes handed over.
    size_bytes: int = 0
    # Taken for a settlement.
    tokens: int = 0
    put_ms: int = 0


class Answers:
    """A queue of answers; with `merges`, those that wait at the same time share a frame."""

    def __init__(self, flow: StreamFlow, *, merges: bool) -> None:
        self._flow = flow
        self._merges = merges
        self._waiting: deque[Answer | BusError | None] = deque()
        self._writer: asyncio.Future[None] | None = None
        # Set when the client read something.
        self._read = asyncio.Event()

    def say(self, answer: Answer | BusError | None) -> None:
        """Add an answer; an error, or None, ends the stream after what was added before."""
        self._waiting.append(answer)
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    async def room(self) -> None:
        """Wait while the client has not read too many answers."""
        while len(self._waiting) >= ANSWERS_MAX:
            self._read.clear()
            await self._read.wait()

    async def written(
        self,
    ) -> AsyncIterator[tuple[receiver_pb2.ReceiveStreamResponse, list[Answer]]]:
        """Yield frames, and what they consist of, until the stream ends."""
        while (entry := await self._next()) is not None:
            if isinstance(entry, BusError):
                error = statuses.to_error(entry)
                yield receiver_pb2.ReceiveStreamResponse(error=error), []
                return
            answers = [entry]
            frame = _as_of_now(entry)
            if self._merges and self._waiting and not frame.moving:
                frame = merged_frames.merged(frame, functools.partial(self._take, answers))
            yield frame, answers
            self._read.set()
            # The client took it off the wire, or there is room on the wire for it.
            size_bytes = sum(answer.size_bytes for answer in answers)
            if size_bytes:
                self._flow.read(size_bytes)

    async def _next(self) -> Answer | BusError | None:
        while not self._waiting:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        return self._waiting.popleft()

    def _take(
        self, taken: list[Answer], bytes_max: int
    ) -> receiver_pb2.ReceiveStreamResponse | None:
        answer = self._waiting[0] if self._waiting else None
        if not isinstance(answer, Answer) or answer.frame.moving:
            return None
        if answer.frame.ByteSize() > bytes_max:
            return None
        self._waiting.popleft()
        taken.append(answer)
        return _as_of_now(answer)


def _as_of_now(answer: Answer) -> receiver_pb2.ReceiveStreamResponse:
    if answer.size_bytes and (waited_ms := now_ms() - answer.put_ms) > LATE_MS:
        age(answer.frame.delivery, waited_ms)
    return answer.frame


def age(delivery: receiver_pb2.Delivery, waited_ms: int) -> None:
    """Take the time that a delivery waited to be written off its locks; leave out what ended."""
    kept = [
        batch
        for batch in delivery.batches
        if not batch.lock_tokens or batch.lock_remaining_ms > waited_ms
    ]
    for batch in kept:
        batch.lock_remaining_ms -= waited_ms if batch.lock_tokens else 0
    if len(kept) < len(delivery.batches):
        copies = [message_pb2.DeliveredBatch.FromString(b.SerializeToString()) for b in kept]
        del delivery.batches[:]
        delivery.batches.extend(copies)
