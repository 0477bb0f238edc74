"""Frames of receivers that wait to be written to a partition: those that can wait go together.

A frame of gRPC costs both processes more than what is in it, and the partition a turn. So two kinds
of frames go with the next one of any other kind, and otherwise wait:

    settlements   while others are under way: then those of all receivers go together
    deliveries    for a settlement or anything else; the messages of all receivers are one part

A partition does not answer deliveries. It has to read one before its stream ends, or the lock of
the message ends with that: so a delivery waits for `DELIVERY_S` at most. Deliveries come first in a
frame, so that one is read before the settlement of the same message. A settlement of a client alone
waits for nothing, and has its delivery with it, if that has not gone before.

All others, in the lanes FLOW and RENEW, go at once: an ask that waits costs receivers more time
than it saves. Deliveries that delete, and those of sessions, are answered, so they go at once, too.
A session is closed behind the settlements that were put in before, in the lane WORK, and at once.
"""

from collections import deque
from collections.abc import Set as AbstractSet
from typing import Final

from bendybus.domain import bounds, lock_token
from bendybus.frontend.upstreams.stream import Lane, Later, PatientOutbox, later_on_loop
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import frame_forms

# No settlement waits for twice as long. Most are answered within a fifth of it.
PATIENCE_S: Final = 0.01
# How long a delivery waits: its lock ends with the front end until the partition knows of it.
DELIVERY_S: Final = 0.002
_TOKENS_BYTES_MAX: Final = bounds.TOKENS_A_FRAME_MAX * lock_token.TOKEN_BYTES


class DeliverOutbox(PatientOutbox[partition_pb2.DeliverFramesRequest]):
    """See the module."""

    patience_s = PATIENCE_S

    def __init__(self, later: Later = later_on_loop) -> None:
        super().__init__(later)
        # Something that does not wait was put in, or did for long enough.
        self._urgent = False
        # Deliveries that wait, and the bytes of their lock tokens.
        self._delivered: deque[partition_pb2.DeliverFramesRequest] = deque()
        self._delivered_bytes = 0
        self._delivery_timed = False

    def put_always(self, request: partition_pb2.DeliverFramesRequest) -> None:
        """Add a frame that follows from an ask."""
        if request.HasField("close_session"):
            # Behind the settlements of its receiver: they would find no lock any more.
            self._lanes[Lane.WORK].append(request)
            self._go()
            return
        if not request.HasField("deliver") or request.deliver.deliver_id:
            super().put_always(request)
            return
        self._delivered.append(request)
        self._delivered_bytes += len(request.deliver.lock_tokens)
        if self._delivered_bytes >= _TOKENS_BYTES_MAX:
            self._go()
        elif not self._delivery_timed:
            self._delivery_timed = True
            self._later(DELIVERY_S, self._tell)

    def _add(self, request: partition_pb2.DeliverFramesRequest, lane: Lane) -> None:
        self._lanes[lane].append(request)
        if lane is not Lane.WORK or not self._settlements_wait():
            self._go()
        else:
            self._limit_wait()

    def _go(self) -> None:
        self._urgent = True
        self.wake.set()

    def _tell(self) -> None:
        """Let the partition know of deliveries now."""
        self._delivery_timed = False
        if self._delivered:
            self._go()

    def _settlements_wait(self) -> bool:
        return bool(self._under_way) and self.waiting(Lane.WORK) < frame_forms.PARTS_MAX

    def take(self, bytes_max: int | None = None) -> partition_pb2.DeliverFramesRequest | None:
        """Return the next frame of the lanes, if it is not larger than `bytes_max`."""
        request = super().take(bytes_max)
        if request is not None and request.HasField("settle"):
            self._under_way.add(request.settle.settle_id)
        return request

    def take_next(self) -> partition_pb2.DeliverFramesRequest | None:
        """Return the next frame to write, with what goes with it; None when all waits."""
        if not self._urgent and not self.marked:
            return None
        first = self._joined() if self._delivered else self.take()
        made = None if first is None else frame_forms.merged(first, self.take)
        self._urgent = bool(self._delivered) or any(self._lanes)
        return made

    def _joined(self) -> partition_pb2.DeliverFramesRequest:
        """Return deliveries that wait, as one."""
        first = self._delivered.popleft()
        tokens = [first.deliver.lock_tokens]
        size_bytes = len(tokens[0])
        while self._delivered:
            more = self._delivered[0].deliver.lock_tokens
            if size_bytes + len(more) > _TOKENS_BYTES_MAX:
                break
            size_bytes += len(more)
            tokens.append(more)
            self._delivered.popleft()
        self._delivered_bytes -= size_bytes
        first.deliver.lock_tokens = b"".join(tokens)
        return first

    def answered(self, response: partition_pb2.DeliverFramesResponse) -> None:
        """Let the settlements that wait go when all that are under way are answered."""
        if self._under_way:
            for part in frame_forms.parts(response):
                if part.HasField("settled"):
                    self._under_way.discard(part.settled.settle_id)
            if not self._under_way and self.waiting(Lane.WORK):
                self._go()

    def _give_up(self, under_way: AbstractSet[int]) -> None:
        super()._give_up(under_way)
        if not self.waiting(Lane.WORK):
            return
        if self._under_way:
            self._limit_wait()
        else:
            self._go()
