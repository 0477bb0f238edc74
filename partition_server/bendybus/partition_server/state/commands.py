"""What a partition is asked to do. Values only; see `answers`.

`reply_to` and `stream` are opaque to the rules: by them the shell finds the asker again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bendybus.domain import lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters.rule_set import RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import MessageState
from bendybus.partition_server.state.batch import Batch as Batch
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.entity_ref import EntityRef as EntityRef
from bendybus.partition_server.state.entity_ref import OfStream as OfStream
from bendybus.partition_server.state.lanes import ForwardOutcome
from bendybus.partition_server.state.pipeline_commands import BrowseRange as BrowseRange
from bendybus.partition_server.state.pipeline_commands import DrainEntity as DrainEntity
from bendybus.partition_server.state.pipeline_commands import FindNumber as FindNumber
from bendybus.partition_server.state.pipeline_commands import GetFence as GetFence
from bendybus.partition_server.state.pipeline_commands import GetRange as GetRange
from bendybus.partition_server.state.pipeline_commands import SendFenced as SendFenced
from bendybus.partition_server.state.pipeline_commands import SettleRange as SettleRange
from bendybus.partition_server.state.session_commands import AcceptSession as AcceptSession
from bendybus.partition_server.state.session_commands import AttachSession as AttachSession
from bendybus.partition_server.state.session_commands import CloseSession as CloseSession
from bendybus.partition_server.state.session_commands import ConfirmSession as ConfirmSession
from bendybus.partition_server.state.session_commands import CountSessions as CountSessions
from bendybus.partition_server.state.session_commands import GetSessionState as GetSessionState
from bendybus.partition_server.state.session_commands import ListSessions as ListSessions
from bendybus.partition_server.state.session_commands import RenewSession as RenewSession
from bendybus.partition_server.state.session_commands import SessionRequest as SessionRequest
from bendybus.partition_server.state.session_commands import SetSessionState as SetSessionState
from bendybus.partition_server.state.session_commands import ToldSession as ToldSession
from bendybus.partition_server.store.records import ForwardSource


class Now(NamedTuple):
    """Both clocks, in ms: wall (since 1970) for what is shown, monotonic for what is measured."""

    wall_ms: int
    mono_ms: int


@dataclass(slots=True)
class Append:
    """Store messages; each group is stored whole or not at all."""

    reply_to: Caller
    entity: EntityRef
    batch: Batch
    group_sizes: Sequence[int] = ()
    producer_id: bytes = b""
    producer_sequence: int = 0
    # Positions in the frame of the first try: begin, length, begin, length, …; empty: from 0.
    spans: Sequence[int] = ()
    age_ms: int = 0
    # On this partition's monotonic clock; 0: none.
    deadline_mono_ms: int = 0
    # Its sizes were compared with the limits before it was converted to the contract.
    measured: bool = False


class Transfer(NamedTuple):
    """Messages of a transaction for another entity than its own; see rules.transfer."""

    destination: EntityRef
    batch: Batch
    group_sizes: Sequence[int] = ()
    measured: bool = False


class CancelPart(NamedTuple):
    """Scheduled messages of the transaction's entity that are deleted, by their counters."""

    counters: Sequence[int]


class StatePart(NamedTuple):
    """The state of a locked session of the transaction's entity; None: it has none any more."""

    session_token: bytes
    state: bytes | None


@dataclass(slots=True)
class Transact:
    """Do all parts in one commit, or nothing; answered by Transacted.

    An Append among the parts has no name of its own. All parts but transfers are about one entity.
    """

    reply_to: Caller
    entity: EntityRef
    # Names it: a repeat gets the first outcome, also after a restart.
    transaction_id: bytes
    parts: Sequence["Part"]
    age_ms: int = 0
    # On this partition's monotonic clock; 0: none.
    deadline_mono_ms: int = 0

    def sends(self) -> list[Append]:
        """Return the parts that send messages to its entity."""
        return [part for part in self.parts if isinstance(part, Append)]

    def transfers(self) -> list[Transfer]:
        """Return the parts that send messages to other entities."""
        return [part for part in self.parts if isinstance(part, Transfer)]

    def batches(self) -> list[Batch]:
        """Return all messages that are stored."""
        return [part.batch for part in self.parts if isinstance(part, Append | Transfer)]

    def content_bytes(self) -> int:
        """Return the bytes of the messages and session states that are stored."""
        states = (part.state or b"" for part in self.parts if isinstance(part, StatePart))
        return sum(batch.content_bytes() for batch in self.batches()) + sum(map(len, states))

    def messages(self) -> int:
        """Return how many messages are sent, settled or cancelled; a session's state is one."""
        sent = sum(len(batch.payloads) for batch in self.batches())
        tokens = sum(len(part.tokens) for part in self.parts if isinstance(part, Settle))
        cancelled = sum(len(each.counters) for each in self.parts if isinstance(each, CancelPart))
        states = sum(isinstance(each, StatePart) for each in self.parts)
        return sent + tokens // lock_token.TOKEN_BYTES + cancelled + states


class TransactAlone(Transact):
    """A transaction whose parts read the store: it is decided in a stage of its own."""

    __slots__ = ()


@dataclass(slots=True)
class TakeForwarded:
    """Store messages that another partition forwards, each once; answered by ForwardedTaken."""

    reply_to: Caller
    entity: EntityRef
    source: ForwardSource
    boot: int
    sequence: int
    counters: Sequence[int]  # numbers of the messages at the source
    batch: Batch
    settled: Sequence[int] = ()
    settled_below: int = 0
    # What there is no room for may be overtaken by what follows.
    overtake: bool = False
    deadline_mono_ms: int = 0

    def batches(self) -> list[Batch]:
        """Return all messages that are stored."""
        return [self.batch]


@dataclass(slots=True)
class Ask(OfStream):
    """Reserve messages for receivers; answered once: Reserved, AskRefused or Withdrawn."""

    stream: Caller
    ask_id: int
    entity: EntityRef
    delete: bool
    max_messages: int
    max_bytes: int
    # Of the session that they are from; b"": the entity has no sessions.
    session_token: bytes = b""


@dataclass(slots=True)
class Withdraw(OfStream):
    """End an ask; answered by Withdrawn."""

    stream: Caller
    ask_id: int


@dataclass(slots=True)
class Deliver(OfStream):
    """These reserved messages go to the client now. Answered by Delivered in delete mode."""

    stream: Caller
    deliver_id: int
    tokens: bytes


@dataclass(slots=True)
class Settle(OfStream):
    """Settle locked messages, or renew their locks; answered by Settled."""

    stream: Caller
    settle_id: int
    disposition: Disposition
    tokens: bytes
    changed_properties: bytes | None = None
    dead_letter_reason: str = ""
    dead_letter_error_description: str = ""
    # Tokens of other entities are lost to this caller; "": it may settle those of all.
    entity_uid: str = ""
    # The receiver, whose frames are remembered; b"": they are not. See `settlers`.
    settler_id: bytes = b""
    repeat: bool = False  # its tokens were in a frame before whose outcome it does not know
    session_token: bytes = b""  # says whether a lock was lost with its session; b"": not told
    delay_ms: int = 0  # of an abandon: how long the message is not received; 0: at once
    # Tokens of another sub-queue, or of a message with another id, are lost; 0 and "": of any.
    sub_queue: int = 0
    message_id: str = ""


@dataclass(slots=True)
class Release(OfStream):
    """Give reserved messages back, uncounted. Not answered."""

    stream: Caller
    tokens: bytes


@dataclass(slots=True)
class StreamEnded(OfStream):
    """A stream is gone: its asks end, what is reserved for it is released. Not answered."""

    stream: Caller


@dataclass(slots=True)
class Peek:
    """Show messages from a counter on; answered by Peeked."""

    reply_to: Caller
    entity: EntityRef
    start: int
    max_messages: int
    max_bytes: int
    # None: of all sessions, or of an entity without them.
    session_id: str | None = None


@dataclass(slots=True)
class ReceiveDeferred:
    """Lock (or delete) deferred messages by their counters; answered by Delivery."""

    reply_to: Caller
    entity: EntityRef
    delete: bool
    counters: Sequence[int]
    operation_id: bytes = b""  # see `operations`; b"": a repeat is a new operation
    age_ms: int = 0
    # Of the session that they are from; b"": the entity has no sessions.
    session_token: bytes = b""


@dataclass(slots=True)
class CancelScheduled:
    """Delete scheduled messages by their counters; all or none; answered by Done.

    `only_check`: delete nothing, and fail as the cancellation would.
    """

    reply_to: Caller
    entity: EntityRef
    counters: Sequence[int]
    operation_id: bytes = b""
    age_ms: int = 0
    only_check: bool = False


@dataclass(slots=True)
class ReserveNumbers:
    """Give numbers to messages that a transaction will schedule; answered by NumbersReserved."""

    reply_to: Caller
    entity: EntityRef
    count: int


@dataclass(slots=True)
class DeleteMessages:
    """Delete the oldest unlocked messages; answered by Done with their number."""

    reply_to: Caller
    entity: EntityRef
    max_messages: int
    enqueued_before_ms: int  # 0: now
    states: frozenset[MessageState]
    operation_id: bytes = b""
    age_ms: int = 0
    # Nothing is deleted: how many the operation deleted before is asked for.
    only_known: bool = False


@dataclass(slots=True)
class Counts:
    """Count; answered by a list of EntityCounts. See `service.counting` for more than a few."""

    reply_to: Caller
    uids: Sequence[str] = ()
    # Also how forwarding gets on.
    forwarding: bool = False
    # Without uids: the largest number of entities, in the order of their UIDs, that follow
    # `after_uid`; 0: the most that one command counts.
    entities_max: int = 0
    after_uid: str = ""
    # Also how long the oldest message has been active, of the first entity.
    oldest: bool = False


@dataclass(slots=True)
class CommitEntity:
    """At the registrar: change the catalogue; answered by the Entity."""

    reply_to: Caller
    action: EntityAction
    name: str
    origin: Origin
    # The description's fields that are set; at update: those to change.
    changes: dict[str, Any] = field(default_factory=dict)
    uid: str = ""  # at create: the one to have; else: refuse another one, unless ""
    if_generation: int = 0
    # At create from a manifest, and at adopt: the manifest. Else: refuse another one, unless "".
    manifest_uid: str = ""
    kind: EntityKind = EntityKind.QUEUE
    rule_change: RuleChange | None = None  # only with UPDATE of a subscription
    migrated: bool = False  # only at create: it keeps the partitions that it had elsewhere


@dataclass(slots=True)
class ApplyEntity:
    """Copy entries of the registrar, all or none; answered by Done."""

    reply_to: Caller
    entities: Sequence[Entity]


@dataclass(slots=True)
class FenceIdle:
    """Refuse the entity's traffic for a moment if it is idle; answered by whether it is."""

    reply_to: Caller
    uid: str
    generation: int
    idle_ms: int


@dataclass(slots=True)
class StopDelivering:
    """Give receivers no more messages; answered by `Held`."""

    reply_to: Caller


@dataclass(slots=True)
class Watch(OfStream):
    """Answer with the whole catalogue now, and with each entry that changes from now on."""

    stream: Caller


# The parts of a transaction.
Part = Append | Settle | Transfer | CancelPart | StatePart
Command = (
    Append
    | Transact
    | TransactAlone
    | TakeForwarded
    | ForwardOutcome
    | Ask
    | Withdraw
    | Deliver
    | Settle
    | Release
    | StreamEnded
    | Peek
    | ReceiveDeferred
    | CancelScheduled
    | ReserveNumbers
    | DeleteMessages
    | AcceptSession
    | ConfirmSession
    | CloseSession
    | RenewSession
    | AttachSession
    | ToldSession
    | SetSessionState
    | GetSessionState
    | ListSessions
    | CountSessions
    | GetRange
    | BrowseRange
    | FindNumber
    | DrainEntity
    | SettleRange
    | SendFenced
    | GetFence
    | Counts
    | CommitEntity
    | ApplyEntity
    | FenceIdle
    | StopDelivering
    | Watch
)


def stores(command: Command) -> bool:
    """Whether a command stores messages, so that it needs room on the disk."""
    if isinstance(command, Append | TakeForwarded | SendFenced):
        return True
    return isinstance(command, Transact) and bool(command.batches())
