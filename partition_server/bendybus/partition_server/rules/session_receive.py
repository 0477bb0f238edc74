"""The rules of receiving by session: its messages go, in their order, to its receiver alone."""

from typing import Final

from bendybus.domain import errors, limits
from bendybus.partition_server.rules import locks, session_locks, sessions
from bendybus.partition_server.state.answers import Reserved
from bendybus.partition_server.state.budget import ServeBudget
from bendybus.partition_server.state.commands import Ask, Now
from bendybus.partition_server.state.faults import RuleFailed
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import SessionAsk, SessionLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.state.turn import Turn

FRAME_ROWS: Final = 500


def check(queue: MessageQueue, session_token: bytes) -> None:
    """Raise what refuses a receive without a session where there are some, or the reverse."""
    by_session = isinstance(queue, SessionQueue)
    if by_session and not session_token:
        raise errors.InvalidOperation(
            "It is not possible for an entity that requires sessions to create a non-sessionful "
            f"message receiver. Accept a session of {queue.entity.title}.",
            metadata={"entity": queue.entity.name},
        )
    if session_token and not by_session:
        raise errors.InvalidOperation(
            f"{queue.entity.title}: this (sub-)queue is not session-enabled. Receive from it "
            "without one.",
            metadata={"entity": queue.entity.name},
        )


def open_ask(turn: Turn, queue: SessionQueue, command: Ask) -> None:
    """Open the ask of a session's receiver. Raises SessionLockLost."""
    found, session = session_locks.find(
        turn.partition, command.session_token, queue.entity.uid, turn.now
    )
    if found is not queue or session.stream != command.stream:
        raise session_locks.lost()
    ask = SessionAsk(
        command.stream,
        command.ask_id,
        command.delete,
        command.max_messages,
        command.max_bytes,
        session,
    )
    queue.open_ask((command.stream, command.ask_id), ask)


def serve(
    partition: PartitionState,
    queue: SessionQueue,
    answers: list[Answer],
    now: Now,
    budget: ServeBudget,
) -> bool:
    """Answer asks of sessions that have something, then receivers that wait for a session.

    Returns False when there is more to give or to look at than a turn may take.
    """
    complete = True
    for name in list(queue.sessions.woken):
        if budget.spent():
            return False
        session = queue.held.get(name)
        if session is None or not session.asks:
            queue.sessions.woken.pop(name, None)
        elif not _full(queue, session):
            complete &= _serve(partition, queue, session, answers, now, budget)
    return sessions.offer_free(partition, queue, answers, now, budget) and complete


def _full(queue: SessionQueue, session: SessionLock) -> bool:
    """Whether nothing may be locked before something is settled, which wakes the queue again."""
    if len(queue.locks) >= limits.LOCKS_PER_QUEUE:
        return True
    return not session.room(session_locks.LOCKS_PER_SESSION, queue.locks)


def _serve(
    partition: PartitionState,
    queue: SessionQueue,
    session: SessionLock,
    answers: list[Answer],
    now: Now,
    budget: ServeBudget,
) -> bool:
    """Answer asks of one session; False if there is more than a turn may take or look at."""
    while session.asks:
        if budget.spent():
            return False
        if session.ended or session.until_mono_ms <= now.mono_ms:
            # The sweep refuses them.
            break
        key, ask = next(iter(session.asks.items()))
        room = session.room(session_locks.LOCKS_PER_SESSION, queue.locks)
        if not room:
            # A settlement wakes the queue again.
            return True
        rows = queue.sessions.take(
            min(ask.messages, FRAME_ROWS, room),
            min(ask.size_bytes, limits.FRAME_BYTES_MAX),
            now_ms=now.wall_ms,
            store=partition.store,
            session_id=session.session_id,
        )
        if not rows:
            if session.has_ready():
                return False
            break
        budget.rows += len(rows)
        budget.size_bytes += sum(row.delivered_bytes() for row in rows)
        try:
            delivery = session_locks.lock_messages(partition, queue, session, rows, now, ask=ask)
            partition.streams.reserved(ask.stream, queue.slot)
            lasts_ms, more = delivery.lock_remaining_ms, session.has_ready()
            reserved = Reserved(ask.ask_id, delivery, lasts_ms, session.until_mono_ms, more)
            partition.streams.ask_closed(*key)
            queue.close_ask(key)
            answers.append(Answer(ask.stream, reserved))
        except Exception as error:
            locks.unlock(queue, [row.counter for row in rows])
            raise RuleFailed(ask, error) from error
    queue.sessions.woken.pop(session.session_id, None)
    return True
