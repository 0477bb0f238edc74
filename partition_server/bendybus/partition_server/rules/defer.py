"""Deferring: a message leaves the queue's order and is received by its number only."""

from collections.abc import Sequence
from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.partition_server.rules import application_properties, drain, locks, session_locks
from bendybus.partition_server.rules.redeliver import (
    dead_letter_exhausted,
    give_back,
    is_exhausted,
    next_count,
    update,
)
from bendybus.partition_server.state import outcomes
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.commands import ReceiveDeferred
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, Row, State, row_id

# Deferred messages of one call, which are one answer.
DEFERRED_MAX: Final = 1_000


def defer(turn: Turn, queue: MessageQueue, counter: int, lock: Lock, changes: bytes | None) -> None:
    """Defer a locked message. Raises what refuses it."""
    if not queue.is_dead_letter:
        # It may have been delivered often enough.
        check_numbers(turn.partition.queues.dead_letters_of(queue))
    changed = application_properties.merged(
        turn, queue, application_properties.of_locked(turn, queue, counter, lock), changes
    )
    turn.stage.unlock(queue, counter)
    if lock.expires_ms is not None:
        if lock.expires_ms <= turn.now.wall_ms and not turn.expiry_held:
            state, count = int(lock.deferred), next_count(lock)
            added_bytes = update(turn, queue, counter, lock, state, count, changed)
            give_back(turn, queue, counter, lock, lock.size_bytes + added_bytes)
            return
        # Expiry may have passed over it while it was locked.
        turn.partition.due.expires_at(lock.expires_ms)
    count = next_count(lock)
    if is_exhausted(queue, count):
        dead_letter_exhausted(turn, queue, counter, count, changed)
        return
    update(turn, queue, counter, lock, State.DEFERRED, count, changed)
    if not lock.deferred:
        queue.state.active -= 1
        queue.state.deferred += 1


def receive(turn: Turn, command: ReceiveDeferred) -> Delivery:
    """Receive deferred messages; a repeat gets the first delivery while its locks last."""
    partition = turn.partition
    name = outcomes.name_of(command)
    known = partition.operations.outcome_of(name, command.age_ms, turn.now, Delivery)
    # Locks that ended since then gave the messages back: they are received again.
    delivery = None if known is None else locks.still_locked(partition, known, turn.now)
    if delivery is None:
        delivery = _receive(turn, command)
        turn.remember_operation(name, delivery)
    return delivery


def _receive(turn: Turn, command: ReceiveDeferred) -> Delivery:
    """Lock deferred messages, or delete them; all or none.

    Raises MessageNotFound for a number that is unknown, not deferred, or locked.
    """
    partition = turn.partition
    queue = partition.find(command.entity, turn.now)
    drain.check_receives(partition, queue)
    session_locks.check_receive(queue, command.session_token)
    session = None
    if isinstance(queue, SessionQueue):
        found_in, session = session_locks.find(
            partition, command.session_token, queue.entity.uid, turn.now
        )
        if found_in is not queue:
            raise session_locks.lost()
    check(queue, command.counters, DEFERRED_MAX)
    rows = _rows(turn, queue.slot, command.counters)
    found = {
        row.counter
        for row in rows
        if row.state == State.DEFERRED
        and row.counter not in queue.locks
        and (session is None or row.session_id == session.session_id)
    }
    missing = [counter for counter in command.counters if counter not in found]
    if missing:
        raise not_found(
            partition, queue, missing[0], "deferred", "it may be locked by another receiver"
        )
    if command.delete:
        for row in rows:
            turn.stage.remove_row(queue, row)
        return Delivery(queue.slot, queue.base, rows)
    if isinstance(queue, SessionQueue) and session is not None:
        session_locks.check_room(queue, session, len(rows))
    taken = [row.counter for row in rows]
    turn.stage.journal.note(locks.unlock, queue, taken)
    if isinstance(queue, SessionQueue) and session is not None:
        return session_locks.lock_messages(partition, queue, session, rows, turn.now, ask=None)
    return locks.lock(partition, queue, rows, turn.now, ask=None)


def _rows(turn: Turn, slot: int, counters: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    left_bytes = limits.DEFERRED_BYTES_MAX
    for counter in sorted(set(counters)):
        found = turn.partition.store.rows([row_id(slot, counter)])
        rows += found
        left_bytes -= sum(row.delivered_bytes() for row in found)
        if left_bytes < 0 and len(rows) > 1:
            raise errors.InvalidArgument(
                "sequence_numbers",
                f"the messages are larger than {limits.DEFERRED_BYTES_MAX // limits.MB} MB "
                "together. Receive fewer at a time.",
            )
    return rows


def check(queue: MessageQueue, counters: Sequence[int], count_max: int) -> None:
    """Raise unless these are numbers that a queue can have given."""
    bounds.check_numbers("sequence_numbers", counters, count_max)
    if max(counters) > COUNTER_MASK:
        # A row's id has no room for it: it would be one of another queue.
        number = queue.base + max(counters)
        raise errors.MessageNotFound(f"no message has the sequence number {number}.")


def not_found(
    partition: PartitionState, queue: MessageQueue, counter: int, state: str, advice: str
) -> errors.MessageNotFound:
    """Return the error for a message that is not there, by the number that its caller knows."""
    number = queue.base + counter
    return errors.MessageNotFound(
        f"{queue.entity.title}: no {state} message has the sequence number {number} "
        f"(partition {partition.index}); {advice}.",
        metadata={"entity": queue.entity.name, "sequence_number": str(number)},
    )
