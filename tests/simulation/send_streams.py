"""The streams of sends of the simulated front end: the real outbox says what goes together."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from bendybus.frontend.upstreams.send_outbox import SendOutbox
from bendybus.frontend.upstreams.stream import Lane
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.state.commands import Append
from bendybus.v1 import message_pb2
from bendybus.wire import frame_forms

Write = Callable[[int, Append], None]
After = Callable[[int, Callable[[], None]], None]


class SendStreams:
    """A stream to each partition; `write` lets a send leave, `after` waits for milliseconds."""

    def __init__(self, partitions: int, write: Write, after: After) -> None:
        self._write = write
        self._after = after
        self._outboxes = [self._opened(partition) for partition in range(partitions)]
        # By attempt, those that wait.
        self._waiting: dict[int, Append] = {}
        # Frames, by how many parts they have.
        self.parts: Counter[int] = Counter()

    def put(self, partition: int, append: Append) -> None:
        """Send a frame, maybe with others, maybe later."""
        attempt_id: Any = append.reply_to
        frame = partition_pb2.SendFramesRequest(
            partition=partition,
            frame_id=attempt_id,
            batch=message_pb2.MessageBatch(messages=append.batch.payloads),
        )
        assert self._outboxes[partition].put(frame, Lane.WORK)
        self._waiting[attempt_id] = append
        self._pump(partition)

    def answered(self, partition: int, attempt_id: int) -> None:
        """Take the answer to a frame."""
        self._outboxes[partition].answered(partition_pb2.SendFramesResponse(frame_id=attempt_id))
        self._pump(partition)

    def lost(self, partition: int) -> None:
        """Take the end of a stream: what waits is not sent."""
        outbox, self._outboxes[partition] = self._outboxes[partition], self._opened(partition)
        while (frame := outbox.take()) is not None:
            del self._waiting[frame.frame_id]

    def _pump(self, partition: int) -> None:
        while (frame := self._outboxes[partition].take_next()) is not None:
            parts = list(frame_forms.parts(frame))
            self.parts[len(parts)] += 1
            for part in parts:
                self._write(partition, self._waiting.pop(part.frame_id))

    def _opened(self, partition: int) -> SendOutbox:
        def later(delay_s: float, do: Callable[[], None]) -> None:
            self._after(round(1_000 * delay_s), lambda: self._look(partition, do))

        return SendOutbox(later)

    def _look(self, partition: int, do: Callable[[], None]) -> None:
        do()
        self._pump(partition)
