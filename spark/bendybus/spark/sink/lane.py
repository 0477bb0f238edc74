"""The messages of one task for one partition of one entity: each is stored once.

    offer(ordinal, message) ──► passed over, as far as an earlier attempt came ── its mark must fit
                            └─► buffered ──► frame ──► sent with the ordinals and a mark

The mark is a digest of all messages up to an ordinal. If it differs from that of an earlier
attempt, the rows of the task are not the same ones, and passing over would lose some. `Attempt`
names the work of a task in all of its attempts; `Sender` is the seam that stores it. No I/O.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bendybus.spark.errors import RowsChangedError
from bendybus.spark.sink.messages import Encoded, Target

FRAME_MESSAGES: Final = 2_000
FRAME_BYTES: Final = 1_000_000
# A message that is not larger fits into any frame that is not full.
SMALL_BYTES: Final = 40_000
MARK_BYTES: Final = 8
# Of a batch that was taken as written: all of it is passed over, whatever its rows are.
ADOPTED: Final = b"adopted"
ADOPTED_ORDINAL: Final = 2**63 - 1
PRODUCER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Fence:
    """How far a producer came in a partition."""

    epoch: int = 0
    ordinal: int = 0
    mark: bytes = b""


@dataclass(frozen=True, slots=True)
class Frame:
    """Messages that are sent together. `before`: the digest before the first of them."""

    messages: list[Encoded]
    ordinals: list[int]
    before: Any
    mark: bytes

    def halves(self) -> tuple["Frame", "Frame"]:
        """Return it as two frames, each with its own mark."""
        middle, between = len(self.messages) // 2, self.before.copy()
        for message in self.messages[:middle]:
            message.feed(between)
        return (
            Frame(self.messages[:middle], self.ordinals[:middle], self.before, between.digest()),
            Frame(self.messages[middle:], self.ordinals[middle:], between, self.mark),
        )


def check_epoch(where: str, epoch: int, fence: Fence) -> None:
    """Raise RowsChangedError if an epoch is before the one that a fence is of."""
    if fence.epoch > epoch:
        raise RowsChangedError(
            f"{where}: a later batch of this query was written already; another run of it is "
            "active, or its checkpoint was set back. Run it once, or use another "
            "checkpointLocation."
        )


class Lane:
    """What one task has for one partition. `fence`: what an earlier attempt left."""

    __slots__ = (
        "_before", "_epoch", "_fence", "_fits", "_hash", "_last", "_messages", "_ordinals",
        "_where", "passed_over", "size_bytes",
    )  # fmt: skip

    def __init__(self, where: str, epoch: int, fence: Fence) -> None:
        """Raises RowsChangedError if the partition knows a later epoch."""
        check_epoch(where, epoch, fence)
        self._where = where
        self._epoch = epoch
        self._hash = hashlib.blake2b(digest_size=MARK_BYTES)
        self._before = self._hash.copy()
        self._fence = fence if fence.epoch == epoch else Fence()
        self._fits = not self._fence.ordinal or self._fence.mark == ADOPTED
        self._messages: list[Encoded] = []
        self._ordinals: list[int] = []
        self._last = 0
        self.size_bytes = 0
        self.passed_over = 0

    def offer(self, ordinal: int, message: Encoded) -> bool:
        """Take a message; return whether it is to be sent. Raises RowsChangedError."""
        if not self._fits and ordinal > self._fence.ordinal:
            raise self._changed()
        message.feed(self._hash)
        self._last = ordinal
        if ordinal <= self._fence.ordinal:
            self.passed_over += 1
            self._compare(ordinal)
            self._before = self._hash.copy()
            return False
        self._messages.append(message)
        self._ordinals.append(ordinal)
        self.size_bytes += message.size_bytes
        return True

    @property
    def caught_up(self) -> bool:
        """Whether all that an earlier attempt stored was found in the rows."""
        return self._fits

    @property
    def full(self) -> bool:
        """Whether the frame has to be taken before another message is offered."""
        return self.size_bytes >= FRAME_BYTES or len(self._messages) >= FRAME_MESSAGES

    def fits(self, message: Encoded) -> bool:
        """Whether a message goes into the frame that is being filled."""
        return (
            message.size_bytes <= SMALL_BYTES
            or not self._messages
            or self.size_bytes + message.size_bytes <= FRAME_BYTES
        )

    def take(self) -> Frame | None:
        """Return the frame that was filled, and begin the next; None: there is nothing."""
        if not self._messages:
            return None
        made = Frame(self._messages, self._ordinals, self._before, self._hash.digest())
        self._messages, self._ordinals, self._before = [], [], self._hash.copy()
        self.size_bytes = 0
        return made

    def repeated(self, frame: Frame, fence: Fence) -> None:
        """Note that some of a frame was there already: another attempt is writing, too.

        Raises RowsChangedError if its rows are others.
        """
        if fence.epoch != self._epoch:
            raise self._changed()
        known = frame.before.copy()
        messages = (*frame.messages, *self._messages)
        for ordinal, message in zip((*frame.ordinals, *self._ordinals), messages, strict=True):
            message.feed(known)
            if ordinal == fence.ordinal:
                if known.digest() != fence.mark:
                    raise self._changed()
                return
        if fence.ordinal < self._last:
            raise self._changed()
        # It is ahead of this attempt: what follows is passed over up to there.
        self._fence, self._fits = fence, False

    def finish(self) -> None:
        """Raise RowsChangedError if an earlier attempt had more rows than this one."""
        if not self._fits:
            raise self._changed()

    def _compare(self, ordinal: int) -> None:
        if ordinal == self._fence.ordinal:
            if self._hash.digest() != self._fence.mark:
                raise self._changed()
            self._fits = True

    def _changed(self) -> RowsChangedError:
        return RowsChangedError(
            f"{self._where}: the rows of this task are not those of an earlier attempt, which "
            "wrote some of them, so that messages would be lost or stored twice. Make the plan "
            "deterministic: sort within partitions, leave out random values and clocks, or "
            "checkpoint the DataFrame before the write; an idempotencyKey names one write only."
        )


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
