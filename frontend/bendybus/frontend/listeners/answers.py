"""Answers of one receiver's stream that wait to be written to its client. On the loop only."""

import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from bendybus.domain.errors import BusError
from bendybus.frontend.core.flow_control import StreamFlow
from bendybus.frontend.core.lease import SessionLease
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import merged_frames, statuses
from bendybus.wire.answer_queue import AnswerQueue

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
    # That of the messages, where they share one.
    lease: SessionLease | None = None


class Answers(AnswerQueue[Answer]):
    """A queue of answers; with `merges`, those that wait at the same time share a frame."""

    def __init__(self, outstanding: Callable[[], bool], flow: StreamFlow, *, merges: bool) -> None:
        super().__init__(outstanding)
        self._flow = flow
        self._merges = merges

    async def written(
        self,
    ) -> AsyncIterator[tuple[receiver_pb2.ReceiveStreamResponse, list[Answer]]]:
        """Yield frames, and what they consist of, until the stream ends."""
        while True:
            try:
                entry = await self.next()
            except BusError as error:
                yield receiver_pb2.ReceiveStreamResponse(error=statuses.to_error(error)), []
                return
            if entry is None:
                return
            answers = [entry]
            frame = _as_of_now(entry)
            if self._merges and len(self) and not frame.moving:
                frame = merged_frames.merged(frame, functools.partial(self._take_small, answers))
            yield frame, answers
            # The client took it off the wire, or there is room on the wire for it.
            size_bytes = sum(answer.size_bytes for answer in answers)
            if size_bytes:
                self._flow.read(size_bytes)

    def _take_small(
        self, taken: list[Answer], bytes_max: int
    ) -> receiver_pb2.ReceiveStreamResponse | None:
        answer = self.take(
            lambda each: not each.frame.moving and each.frame.ByteSize() <= bytes_max
        )
        if answer is None:
            return None
        taken.append(answer)
        return _as_of_now(answer)


def _as_of_now(answer: Answer) -> receiver_pb2.ReceiveStreamResponse:
    if answer.size_bytes and (waited_ms := now_ms() - answer.put_ms) > LATE_MS:
        left_ms = None if answer.lease is None else answer.lease.until_ms - now_ms()
        age(answer.frame.delivery, waited_ms, left_ms)
    return answer.frame


def age(delivery: receiver_pb2.Delivery, waited_ms: int, left_ms: int | None = None) -> None:
    """Take the time that a delivery waited to be written off its locks; leave out what ended.

    `left_ms`: how long the one lock lasts that all messages share; it may have been renewed.
    """
    delivery.sent_ms += waited_ms
    kept: list[message_pb2.DeliveredBatch] = []
    for batch in delivery.batches:
        if batch.lock_tokens:
            left = batch.lock_remaining_ms - waited_ms if left_ms is None else left_ms
            if left <= 0:
                continue
            batch.lock_remaining_ms = left
        kept.append(batch)
    if len(kept) < len(delivery.batches):
        copies = [message_pb2.DeliveredBatch.FromString(b.SerializeToString()) for b in kept]
        del delivery.batches[:]
        delivery.batches.extend(copies)
