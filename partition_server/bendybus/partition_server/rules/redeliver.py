"""The end of a lock without a settlement: the message can be received again, or no more.

abandoned ──► delivery count + 1 (`delays`)   ─┐
lock ended ──► + 1 if the client had it        ├─► ready, or at MaxDeliveryCount or past its time:
only reserved ──► uncounted (`receive`)       ─┘   dead-lettered or dropped
deferred ──► + 1 (`defer`) ──────────────────────► deferred, or the same

A dead letter counts its deliveries as well, and is never delivered too often. Sources:
deferredMessage.spec.ts, a live test of the SDK for JavaScript (0; deferred 1; deferred or abandoned
again 2; dead-lettered unchanged; with sessions and without). TestMessageSettlementUsingReceiver of
Go expects that an abandoned dead letter keeps its count; programs here rely on the opposite.
"""

from collections.abc import Sequence
from functools import partial

from bendybus.domain import limits
from bendybus.partition_server.rules import application_properties, dead_letter, delays, expire
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_lock import HeldLock, Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import RowUpdate, row_id


def end_due(turn: Turn, queue: MessageQueue) -> bool:
    """End the locks of a queue whose time is over, within the budget.

    Returns False if one could not be ended, which is noted; see `Turn.attempt`.
    """
    budget, now_ms, well = turn.budget, turn.now.mono_ms, True
    ended = queue.lock_ended(now_ms, budget.rows_left)
    for index, (counter, lock) in enumerate(ended):
        if index and budget.spent():
            _watch_again(queue, ended[index:])
            break
        end = partial(end_lock, turn, queue, counter, lock)
        failed = turn.attempt(Sweep.LOCK_ENDS.name, queue.entity.name, end)
        if failed is not None:
            well = False
            _watch_again(queue, [(counter, lock)])
        budget.spend()
    return well


def _watch_again(queue: MessageQueue, ended: Sequence[tuple[int, Lock]]) -> None:
    """Note locks that are still to be ended: due at once."""
    entries = [(counter, lock.generation) for counter, lock in ended]
    if ended:
        queue.watch_lock(ended[0][1].until_mono_ms, entries)


def end_lock(turn: Turn, queue: MessageQueue, counter: int, lock: Lock) -> None:
    """End a lock whose time is over: a delivery, if the client had the message."""
    turn.stage.unlock(queue, counter)
    if isinstance(lock, HeldLock):
        delays.end(turn, queue, counter)
    if lock.delivered:
        changed = application_properties.of_locked(turn, queue, counter, lock)
        count_delivery(turn, queue, counter, lock, changed)
    else:
        give_back(turn, queue, counter, lock, lock.size_bytes)


def count_delivery(
    turn: Turn,
    queue: MessageQueue,
    counter: int,
    lock: Lock,
    changed: bytes | None,
    *,
    delay_ms: int = 0,
) -> None:
    """Make a failed delivery durable and let the message be received again, or not."""
    count = next_count(lock)
    if is_exhausted(queue, count):
        dead_letter_exhausted(turn, queue, counter, count, changed)
        return
    added_bytes = update(turn, queue, counter, lock, int(lock.deferred), count, changed)
    if delay_ms:
        delays.hold(turn, queue, counter, lock, lock.size_bytes + added_bytes, delay_ms)
    else:
        give_back(turn, queue, counter, lock, lock.size_bytes + added_bytes)


def next_count(lock: Lock) -> int:
    """Return the delivery count of a message after one more delivery."""
    return min(lock.delivery_count + 1, limits.DELIVERY_COUNT_STORED_MAX)


def is_exhausted(queue: MessageQueue, count: int) -> bool:
    """Whether a message is not delivered again after so many deliveries."""
    return count >= queue.entity.description.max_delivery_count and not queue.is_dead_letter


def dead_letter_exhausted(
    turn: Turn, queue: MessageQueue, counter: int, count: int, changed: bytes | None
) -> None:
    """Dead-letter a message that was delivered often enough, and is not locked any more."""
    envelope = dead_letter.envelope_of(turn, queue, counter)
    if envelope is not None:
        dead_letter.move(
            turn,
            queue,
            envelope._replace(row=envelope.row._replace(delivery_count=count)),
            dead_letter.DELIVERIES_REASON,
            f"Message could not be consumed after {count} delivery attempts.",
            changed=changed,
        )


def update(
    turn: Turn,
    queue: MessageQueue,
    counter: int,
    lock: Lock,
    state: int,
    count: int,
    changed: bytes | None,
) -> int:
    """Write what changes of a message that stays; return what is added to its size."""
    turn.stage.touch(queue)
    added_bytes = len(changed or b"") - lock.changed_bytes
    # The whole message is written again.
    turn.budget.spend(lock.size_bytes + added_bytes, rows=0)
    queue.state.size_bytes += added_bytes
    id_ = row_id(queue.slot, counter)
    turn.stage.changes.updates.append(RowUpdate(id_, state, count, changed, added_bytes))
    return added_bytes


def give_back(turn: Turn, queue: MessageQueue, counter: int, lock: Lock, size_bytes: int) -> None:
    """Return a message to its place in the queue, unless its time to live is over by now.

    During a drain it stays then: when the drain ends, everything that expired is looked at.
    """
    if lock.expires_ms is not None and not expire.is_paused(turn.partition, queue):
        if lock.expires_ms <= turn.now.wall_ms and not turn.expiry_held:
            id_ = row_id(queue.slot, counter)
            if turn.budget.spent():
                turn.partition.unfinished.expire_later(turn.stage, id_)
            else:
                expire.expire(turn, queue, id_, int(lock.deferred), size_bytes)
            return
        # Expiry may have passed over it while it was locked.
        turn.partition.due.expires_at(lock.expires_ms)
    if not lock.deferred:
        turn.stage.touch(queue, counts=False).returned.append((counter, lock))
