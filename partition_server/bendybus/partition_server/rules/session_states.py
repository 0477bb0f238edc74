"""What receivers keep for sessions, and the list of sessions."""

from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.partition_server.rules import room, session_locks, sessions
from bendybus.partition_server.state.answers import Done, SessionsListed, SessionStateRead
from bendybus.partition_server.state.commands import (
    GetSessionState,
    ListSessions,
    SetSessionState,
)
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import SessionState

LISTED_MAX: Final = 1_000


def set_state(turn: Turn, command: SetSessionState) -> Done:
    """Keep a state for a session, also without messages, or none. Raises what refuses it."""
    partition, stage = turn.partition, turn.stage
    queue, session = session_locks.find(
        partition, command.session_token, command.entity_uid, turn.now
    )
    before = partition.store.sessions.state(queue.slot, session.session_id)
    entry = SessionState(queue.slot, session.session_id, command.state, turn.now.wall_ms)
    added_bytes = entry.size() - entry._replace(state=before).size()
    if command.state is not None:
        _check_room(turn, queue, len(command.state), added_bytes)
    stage.touch(queue)
    queue.state.size_bytes += added_bytes
    stage.changes.session_states.append(entry)
    return Done()


def _check_room(turn: Turn, queue: SessionQueue, size_bytes: int, added_bytes: int) -> None:
    entity = queue.entity
    # A subscription has neither a size nor a quota of its own.
    payer = room.payer_of(turn.partition, queue).entity
    most = payer.message_bytes_max(turn.partition.fingerprint.tier)
    if size_bytes > most:
        raise errors.MessageSizeExceeded(
            f"{entity.title}: a session state of {size_bytes} bytes is larger than the "
            f"{most} allowed. Keep the data elsewhere and a reference in the state.",
            metadata={"entity": entity.name, "limit": str(most)},
        )
    room.take(turn, queue, added_bytes)


def get_state(turn: Turn, command: GetSessionState) -> SessionStateRead:
    """Return what is kept for a session. Raises SessionLockLost."""
    queue, session = session_locks.find(
        turn.partition, command.session_token, command.entity_uid, turn.now
    )
    return SessionStateRead(turn.partition.store.sessions.state(queue.slot, session.session_id))


def list_sessions(turn: Turn, command: ListSessions) -> SessionsListed:
    """List sessions that have active messages or a state, a page at a time."""
    queue = sessions.queue_of(turn.partition, command.entity, turn.now)
    bounds.check_number("max_sessions", command.max_sessions, LISTED_MAX, 1)
    if command.after is not None:
        bounds.check_text("after", command.after, limits.KEY_CHARS_MAX)
    bounds.check_number(
        "state_updated_after_ms", command.state_updated_after_ms, bounds.TIME_MS_MAX
    )
    reads = turn.partition.store.sessions
    if command.state_updated_after_ms:
        found = reads.updated(
            queue.slot, command.after, command.max_sessions, command.state_updated_after_ms
        )
        return SessionsListed(*found)
    return SessionsListed(*reads.listed(queue.slot, command.after, command.max_sessions))
