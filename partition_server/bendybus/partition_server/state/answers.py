"""What a partition answers to commands. Values only: no protobuf, no streams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.filters.rule_set import RulesEdit
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store.records import Row
from bendybus.partition_server.store.store import CountPlace


@dataclass(slots=True)
class Appended:
    """The outcome of Append; numbers are whole sequence numbers, 0 in failed groups."""

    numbers: Sequence[int]
    duplicates: Sequence[bool] = ()
    failures: Sequence[tuple[int, BusError]] = ()


@dataclass(slots=True)
class Failed:
    """The command was refused: nothing happened, unless the error is OutcomeUnknown."""

    error: BusError


@dataclass(slots=True)
class Delivery:
    """Locked or shown messages of one slot, oldest first."""

    slot: int
    # A counter of a row and this are the message's sequence number.
    base: int
    rows: Sequence[Row]
    # One per row; empty without locks.
    generations: Sequence[int] = ()
    locked_until_ms: int = 0
    # How long the locks last from when this was made; 0 without locks.
    lock_remaining_ms: int = 0
    # Of the file's opening that the locks belong to.
    boot: int = 0


@dataclass(slots=True)
class Reserved:
    """Messages for an ask."""

    ask_id: int
    delivery: Delivery
    lock_remaining_ms: int
    locked_until_mono_ms: int
    # The queue had more when it gave these.
    more: bool


@dataclass(slots=True)
class Held:
    """How many messages receivers have, and how many more are on their way to them or cached."""

    delivered: int
    reserved: int


@dataclass(slots=True)
class AskRefused:
    """The ask is closed."""

    ask_id: int
    error: BusError


@dataclass(slots=True)
class Withdrawn:
    """The ask is closed because it was withdrawn."""

    ask_id: int


@dataclass(slots=True)
class SessionOffered:
    """A session for an AcceptSession, until the offer lapses."""

    ask_id: int
    session_id: str
    session_token: bytes
    offer_remaining_ms: int


@dataclass(slots=True)
class SessionResult:
    """The outcome of a request about a session's lock; times are 0 when it is given up."""

    request_id: int
    locked_until_ms: int = 0
    lock_remaining_ms: int = 0
    locked_until_mono_ms: int = 0
    error: BusError | None = None
    # As in SessionLock; 0 when it is given up.
    attachment: int = 0


@dataclass(slots=True)
class Recalled:
    """What is reserved under these tokens is not any more: a message before it came back."""

    tokens: bytes
    session_token: bytes = b""


@dataclass(slots=True)
class SessionStateRead:
    """What is kept for a session; None: nothing."""

    state: bytes | None


@dataclass(slots=True)
class SessionsListed:
    """Sessions, and the name to go on after (None: that is all)."""

    session_ids: Sequence[str]
    following: str | None


@dataclass(slots=True)
class SessionCounts:
    """What a session holds; `state_bytes` is None without a state, `locked_until_ms` unlocked."""

    session_id: str
    active: int = 0
    deferred: int = 0
    scheduled: int = 0
    locked: int = 0
    state_bytes: int | None = None
    locked_until_ms: int | None = None


@dataclass(slots=True)
class SessionsCounted:
    """What sessions hold, and where to go on (None: that is all)."""

    sessions: Sequence[SessionCounts]
    following: CountPlace | None


@dataclass(slots=True)
class Delivered:
    """What a Deliver in delete mode named is gone for good; those in `lost` were not there."""

    deliver_id: int
    lost: Sequence[int] = ()
    error: BusError | None = None


@dataclass(slots=True)
class Settled:
    """The outcome of Settle: which tokens (by index) failed, and why."""

    settle_id: int
    # How many tokens there were.
    count: int
    failures: Sequence[tuple[int, BusError]] = ()
    locked_until_ms: int = 0
    lock_remaining_ms: int = 0
    # Those before this one were settled, or failed, in earlier turns, each committed on its own.
    begun: int = 0


@dataclass(slots=True)
class TransactionPart:
    """The outcome of one part of a transaction: numbers of what was sent, the end of new locks."""

    numbers: Sequence[int] = ()
    duplicates: Sequence[bool] = ()
    locked_until_ms: int = 0
    lock_remaining_ms: int = 0


@dataclass(slots=True)
class Transacted:
    """The outcome of a transaction: of each part, or what refused it (and it changed nothing)."""

    parts: Sequence[TransactionPart]
    # Index of the part that was refused.
    refused_part: int = 0
    error: BusError | None = None


@dataclass(slots=True)
class Peeked:
    """Messages that are shown, and the number to go on from (0: nothing after this now)."""

    delivery: Delivery
    next_number: int


@dataclass(slots=True)
class Done:
    """It is done."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class NumbersReserved:
    """Sequence numbers that belong to whom they were reserved for; the others follow the first."""

    first: int


@dataclass(frozen=True, slots=True)
class ForwardedTaken:
    """What became of forwarded messages.

    The first `done` are dealt with: stored, now or before, unless `failures` has their position.
    What follows is not stored; `failures[done]`, if there is one, says why.
    """

    done: int
    failures: Mapping[int, BusError]


@dataclass(frozen=True, slots=True)
class Standstill:
    """Messages wait because their destination does not take them."""

    # Of the destination; None: all of it.
    partition: int | None
    # The kind of error; PeerUnavailable: the partition does not answer.
    reason: str
    lasts_ms: int


@dataclass(frozen=True, slots=True)
class Forwarding:
    """How forwarding from one (sub-)queue gets on in this partition."""

    source: str
    to: str
    # Active messages, and how long the oldest of them has been there; None: there is none.
    waiting: int
    oldest_age_ms: int | None
    # Since the file was opened: forwarded, and set aside as undeliverable.
    forwarded: int
    set_aside: int
    standstills: Sequence[Standstill]


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """What one entity holds in this partition."""

    uid: str
    name: str
    generation: int
    active: int
    locked: int
    deferred: int
    scheduled: int
    dead_letter: int
    size_bytes: int
    idle_ms: int
    accessed_at_ms: int
    orphaned: bool = False
    transfer_dead_letter: int = 0
    # For other entities, from transactions: not forwarded yet.
    transfer: int = 0
    # Of the queues that forward, if that was asked for.
    forwarding: Sequence[Forwarding] = ()
    # Which of its queues data pipelines drain, and who has the lease; if that was asked for.
    drains: Sequence[tuple[SubQueue, str]] = ()
    # The age of the oldest active message, if that was asked for; None: no message is active.
    oldest_active_ms: int | None = None

    @property
    def messages(self) -> int:
        """How many messages that is, in all states."""
        return sum(
            (
                self.active,
                self.deferred,
                self.scheduled,
                self.dead_letter,
                self.transfer_dead_letter,
                self.transfer,
            )
        )


@dataclass(slots=True)
class CatalogueChanged:
    """Entries for a watcher."""

    entities: Sequence[Entity]
    snapshot: bool
    # Edits of the rules of subscriptions, by the key of the subscription.
    edits: Mapping[str, RulesEdit] = field(default_factory=dict)
