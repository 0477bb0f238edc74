"""The rules of sessions: a receiver is offered one, confirms it, renews it and gives it up.

    accept ──► offered ──confirm──► locked ──renew──► locked for a whole lock duration more
                  │                    │    ──attach──► served on another stream
                  └──close, lapsed─────┴────close──► free: no delivery is counted

An accept waits like any ask: by name it is answered at once, else as soon as a session is free.

Here is, too, what receivers keep for sessions, and the list of sessions.
"""

from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.partition_server.rules import drain, room, session_locks
from bendybus.partition_server.state.answers import (
    Done,
    SessionOffered,
    SessionResult,
    SessionsListed,
    SessionStateRead,
)
from bendybus.partition_server.state.budget import ServeBudget
from bendybus.partition_server.state.commands import (
    AcceptSession,
    AttachSession,
    CloseSession,
    ConfirmSession,
    EntityRef,
    GetSessionState,
    ListSessions,
    Now,
    RenewSession,
    SessionRequest,
    SetSessionState,
    ToldSession,
)
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.faults import RuleFailed
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import NextSessionAsk, SessionLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import SessionState

# Sessions of one queue that may be locked in one partition.
SESSIONS_HELD_MAX: Final = 20_000


def queue_of(partition: PartitionState, ref: EntityRef, now: Now) -> SessionQueue:
    """Return the session-aware queue that a call is about. Raises what refuses it."""
    queue = partition.find(ref, now)
    if not isinstance(queue, SessionQueue):
        raise errors.InvalidOperation(
            f"{queue.entity.title}: this (sub-)queue is not session-enabled. Receive from it "
            "without one.",
            metadata={"entity": queue.entity.name},
        )
    return queue


def accept(turn: Turn, command: AcceptSession) -> None:
    """Offer a session by its name, or let the receiver wait for any. Raises what refuses it."""
    partition, now = turn.partition, turn.now
    queue = queue_of(partition, command.entity, now)
    drain.check_receives(partition, queue)
    stream, ask_id, name = command.stream, command.ask_id, command.session_id
    if name is None:
        check_room(queue)
        queue.open_ask((stream, ask_id), NextSessionAsk(stream, ask_id, False, 0, 0))
        partition.streams.ask_opened(stream, ask_id, queue.slot)
        turn.stage.served[queue.slot] = queue
        return
    bounds.check_text("session_id", name, limits.KEY_CHARS_MAX)
    bounds.check_number("receiver_id", len(command.receiver_id), limits.SETTLER_ID_BYTES_MAX)
    if (held := queue.held.get(name)) is not None and not _untold(queue, held, command):
        raise errors.SessionCannotBeLocked(
            f"{queue.entity.title}: session {name!r} is locked by another receiver. "
            "Retry after the lock expires.",
            metadata={"entity": queue.entity.name},
        )
    if len(queue.held) >= SESSIONS_HELD_MAX:
        raise errors.ServerBusy(
            f"{queue.entity.title}: {SESSIONS_HELD_MAX} sessions are locked in partition "
            f"{partition.index} already. Close some.",
            retry_after_ms=1_000,
        )
    if held is not None:
        # Its token is not given again: a front end that could not tell the receiver may close it.
        queue.let_go(held)
    _offer(partition, queue, name, (stream, ask_id), turn.stage.answers, now)


def _untold(queue: SessionQueue, held: SessionLock, command: AcceptSession) -> bool:
    """Whether a session was locked by an earlier try of this very accept, and not used since."""
    same = bool(command.receiver_id) and held.receiver_id == command.receiver_id
    free = not (held.offered or held.ended or held.asks)
    return same and free and not held.locks_alive(queue.locks)


def check_room(queue: SessionQueue) -> None:
    """Raise ServerBusy if too many receivers wait at a queue."""
    if len(queue.asks) >= limits.RECEIVERS_PER_ENTITY:
        raise errors.ServerBusy(
            f"{queue.entity.title}: too many pending receives (at most "
            f"{limits.RECEIVERS_PER_ENTITY}). Use fewer receivers.",
            retry_after_ms=1_000,
        )


def offer_free(
    partition: PartitionState,
    queue: SessionQueue,
    answers: list[Answer],
    now: Now,
    budget: ServeBudget,
) -> bool:
    """Offer free sessions, oldest message first, to those who wait for any, in turn.

    Returns False when there is more to give or to look at than a turn may take.
    """
    while queue.accepts and len(queue.held) < SESSIONS_HELD_MAX:
        if budget.spent():
            return False
        name = queue.sessions.next_session(now_ms=now.wall_ms, store=partition.store)
        budget.passed += queue.sessions.passed
        if name is None:
            return not queue.sessions.has_ready()
        budget.rows += 1
        key, ask = next(iter(queue.accepts.items()))
        try:
            queue.close_ask(key, now)
            partition.streams.ask_closed(*key)
            _offer(partition, queue, name, key, answers, now)
        except Exception as error:
            raise RuleFailed(ask, error) from error
    return True


def _offer(
    partition: PartitionState,
    queue: SessionQueue,
    name: str,
    key: tuple[Caller, int],
    answers: list[Answer],
    now: Now,
) -> None:
    stream, ask_id = key
    until_ms = now.mono_ms + session_locks.OFFER_MS
    number, generation = session_locks.new_name(partition, queue)
    session = SessionLock(name, number, generation, until_ms, stream)
    try:
        queue.hold(session)
        partition.due.lock_ends.add(until_ms, queue.slot)
        partition.streams.reserved(stream, queue.slot)
        token = session.token(partition.index, queue.slot, partition.boot)
        answers.append(Answer(stream, SessionOffered(ask_id, name, token, session_locks.OFFER_MS)))
    except BaseException:
        queue.let_go(session)
        # It is found again by those that wait for any.
        queue.ready.rewind()
        raise


def confirm(turn: Turn, command: ConfirmSession) -> SessionResult:
    """Lock a session that was offered on this stream. Raises what refuses it."""
    found = _found(turn, command, confirmed=False)
    if found[1].stream != command.stream:
        raise session_locks.lost()
    if found[1].offered:
        bounds.check_number("receiver_id", len(command.receiver_id), limits.SETTLER_ID_BYTES_MAX)
        session_locks.note_change(turn, *found)
        found[1].offered, found[1].receiver_id = False, command.receiver_id
        found[1].told = not command.tells
        _extend(turn, *found)
    return _result(turn, command.request_id, found[1])


def told(turn: Turn, command: ToldSession) -> None:
    """Take note that a receiver was told of its lock. Raises SessionLockLost."""
    session_locks.find(turn.partition, command.session_token, command.entity_uid, turn.now)


def renew(turn: Turn, command: RenewSession) -> SessionResult:
    """Let a lock last for a whole lock duration from now. Raises SessionLockLost."""
    queue, session = _found(turn, command)
    session_locks.note_change(turn, queue, session)
    _extend(turn, queue, session)
    return _result(turn, command.request_id, session)


def attach(turn: Turn, command: AttachSession) -> SessionResult:
    """Serve a locked session on this stream, whatever served it before. Raises SessionLockLost."""
    queue, session = _found(turn, command)
    partition, stage = turn.partition, turn.stage
    if command.attachment not in (0, session.attachment):
        # From a front end that has not heard yet that its receiver has gone to another one.
        raise session_locks.lost()
    session_locks.note_change(turn, queue, session)
    if command.release_others:
        session.attachment += 1
        session_locks.release_others(turn, queue, session, command.held_tokens)
    if session.stream != command.stream:
        session_locks.detach(turn, queue, session, to=command.stream)
        stage.answers += session_locks.asks_lost(session)
        stage.journal.later(session_locks.close_asks, turn, queue, list(session.asks))
    partition.streams.reserved(command.stream, queue.slot)
    return _result(turn, command.request_id, session)


def close(turn: Turn, command: CloseSession) -> SessionResult:
    """Give up a lock, or decline an offer. Raises SessionLockLost."""
    queue, session = _found(turn, command, confirmed=False)
    session_locks.end(turn, queue, session)
    return SessionResult(command.request_id)


def _found(
    turn: Turn, command: SessionRequest, *, confirmed: bool = True
) -> tuple[SessionQueue, SessionLock]:
    return session_locks.find(
        turn.partition,
        command.session_token,
        command.entity_uid,
        turn.now,
        confirmed=confirmed,
    )


def _extend(turn: Turn, queue: SessionQueue, session: SessionLock) -> None:
    until_ms = turn.now.mono_ms + queue.entity.description.lock_duration_ms
    queue.extend_session(session, until_ms)
    turn.partition.due.lock_ends.add(until_ms, queue.slot)


def _result(turn: Turn, request_id: int, session: SessionLock) -> SessionResult:
    left_ms = session.until_mono_ms - turn.now.mono_ms
    until_ms = turn.now.wall_ms + left_ms
    return SessionResult(
        request_id,
        until_ms,
        left_ms,
        session.until_mono_ms,
        attachment=session.attachment,
    )


LISTED_MAX: Final = 1_000


def set_state(turn: Turn, command: SetSessionState) -> Done:
    """Keep a state for a session, also without messages, or none. Raises what refuses it."""
    partition, stage = turn.partition, turn.stage
    queue, session = session_locks.find(
        partition, command.session_token, command.entity_uid, turn.now
    )
    before = _state_before(turn, queue, session)
    entry = SessionState(queue.slot, session.session_id, command.state, turn.now.wall_ms)
    added_bytes = entry.size() - entry._replace(state=before).size()
    if command.state is not None:
        _check_room(turn, queue, len(command.state), added_bytes)
    stage.touch(queue)
    queue.state.size_bytes += added_bytes
    stage.changes.session_states.append(entry)
    return Done()


def _state_before(turn: Turn, queue: SessionQueue, session: SessionLock) -> bytes | None:
    """Return the state of a session; a transaction may have set it in this stage."""
    name = queue.slot, session.session_id
    for entry in reversed(turn.stage.changes.session_states):
        if entry[:2] == name:
            return entry.state
    return turn.partition.store.sessions.state(*name)


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
    queue = queue_of(turn.partition, command.entity, turn.now)
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
