"""A dead-letter queue in memory, as a redrive's task sees it through a client."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from bendybus.client.exceptions import (
    DrainLeaseLostError,
    InvalidOperationError,
    MessageSizeExceededError,
)
from bendybus.domain import limits
from bendybus.spark.jobs import redrive_task
from bendybus.spark.jobs.redrive_task import Moved, Task
from bendybus.spark.options import Entity
from bendybus.v1 import message_pb2, pipeline_pb2
from bendybus.v1.message_pb2 import Message

BASE = 3 << 48


class Bus:
    """A dead-letter queue in one partition, and a queue of two that it goes back to."""

    def __init__(self, bodies: Sequence[str], *, detects_duplicates: bool = False) -> None:
        self.dead = {BASE + n: body for n, body in enumerate(bodies, 1)}
        self.detects_duplicates = detects_duplicates
        # (partition, ordinals, batch), in the order of the calls.
        self.sent: list[tuple[int, list[int], Any]] = []
        self.fences: dict[tuple[int, bytes], tuple[int, bytes]] = {}
        # Bodies.
        self.stored: list[str] = []
        self.log: list[str] = []
        self.lost = False
        self.changed = b""
        # Of all messages, if it is not a text of their own.
        self.body = self.head = b""
        self.incarnation = "before"
        # Of one frame.
        self.most = 1_000
        # The body of a message whose copy is larger than the queue takes.
        self.too_large = ""
        self.pipeline = self

    # What a client gives.

    def get_partition_browser(self, **_: Any) -> "Bus":
        return self

    def get_partition_sender(self, **_: Any) -> "Bus":
        return self

    def describe_partitions(self, **_: Any) -> Any:
        return SimpleNamespace(
            partitions=[SimpleNamespace(partition=0), SimpleNamespace(partition=1)],
            partition_of=lambda key: len(key) % 2,
            detects_duplicates=self.detects_duplicates,
        )

    def browse(self, partition: int, *, after: int, upto: int, max_messages: int, **_: Any) -> Any:
        numbers = sorted(n for n in self.dead if after < n <= upto)
        shown = numbers[:max_messages]
        batch = message_pb2.DeliveredBatch(partition=partition, sequence_numbers=shown)
        for number in shown:
            text = self.dead[number]
            batch.heads.append(self.head or Message(subject=text).SerializeToString())
            batch.messages.append(self.body or Message(data=[text.encode()]).SerializeToString())
            batch.formats.append(1)
            batch.message_ids.append(f"id-{text}")
            batch.partition_keys.append("kk" if text == "keyed" else "")
            batch.changed_properties.append(self.changed)
            batch.enqueued_time_ms.append(1)
        following = shown[-1] if len(shown) < len(numbers) else upto
        return SimpleNamespace(
            batch=batch,
            next_after=following,
            complete=len(shown) == len(numbers),
            incarnation=self.incarnation,
        )

    def fence(self, partition: int, producer_id: bytes, **_: Any) -> Any:
        ordinal, mark = self.fences.get((partition, producer_id), (0, b""))
        return SimpleNamespace(ordinal=ordinal, mark=mark)

    def send(
        self,
        partition: int,
        batch: Any,
        *,
        producer_id: bytes,
        ordinals: list[int],
        mark: bytes = b"",
        **_: Any,
    ) -> Any:
        if len(ordinals) > self.most:
            raise InvalidOperationError(message="the batch makes too many copies")
        if any(self.too_large.encode() in body for body in batch.messages if self.too_large):
            raise MessageSizeExceededError(message="the message has 9 bytes; at most 8")
        self.log.append("send")
        assert len(mark) <= limits.FENCE_MARK_BYTES_MAX
        fence = self.fence(partition, producer_id).ordinal
        new = [ordinal for ordinal in ordinals if ordinal > fence]
        if new:
            self.fences[partition, producer_id] = (ordinals[-1], mark)
        self.sent.append((partition, list(ordinals), batch))
        for body in batch.messages[len(ordinals) - len(new) :]:
            self.stored.append(b"".join(Message.FromString(body).data).decode())
        return SimpleNamespace(stored=len(new), repeated=len(ordinals) - len(new), duplicates=0)

    # What a lease calls.

    def _call(self, _: str, request: Any, __: Any) -> Any:
        self.log.append("settle")
        assert request.incarnation == self.incarnation
        if self.lost:
            raise DrainLeaseLostError(message="lost")
        gone = [self.dead.pop(number, None) for number in request.numbers.values]
        return pipeline_pb2.SettleRangeResponse(deleted=sum(each is not None for each in gone))

    entity_path = "orders/$DeadLetterQueue"

    def bodies(self) -> list[str]:
        return [
            Message.FromString(body).data[0].decode()
            for _, _, batch in self.sent
            for body in batch.messages
        ]


def task(bus: Bus, *wanted: int, **properties: str) -> Task:
    numbers = [BASE + n for n in wanted] if wanted else sorted(bus.dead)
    source = Entity("orders", "", "deadletter")
    return Task("plan", source, "orders", 3, "before", numbers, "me", 7, properties, 30)


def run(bus: Bus, wanted: Task, fix: Any = None) -> Moved:
    return redrive_task.move(bus, wanted, fix)  # type: ignore[arg-type]
