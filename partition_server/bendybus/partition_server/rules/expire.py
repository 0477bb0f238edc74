"""Expiry: a message whose time to live is over is dropped, or dead-lettered if its queue is set so.

A locked message waits for the end of its lock; one that only waits, after an abandon with a delay,
does not. One that may be at its destination already waits until that is known. While a data
pipeline drains the queue, nothing of it expires.
"""

from bendybus.partition_server.rules import browse, dead_letter, delays, forward_lanes
from bendybus.partition_server.state.due_times import LAST_ID, Sweep
from bendybus.partition_server.state.message_lock import HeldLock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, SLOT_SHIFT, State, Summary


def expire(turn: Turn, queue: MessageQueue, id_: int, state: int, size_bytes: int) -> None:
    """End a message whose time to live is over."""
    if queue.entity.description.dead_lettering_on_message_expiration:
        envelope = dead_letter.envelope_of(turn, queue, id_ & COUNTER_MASK)
        if envelope is not None:
            dead_letter.move(
                turn, queue, envelope, dead_letter.TTL_REASON, dead_letter.TTL_DESCRIPTION
            )
        return
    turn.budget.spend(size_bytes, rows=0)
    turn.stage.remove(queue, id_, state, size_bytes)
    turn.stage.lose(queue, id_ & COUNTER_MASK)
    dead_letter.forget_update(turn, id_)


def sweep(turn: Turn) -> None:
    """Expire what is due, in the order of time."""
    partition, stage, now_ms = turn.partition, turn.stage, turn.now.wall_ms

    def take(summary: Summary) -> int:
        queue = partition.queues.at(summary.slot)
        lock = None if queue is None else queue.locks.get(summary.counter)
        held = isinstance(lock, HeldLock)
        if queue is None or (lock is not None and not held):
            return 0
        if forward_lanes.in_doubt(partition, queue, summary.counter):
            return 0
        if is_paused(partition, queue):
            return 0
        expire(turn, queue, summary.id, summary.state, summary.size_bytes)
        if summary.state == State.DEFERRED:
            # It was in use as long as it held this.
            queue.used(turn.now)
        if held:
            stage.unlock(queue, summary.counter)
            delays.end(turn, queue, summary.counter)
        elif not summary.state:
            stage.touch(queue, counts=False).vanished.append(summary.counter)
        return 0

    rows, due = turn.budget.rows_left, partition.due
    summaries = partition.store.expiring(now_ms, due.expired_to, rows)
    done, cursor = browse.through(turn, Sweep.EXPIRY, summaries, due.expired_to, take)
    following: int | None = now_ms
    if done and len(summaries) < rows:
        cursor, following = (now_ms, LAST_ID), partition.store.next_expiry(now_ms)
    due.expired(cursor, following)


def is_paused(partition: PartitionState, queue: MessageQueue) -> bool:
    """Whether nothing expires for now: what a data pipeline has planned to read stays."""
    return partition.drains.held(queue.state.uid, queue.state.sub_queue) is not None


def expire_returned(turn: Turn, id_: int) -> None:
    """Expire a message that came back, if it is still there, still free and still expired."""
    partition = turn.partition
    queue, found = partition.queues.at(id_ >> SLOT_SHIFT), partition.store.envelope(id_)
    if queue is None or found is None or found.row.counter in queue.locks:
        return
    if forward_lanes.in_doubt(partition, queue, found.row.counter):
        return
    if is_paused(partition, queue):
        return
    row = found.row
    if row.expires_ms is None or row.expires_ms > turn.now.wall_ms or turn.expiry_held:
        # A clock was corrected, and queues are read again since then.
        if row.expires_ms is not None:
            partition.due.expires_at(row.expires_ms)
        return
    expire(turn, queue, id_, row.state, found.size())
    if row.state == State.ACTIVE:
        turn.stage.touch(queue, counts=False).vanished.append(row.counter)
