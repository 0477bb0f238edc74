"""Frames of sends that wait to be written to a partition: small ones go together.

A frame of gRPC, there and back, costs both processes more than what is in it. So a small frame
waits while others are under way, and goes with what else waits as soon as they are answered: with
many clients that each await one send, a partition gets one frame from all of them at a time. A
frame that comes while none is under way, as all do of a client alone that awaits each, waits for
nothing.
Answers that take longer are not waited for: a partition serves its entities in turn, and a frame
behind much of its own entity may be under way for seconds.

    lane WORK   frames for queues
    lane FLOW   frames for topics: their publication may take several turns of the partition, so
                they go at once, with what waits, and nothing waits for their answers

It is the same with large frames: they gain nothing by company. Frames of one entity stay in order.
"""

from typing import Final

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.frontend.upstreams.stream import Lane, Later, PatientOutbox, later_on_loop
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import frame_forms

# Nothing waits for a larger frame.
SMALL_BYTES: Final = 16 * 1024
# The bytes of waiting frames with which they go at once, as they do when they fill a frame.
ENOUGH_BYTES: Final = 16 * 1024
# Nothing waits for what is under way for twice as long; most is answered within a tenth of it.
PATIENCE_S: Final = 0.05


def lane_of(entity: Entity) -> Lane:
    """Return the lane for frames of an entity."""
    return Lane.FLOW if entity.kind is EntityKind.TOPIC else Lane.WORK


class SendOutbox(PatientOutbox[partition_pb2.SendFramesRequest]):
    """See the module."""

    patience_s = PATIENCE_S

    def __init__(self, later: Later = later_on_loop) -> None:
        super().__init__(later)
        self._waiting_bytes = 0
        # Sizes of waiting frames by frame id: protobuf encodes a whole frame to find its size.
        self._sizes: dict[int, int] = {}
        self._taken_bytes = 0
        # By frame id: small ones for queues that wait.
        self._small: set[int] = set()

    def put(self, request: partition_pb2.SendFramesRequest, lane: Lane) -> bool:
        """Add a frame; False, and it is not added, when the lane is full."""
        if not super().put(request, lane):
            return False
        size_bytes = self._sizes[request.frame_id] = request.ByteSize()
        self._waiting_bytes += size_bytes
        if lane is Lane.WORK and size_bytes <= SMALL_BYTES:
            self._small.add(request.frame_id)
        return True

    def take(self, bytes_max: int | None = None) -> partition_pb2.SendFramesRequest | None:
        """Return the next frame, if it is not larger than `bytes_max`."""
        request = super().take(bytes_max)
        if request is not None:
            self._taken_bytes = self._sizes.pop(request.frame_id)
            self._waiting_bytes -= self._taken_bytes
            if request.frame_id in self._small:
                self._small.remove(request.frame_id)
                self._under_way.add(request.frame_id)
        return request

    def take_next(self) -> partition_pb2.SendFramesRequest | None:
        """Return the next frame to write; None when none waits, or all wait for an answer."""
        if self._under_way and not self._enough():
            if self._waiting_bytes:
                self._limit_wait()
            return None
        first = self.take()
        if first is None or not self._waiting_bytes or self._taken_bytes > SMALL_BYTES:
            return first
        return frame_forms.merged(first, self.take)

    def _enough(self) -> bool:
        return (
            self.marked
            or self._waiting_bytes >= ENOUGH_BYTES
            or self.waiting(Lane.WORK) >= frame_forms.PARTS_MAX
            or self.waiting(Lane.FLOW) > 0
        )

    def answered(self, response: partition_pb2.SendFramesResponse) -> None:
        """Let what waits go when all that is under way is answered."""
        if self._under_way:
            for part in frame_forms.parts(response):
                self._under_way.discard(part.frame_id)
            if not self._under_way:
                self.wake.set()
