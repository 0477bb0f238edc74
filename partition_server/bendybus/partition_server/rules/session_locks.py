"""The locks of sessions: how a token leads to one, what it locks, how it ends.

When the stream that serves the receiver is lost, what it had reserved is free at once, uncounted;
the lock lasts until its time is over or a stream attaches with the token. If the receiver was not
told of its lock before, that is soon over.

Messages of a session are received in their order, by its receiver alone (`open_ask`, `serve`).
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from bendybus.domain import bounds, errors, limits, lock_token
from bendybus.domain.lock_token import TOKEN_BYTES
from bendybus.partition_server.rules import locks, redeliver, sessions
from bendybus.partition_server.state.answers import AskRefused, Delivery, Recalled, Reserved
from bendybus.partition_server.state.budget import ServeBudget
from bendybus.partition_server.state.commands import Ask, Now
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.faults import RuleFailed
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import (
    NUMBER_FLAG,
    SessionAsk,
    SessionLock,
    SessionMessageLock,
)
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row

# An offer that is not confirmed by then lapses.
OFFER_MS: Final = 2_000
# What is left of a lock whose receiver was not told of it before its stream ended: time enough to
# attach, should it have been told after all.
UNTOLD_MS: Final = 5_000
# What commands change of a session's lock, besides the locks of its messages.
_CHANGING: Final = (
    "stream", "offered", "receiver_id", "told", "attachment", "until_mono_ms", "kept_until_mono_ms"
)  # fmt: skip
# Messages of one session that may be locked at a time.
LOCKS_PER_SESSION: Final = 10_000
FRAME_ROWS: Final = 500


def lost() -> errors.BusError:
    """Return the error for a token that leads to no session lock (any more)."""
    return errors.SessionLockLost(
        "the lock on the session is lost: it expired, it was released, or the partition was "
        "restarted. Accept the session again."
    )


def find(
    partition: PartitionState, token: bytes, entity_uid: str, now: Now, *, confirmed: bool = True
) -> tuple[SessionQueue, SessionLock]:
    """Return the session that a token leads to, and its queue.

    `entity_uid`: the entity that the caller was checked for; "": it is not compared. Raises
    SessionLockLost if the lock is over or another entity's, or if the session was only offered and
    that is not enough.
    """
    bounds.check_session_token(token)
    [parts] = lock_token.unpack(token)
    queue = partition.queues.at(parts.slot) if parts.partition == partition.index else None
    boot = partition.boot & lock_token.BOOT_MASK
    if not isinstance(queue, SessionQueue) or parts.boot != boot:
        raise lost()
    if entity_uid and queue.entity.uid != entity_uid:
        raise lost()
    session = queue.by_number.get(parts.counter & ~NUMBER_FLAG)
    if (
        session is None
        or not parts.counter & NUMBER_FLAG
        or session.generation != parts.generation
        or session.ended
        or session.until_mono_ms <= now.mono_ms
        or (confirmed and session.offered)
    ):
        raise lost()
    partition.note_use(queue, now)
    if confirmed and not session.told:
        _told(queue, session)
    return queue, session


def new_name(partition: PartitionState, queue: SessionQueue) -> tuple[int, int]:
    """Return the number and the generation of a new lock: no other one's, and not to be guessed."""
    while True:
        drawn = partition.new_id().bytes
        number = int.from_bytes(drawn[:6], "big") & ~NUMBER_FLAG
        if number not in queue.by_number:
            return number, int.from_bytes(drawn[-3:], "big")


def is_lost(partition: PartitionState, token: bytes, entity_uid: str, now: Now) -> bool:
    """Whether a token leads to no session lock (any more)."""
    try:
        find(partition, token, entity_uid, now)
    except errors.BusError:
        return True
    return False


def check_room(queue: SessionQueue, session: SessionLock, count: int) -> None:
    """Raise ServerBusy unless `count` more messages of a session may be locked."""
    if len(session.held) + count > LOCKS_PER_SESSION:
        session.locks_alive(queue.locks)
    if len(session.held) + count > LOCKS_PER_SESSION:
        raise errors.ServerBusy(
            f"{queue.entity.title}: the receiver of session {session.session_id!r} has "
            f"{len(session.held)} messages locked, and may have {LOCKS_PER_SESSION}. Settle some "
            "first.",
            retry_after_ms=1_000,
        )


def lock_messages(
    partition: PartitionState,
    queue: SessionQueue,
    session: SessionLock,
    rows: Sequence[Row],
    now: Now,
    *,
    ask: SessionAsk | None,
) -> Delivery:
    """Lock messages of a session for an ask, or deferred ones for a call."""
    generations: list[int] = []
    for row in rows:
        generation = partition.next_generation()
        generations.append(generation)
        lock = SessionMessageLock(
            generation,
            # Not read: that of the session counts.
            0,
            session.stream if ask else None,
            bool(ask and ask.delete),
            ask is None,
            ask is None,
            row.delivery_count,
            row.size(),
            row.expires_ms,
            len(row.changed_properties or b""),
            session,
        )
        queue.locks[row.counter] = lock
        session.note(row.counter, lock, queue.locks)
    left_ms = session.until_mono_ms - now.mono_ms
    return Delivery(
        queue.slot, queue.base, rows, generations, now.wall_ms + left_ms, left_ms, partition.boot
    )


# Ends


def end(turn: Turn, queue: SessionQueue, session: SessionLock) -> None:
    """End a session's lock that is given up: its messages are free, uncounted."""
    for counter, lock in list(session.locks_alive(queue.locks).items()):
        _give_back(turn, queue, counter, lock)
    _free(turn, queue, session)


def end_due(turn: Turn, queue: SessionQueue) -> None:
    """End the locks of sessions whose time is over, within the budget.

    What the client had of their messages counts as delivered.
    """
    budget = turn.budget
    while not budget.spent() and (session := queue.over(turn.now.mono_ms)) is not None:
        # The sweep goes on with it if there is too much for one turn, or the commit fails.
        again = partial(queue.watch_session, session)
        if not _end_locks(turn, queue, session):
            again()
            return
        budget.spend()
        turn.stage.journal.note(again)
        _free(turn, queue, session)


def _end_locks(turn: Turn, queue: SessionQueue, session: SessionLock) -> bool:
    """End the locks of a session's messages; False if there is more than a turn may do."""
    for index, (counter, lock) in enumerate(list(session.locks_alive(queue.locks).items())):
        # One at least: else a turn that is slow from its beginning would end none.
        if index and turn.budget.spent():
            return False
        redeliver.end_lock(turn, queue, counter, lock)
        turn.budget.spend()
    return True


def end_stream(turn: Turn, queue: SessionQueue, stream: Caller) -> None:
    """Let go what a stream that is lost had reserved, and what was offered to it."""
    for session in list(queue.held.values()):
        if session.stream != stream:
            continue
        if session.offered:
            end(turn, queue, session)
        else:
            detach(turn, queue, session)
            _shorten(turn, queue, session)


def _told(queue: SessionQueue, session: SessionLock) -> None:
    """Take note that the receiver of a session knows of its lock: it uses it, or was told."""
    if session.kept_until_mono_ms:
        queue.extend_session(session, session.kept_until_mono_ms)
    queue.journal.note(setattr, session, "told", False)
    session.told = True


def _shorten(turn: Turn, queue: SessionQueue, session: SessionLock) -> None:
    """Let a lock that its receiver may not know of end soon."""
    until_ms = turn.now.mono_ms + UNTOLD_MS
    if session.told or until_ms >= session.until_mono_ms:
        return
    queue.journal.note(setattr, session, "kept_until_mono_ms", session.kept_until_mono_ms)
    session.kept_until_mono_ms = session.until_mono_ms
    queue.extend_session(session, until_ms)
    turn.partition.due.lock_ends.add(until_ms, queue.slot)


def detach(turn: Turn, queue: SessionQueue, session: SessionLock, to: Caller = None) -> None:
    """Take a session from its stream: what is reserved for that is free, uncounted."""
    note_change(turn, queue, session)
    session.stream = to
    for counter, lock in list(session.locks_alive(queue.locks).items()):
        if not lock.delivered:
            _give_back(turn, queue, counter, lock)


def release_others(
    turn: Turn, queue: SessionQueue, session: SessionLock, held_tokens: bytes
) -> None:
    """Free, uncounted, what is locked of a session's messages except what its receiver has.

    The others were lost between partition and receiver: they come again, in their order.
    """
    if len(held_tokens) % TOKEN_BYTES or len(held_tokens) > LOCKS_PER_SESSION * TOKEN_BYTES:
        raise errors.InvalidArgument(
            "held_lock_tokens",
            f"must be at most {LOCKS_PER_SESSION} tokens of {TOKEN_BYTES} bytes "
            f"(got {len(held_tokens)} bytes).",
        )
    held = {
        counter
        for found, counter, lock in locks.find(
            turn.partition, held_tokens, turn.now, queue.entity.uid
        )
        if found is queue and lock is not None
    }
    for counter, lock in list(session.locks_alive(queue.locks).items()):
        if counter not in held:
            _give_back(turn, queue, counter, lock)


def recall(turn: Turn, queue: MessageQueue, counter: int, lock: Lock) -> None:
    """Take back what is reserved after a message of a session that comes back, and say so.

    It is received again before them.
    """
    if not isinstance(lock, SessionMessageLock) or not isinstance(queue, SessionQueue):
        return
    later = lock.session.reserved_after(counter, queue.locks)
    if not later:
        return
    for number, each in later:
        _give_back(turn, queue, number, each)
    boot = turn.partition.boot & lock_token.BOOT_MASK
    pairs = [(number, each.generation) for number, each in later]
    tokens = lock_token.pack(turn.partition.index, queue.slot, boot, pairs)
    session_token = lock.session.token(turn.partition.index, queue.slot, turn.partition.boot)
    turn.stage.answer(lock.session.stream, Recalled(tokens, session_token))


def _give_back(turn: Turn, queue: SessionQueue, counter: int, lock: SessionMessageLock) -> None:
    turn.stage.unlock(queue, counter)
    redeliver.give_back(turn, queue, counter, lock, lock.size_bytes)


def note_change(turn: Turn, queue: SessionQueue, session: SessionLock) -> None:
    """Note a session's lock that is about to change: it is as it was if that is taken back."""
    before = [(name, getattr(session, name)) for name in _CHANGING]
    turn.stage.journal.note(_restore, queue, session, before)


def _restore(queue: SessionQueue, session: SessionLock, before: list[tuple[str, object]]) -> None:
    for name, value in before:
        setattr(session, name, value)
    # Those of its messages end with it.
    queue.extend_session(session, session.until_mono_ms)


def asks_lost(session: SessionLock) -> list[Answer]:
    """Return the answers to what waits for messages of a session that is lost there."""
    return [Answer(stream, AskRefused(ask_id, lost())) for stream, ask_id in session.asks]


def close_asks(turn: Turn, queue: SessionQueue, keys: Iterable[tuple[Caller, int]]) -> None:
    """Close asks that were refused."""
    for key in list(keys):
        queue.close_ask(key, turn.now)
        turn.partition.streams.ask_closed(*key)


def _free(turn: Turn, queue: SessionQueue, session: SessionLock) -> None:
    if session.ended:
        # By another command of the stage.
        return
    turn.stage.journal.note(setattr, session, "ended", False)
    session.ended = True
    turn.stage.journal.later(_freed, turn, queue, session)


def _freed(turn: Turn, queue: SessionQueue, session: SessionLock) -> None:
    """Let others have a session whose lock is over."""
    queue.let_go(session)
    turn.stage.answers += asks_lost(session)
    close_asks(turn, queue, session.asks)
    store = turn.partition.store
    queue.sessions.freed(session.session_id, now_ms=turn.now.wall_ms, store=store)
    turn.stage.served[queue.slot] = queue


def check_receive(queue: MessageQueue, session_token: bytes) -> None:
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
    found, session = find(turn.partition, command.session_token, queue.entity.uid, turn.now)
    if found is not queue or session.stream != command.stream:
        raise lost()
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
    return not session.room(LOCKS_PER_SESSION, queue.locks)


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
        room = session.room(LOCKS_PER_SESSION, queue.locks)
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
        budget.passed += queue.sessions.passed
        if not rows:
            if session.has_ready():
                return False
            break
        budget.rows += len(rows)
        budget.size_bytes += sum(row.delivered_bytes() for row in rows)
        try:
            delivery = lock_messages(partition, queue, session, rows, now, ask=ask)
            partition.streams.reserved(ask.stream, queue.slot)
            lasts_ms, more = delivery.lock_remaining_ms, session.has_ready()
            reserved = Reserved(ask.ask_id, delivery, lasts_ms, session.until_mono_ms, more)
            partition.streams.ask_closed(*key)
            queue.close_ask(key, now)
            answers.append(Answer(ask.stream, reserved))
        except Exception as error:
            locks.unlock(queue, [row.counter for row in rows])
            raise RuleFailed(ask, error) from error
    queue.sessions.woken.pop(session.session_id, None)
    return True
