"""Which rule handles which command, and when; and which rule handles what is due by time.

A new matter is one more file in `rules` and its rows here. A handler gets the turn and its command
and returns the answer, None for none (or for one that comes in a later turn). What refuses a
command is raised, and answered as its row says; then the command has changed nothing.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import (
    batch_delete,
    browse,
    catalogue_entry,
    counts,
    defer,
    drain,
    duplicates,
    expire,
    fenced_send,
    forward,
    forward_lanes,
    forwarded,
    locks,
    partition_range,
    publications,
    publish,
    receive,
    reserved_numbers,
    schedule,
    send,
    session_counts,
    sessions,
    settle,
    transaction,
)
from bendybus.partition_server.state.answers import AskRefused, Delivered, Failed, SessionResult
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Append,
    ApplyEntity,
    Ask,
    AttachSession,
    BrowseRange,
    CancelScheduled,
    CloseSession,
    Command,
    CommitEntity,
    ConfirmSession,
    Counts,
    CountSessions,
    DeleteMessages,
    Deliver,
    DrainEntity,
    FenceIdle,
    FindNumber,
    GetFence,
    GetRange,
    GetSessionState,
    ListSessions,
    Peek,
    ReceiveDeferred,
    Release,
    RenewSession,
    ReserveNumbers,
    SendFenced,
    SessionRequest,
    SetSessionState,
    Settle,
    SettleRange,
    StopDelivering,
    StreamEnded,
    TakeForwarded,
    ToldSession,
    Transact,
    TransactAlone,
    Watch,
    Withdraw,
)
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.lanes import ForwardOutcome
from bendybus.partition_server.state.turn import Turn


class Phase(Enum):
    """When a command is handled."""

    # Before the commit, in one stage with others.
    TOGETHER = auto()
    # Before the commit, in a stage of its own: it reads the store before it decides.
    ALONE = auto()
    # After the commit: it reads a little, or waits for messages, and sees what is committed.
    AFTER = auto()
    # The same, a few in a turn: it reads many rows. See `Inbox`.
    LOOK = auto()


class CommandRule(NamedTuple):
    """A row of the table."""

    phase: Phase
    # Whether it is a use of its entity, which AutoDeleteOnIdle then leaves for its whole interval:
    # what a client does with messages, sessions, the entity or its rules, and looking at messages.
    # Not the bus's own work (front ends that give back what they hold, streams that end, forwarding
    # that gets on), and not figures. An ask that waits is a use until it ends; see
    # `MessageQueue.close_ask`.
    is_use: bool
    # (turn, command) → answer
    handle: Callable[[Turn, Any], object]
    # (command, error) → answer
    refused: Callable[[Any, BusError], object]


def _failed(_: Command, error: BusError) -> Failed:
    return Failed(error)


def _unanswered(_: Command, error: BusError) -> None:
    """Answer nothing: no caller waits for the outcome."""


def _ask_refused(command: Ask | AcceptSession, error: BusError) -> AskRefused:
    return AskRefused(command.ask_id, error)


def _session_refused(command: SessionRequest, error: BusError) -> SessionResult:
    return SessionResult(command.request_id, error=error)


def _deliver_refused(command: Deliver, error: BusError) -> Delivered:
    return Delivered(command.deliver_id, error=error)


def _append(turn: Turn, command: Append) -> object:
    """Store a frame in a queue, or as copies in a topic's subscriptions, over several turns."""
    queue = send.checked(turn, command)
    topic = queue.entity.kind is EntityKind.TOPIC
    return (publications.publish if topic else send.send)(turn, command, queue)


def _send_fenced(turn: Turn, command: SendFenced) -> object:
    """As `_append`; a frame without messages moves the fence."""
    queue = fenced_send.checked(turn, command)
    copies = command.batch.payloads and queue.entity.kind is EntityKind.TOPIC
    return (publications.publish if copies else fenced_send.store)(turn, command, queue)


def _reserve_numbers(turn: Turn, command: ReserveNumbers) -> object:
    queue = send.target(turn, command.entity)
    send.check_sends(turn, queue, 0)
    return reserved_numbers.reserve(turn, queue, command.count)


# Handled after the commit of their stage.
AFTER_COMMIT: Final = frozenset({Phase.AFTER, Phase.LOOK})
USE: Final = True
NO_USE: Final = False

COMMANDS: Final[dict[type[Command], CommandRule]] = {
    Append: CommandRule(Phase.TOGETHER, USE, _append, _failed),
    TakeForwarded: CommandRule(Phase.ALONE, USE, forwarded.take, _failed),
    ForwardOutcome: CommandRule(Phase.ALONE, NO_USE, forward_lanes.settle, _failed),
    Transact: CommandRule(Phase.TOGETHER, USE, transaction.transact, _failed),
    TransactAlone: CommandRule(Phase.ALONE, USE, transaction.transact, _failed),
    Settle: CommandRule(Phase.TOGETHER, USE, settle.settle, settle.refused),
    Deliver: CommandRule(Phase.TOGETHER, USE, settle.deliver, _deliver_refused),
    Release: CommandRule(Phase.TOGETHER, NO_USE, receive.release, _unanswered),
    StreamEnded: CommandRule(Phase.TOGETHER, NO_USE, receive.end_stream, _unanswered),
    ConfirmSession: CommandRule(Phase.TOGETHER, USE, sessions.confirm, _session_refused),
    CloseSession: CommandRule(Phase.TOGETHER, USE, sessions.close, _session_refused),
    RenewSession: CommandRule(Phase.TOGETHER, USE, sessions.renew, _session_refused),
    AttachSession: CommandRule(Phase.TOGETHER, USE, sessions.attach, _session_refused),
    ToldSession: CommandRule(Phase.TOGETHER, NO_USE, sessions.told, _unanswered),
    SetSessionState: CommandRule(Phase.ALONE, USE, sessions.set_state, _failed),
    ReceiveDeferred: CommandRule(Phase.ALONE, USE, defer.receive, _failed),
    CancelScheduled: CommandRule(Phase.ALONE, USE, schedule.cancel, _failed),
    ReserveNumbers: CommandRule(Phase.TOGETHER, USE, _reserve_numbers, _failed),
    DeleteMessages: CommandRule(Phase.ALONE, USE, batch_delete.delete, _failed),
    DrainEntity: CommandRule(Phase.ALONE, USE, drain.drain, _failed),
    SettleRange: CommandRule(Phase.ALONE, USE, drain.settle, _failed),
    SendFenced: CommandRule(Phase.ALONE, USE, _send_fenced, _failed),
    CommitEntity: CommandRule(Phase.ALONE, USE, catalogue_entry.commit, _failed),
    ApplyEntity: CommandRule(Phase.ALONE, USE, catalogue_entry.apply, _failed),
    Ask: CommandRule(Phase.AFTER, USE, receive.ask, _ask_refused),
    AcceptSession: CommandRule(Phase.AFTER, USE, sessions.accept, _ask_refused),
    GetSessionState: CommandRule(Phase.LOOK, USE, sessions.get_state, _failed),
    ListSessions: CommandRule(Phase.LOOK, USE, sessions.list_sessions, _failed),
    CountSessions: CommandRule(Phase.LOOK, NO_USE, session_counts.count, _failed),
    Withdraw: CommandRule(Phase.AFTER, NO_USE, receive.withdraw, _failed),
    Peek: CommandRule(Phase.LOOK, USE, browse.peek, _failed),
    GetRange: CommandRule(Phase.AFTER, USE, partition_range.get_range, _failed),
    BrowseRange: CommandRule(Phase.LOOK, USE, partition_range.page, _failed),
    FindNumber: CommandRule(Phase.LOOK, USE, partition_range.find_number, _failed),
    GetFence: CommandRule(Phase.AFTER, USE, fenced_send.read, _failed),
    Counts: CommandRule(Phase.LOOK, NO_USE, counts.counts, _failed),
    FenceIdle: CommandRule(Phase.AFTER, NO_USE, catalogue_entry.fence, _failed),
    StopDelivering: CommandRule(Phase.AFTER, NO_USE, receive.stop, _failed),
    Watch: CommandRule(Phase.AFTER, NO_USE, catalogue_entry.watch, _failed),
}


def _mark(turn: Turn) -> None:
    turn.partition.due.mark(turn.stage.changes, turn.now)


SWEEPS: Final[dict[Sweep, Callable[[Turn], None]]] = {
    Sweep.LOCK_ENDS: locks.sweep,
    Sweep.ACTIVATION: schedule.sweep,
    Sweep.EXPIRY: expire.sweep,
    Sweep.HISTORY: duplicates.sweep,
    Sweep.DELETION: batch_delete.sweep,
    Sweep.MARK: _mark,
    Sweep.UNFINISHED: settle.sweep,
    Sweep.BODIES: publish.sweep_bodies,
    Sweep.FORWARD: forward.sweep,
    Sweep.PUBLISH: publications.sweep,
    Sweep.DRAIN: drain.sweep,
    Sweep.AWAITING_ROOM: schedule.sweep_awaiting,
}
