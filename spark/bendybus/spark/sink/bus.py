"""The senders of a task: the seam of sink/task_writer.py over the public client."""

from typing import Any

from bendybus.spark import bus_errors, connections
from bendybus.spark.options import Connection
from bendybus.spark.sink import messages
from bendybus.spark.sink.attempt import Sent
from bendybus.spark.sink.lane import Fence, Frame
from bendybus.spark.sink.routing import Target


class ConnectedSender:
    """One entity of the bus, to write to."""

    def __init__(self, connection: Connection, path: str, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        # The path of a topic is sent to like that of a queue.
        self._sender = connections.client(connection).get_partition_sender(queue_name=path)

    def target(self) -> Target:
        """Return what is to be known of it."""
        with bus_errors.translated(self._path):
            found = self._sender.describe_partitions(timeout=self._timeout_s)
        return Target(
            self._path,
            tuple(sorted(each.partition for each in found.partitions)),
            found.partition_of,
            found.detects_duplicates,
            found.requires_session,
            found.max_message_size,
        )

    def fence(self, partition: int, producer_id: bytes, within_s: float | None = None) -> Fence:
        """Return how far a producer came in a partition."""
        found: Any = self._sender.fence(partition, producer_id, timeout=within_s or self._timeout_s)
        return Fence(found.epoch, found.ordinal, found.mark)

    def move(
        self, partition: int, producer_id: bytes, fence: Fence, *, replace: bool = False
    ) -> None:
        """Write how far a producer came; without `replace`, where its epoch has no fence yet."""
        self._sender.send(
            partition,
            [],
            producer_id=producer_id,
            epoch=fence.epoch,
            ordinals=[fence.ordinal],
            mark=fence.mark,
            replace=replace,
            timeout=self._timeout_s,
        )

    def send(self, partition: int, producer_id: bytes, epoch: int, frame: Frame) -> Sent:
        """Store a frame; returns when it is."""
        found: Any = self._sender.send(
            partition,
            messages.batch_of(frame.messages),
            producer_id=producer_id,
            epoch=epoch,
            ordinals=frame.ordinals,
            mark=frame.mark,
            timeout=self._timeout_s,
        )
        return Sent(found.stored, found.repeated, found.duplicates)
