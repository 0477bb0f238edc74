"""What data pipelines ask a partition for, and what it answers. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from bendybus.domain.message_state import ACTIVE_ONLY, MessageState
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.entity_ref import Caller, EntityRef


@dataclass(slots=True)
class GetRange:
    """Say where a queue begins and ends; answered by RangeRead."""

    reply_to: Caller
    entity: EntityRef


@dataclass(slots=True)
class BrowseRange:
    """Show a page of the messages after a counter, up to another; answered by RangePage."""

    reply_to: Caller
    entity: EntityRef
    after: int
    # 0: up to the last one.
    upto: int
    max_messages: int
    max_bytes: int
    states: frozenset[MessageState] = ACTIVE_ONLY
    bodies: bool = True


@dataclass(slots=True)
class FindNumber:
    """Find the first message that was enqueued at a time or later; answered by NumberFound."""

    reply_to: Caller
    entity: EntityRef
    enqueued_ms: int
    after: int = 0


class DrainAction(Enum):
    """What is wanted of the lease of a drain."""

    GRANT = auto()
    HOLD = auto()
    RELEASE = auto()


@dataclass(slots=True)
class DrainEntity:
    """Grant, hold or release the lease of a drain; answered by Drained."""

    reply_to: Caller
    entity: EntityRef
    action: DrainAction
    owner: str
    duration_ms: int
    # Of hold and release.
    epoch: int = 0


@dataclass(slots=True)
class SettleRange:
    """Under the lease: delete active messages, up to a counter or those listed.

    Answered by RangeSettled.
    """

    reply_to: Caller
    entity: EntityRef
    epoch: int
    upto: int = 0
    counters: Sequence[int] = ()
    # Of the counters; "": of any.
    incarnation: str = ""


@dataclass(slots=True)
class SendFenced:
    """Store messages of a producer, each once; answered by FencedStored."""

    reply_to: Caller
    entity: EntityRef
    producer_id: bytes
    epoch: int
    # One per message, rising.
    ordinals: Sequence[int]
    batch: Batch
    mark: bytes = b""
    # On this partition's monotonic clock; 0: none.
    deadline_mono_ms: int = 0
    # Without messages: the fence of the epoch is moved wherever it was.
    replace: bool = False


@dataclass(slots=True)
class GetFence:
    """Say how far a producer came; answered by FenceRead."""

    reply_to: Caller
    entity: EntityRef
    producer_id: bytes


@dataclass(frozen=True, slots=True)
class RangeRead:
    """Where a queue begins and ends, in sequence numbers; see the contract."""

    incarnation: str
    lost: int
    tail: int
    first: int
    active: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RangePage:
    """Messages of a range, and the number to go on after."""

    delivery: Delivery
    next_after: int
    complete: bool
    incarnation: str
    lost: int
    tail: int


@dataclass(frozen=True, slots=True)
class NumberFound:
    """The number after which messages are late enough; not `found`: look on from there."""

    after: int
    found: bool


@dataclass(frozen=True, slots=True)
class Drained:
    """The epoch of the lease, and how many messages receivers have locked here."""

    epoch: int
    locked: int = 0


@dataclass(frozen=True, slots=True)
class RangeSettled:
    """How many messages are deleted, and whether there is more to delete."""

    deleted: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class FencedStored:
    """What became of a producer's messages; see the contract."""

    stored: int
    repeated: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class FenceRead:
    """How far a producer came; epoch 0: nothing is known of it."""

    epoch: int = 0
    ordinal: int = 0
    mark: bytes = b""
