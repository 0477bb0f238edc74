"""What names the work of a task in all of its attempts, and the seam through which it is stored."""

import hashlib
from dataclasses import dataclass
from typing import Final, Protocol

from bendybus.spark.sink.lane import Fence, Frame
from bendybus.spark.sink.routing import Target

PRODUCER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """What names the work of a task in all of its attempts."""

    # Of the query, or of the batch write.
    key: str
    task: int
    # Of the batch, from 1.
    epoch: int
    # How many tasks the work has; 0: not said.
    tasks: int = 0
    # Of a query, what names this run of it; "": there is one run.
    run: str = ""
    # Of a batch write, what names it among those under its key.
    write: str = ""

    def producer_id(self, path: str) -> bytes:
        """Return the id under which the partitions of an entity know this task."""
        return self.producer_of(self.task, path)

    def producer_of(self, task: int, path: str) -> bytes:
        """Return the id under which they know another task of the same work."""
        return self._id(str(task), path)

    def claim_id(self, path: str) -> bytes:
        """Return the id under which an entity knows how many tasks there are."""
        return self.note_id("tasks", path)

    def note_id(self, what: str, path: str) -> bytes:
        """Return the id under which an entity knows something else of the work."""
        return self._id(what, path)

    def _id(self, what: str, path: str) -> bytes:
        named = f"{self.key}\0{what}\0{path.lower()}".encode()
        return hashlib.blake2b(named, digest_size=PRODUCER_BYTES).digest()

    def id_prefix(self) -> str:
        """Return how the ids of messages begin whose rows have none: the same in every attempt."""
        named = f"{self.key}\0{self.task}\0{self.epoch}".encode()
        return f"{hashlib.blake2b(named, digest_size=PRODUCER_BYTES).hexdigest()}-"


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a frame."""

    stored: int
    repeated: int
    duplicates: int


class Sender(Protocol):
    """One entity of the bus, to write to."""

    def target(self) -> Target:
        """Return what is to be known of it."""

    def fence(self, partition: int, producer_id: bytes, within_s: float | None = None) -> Fence:
        """Return how far a producer came in a partition."""

    def move(
        self, partition: int, producer_id: bytes, fence: Fence, *, replace: bool = False
    ) -> None:
        """Write how far a producer came; without `replace`, where its epoch has no fence yet."""

    def send(self, partition: int, producer_id: bytes, epoch: int, frame: Frame) -> Sent:
        """Store a frame; returns when it is."""
