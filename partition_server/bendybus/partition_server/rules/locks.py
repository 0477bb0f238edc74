"""Locks: how messages are locked for a receiver, and how a lock token leads to its lock.

`sweep` ends those whose time is over: of messages, and of sessions with all of theirs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from bendybus.domain import errors, lock_token
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import redeliver, session_locks
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_lock import Lock, OpenAsk
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import SessionMessageLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, Row, SlotState

# Where tokens of other partitions and of deleted queues lead: no locks.
NO_QUEUE: Final = MessageQueue(SlotState(0, ""), cast(Any, None))


def lock(
    partition: PartitionState,
    queue: MessageQueue,
    rows: Sequence[Row],
    now: Now,
    *,
    ask: OpenAsk | None,
) -> Delivery:
    """Lock messages for an ask (reserved until they are delivered), or deferred ones for a call."""
    lasts_ms = queue.entity.description.lock_duration_ms
    until_ms = now.mono_ms + lasts_ms
    generation, locks = partition.lock_generation, queue.locks
    generations: list[int] = []
    stream = ask.stream if ask else None
    delete, deferred = bool(ask and ask.delete), ask is None
    counters = [row.id & COUNTER_MASK for row in rows]
    for row, counter in zip(rows, counters, strict=True):
        generation = generation + 1 & lock_token.GENERATION_MASK
        generations.append(generation)
        locks[counter] = Lock(
            generation,
            until_ms,
            stream,
            delete,
            deferred,
            deferred,
            row.delivery_count,
            row.size(),
            row.expires_ms,
            len(row.changed_properties or b""),
        )
    partition.lock_generation = generation
    queue.watch_lock(until_ms, list(zip(counters, generations, strict=True)))
    partition.due.lock_ends.add(until_ms, queue.slot)
    if ask is not None:
        partition.streams.reserved(stream, queue.slot)
    return Delivery(
        queue.slot, queue.base, rows, generations, now.wall_ms + lasts_ms, lasts_ms, partition.boot
    )


def unlock(queue: MessageQueue, counters: Sequence[int]) -> None:
    """Take back what `lock` did, or began."""
    for counter in counters:
        queue.locks.pop(counter, None)


def still_locked(partition: PartitionState, delivery: Delivery, now: Now) -> Delivery | None:
    """Return a delivery as it is now; None if a lock of it is over."""
    if not delivery.generations:
        return delivery
    queue = partition.queues.at(delivery.slot)
    if queue is None:
        return None
    left_ms = queue.entity.description.lock_duration_ms
    for row, generation in zip(delivery.rows, delivery.generations, strict=True):
        held = queue.locks.get(row.id & COUNTER_MASK)
        if held is None or held.generation != generation:
            return None
        ends = held.session if isinstance(held, SessionMessageLock) else held
        if ends.until_mono_ms <= now.mono_ms:
            return None
        left_ms = min(left_ms, ends.until_mono_ms - now.mono_ms)
    return replace(delivery, locked_until_ms=now.wall_ms + left_ms, lock_remaining_ms=left_ms)


def find(
    partition: PartitionState, tokens: bytes, now: Now, entity_uid: str = ""
) -> Iterator[tuple[MessageQueue, int, Lock | None]]:
    """Yield (queue, counter, lock) per token; no lock where it is lost or another entity's."""
    now_ms = now.mono_ms
    boot = partition.boot & lock_token.BOOT_MASK
    known, queue = -1, NO_QUEUE
    for high, low in lock_token.words(tokens):
        where = high >> 24
        if where != known:
            known, queue = where, _queue_of(partition, where, now, entity_uid)
        counter = (high & 0xFFFFFF) << 24 | low >> 40
        held = queue.locks.get(counter)
        if (
            held is not None
            and held.generation == low & lock_token.GENERATION_MASK
            and low >> 24 & lock_token.BOOT_MASK == boot
            # One of a session lasts as long as that of the session.
            and (held.session if isinstance(held, SessionMessageLock) else held).until_mono_ms
            > now_ms
        ):
            yield queue, counter, held
        else:
            yield queue, counter, None


def lost() -> BusError:
    """Return the error for a token that leads to no lock (any more)."""
    return errors.MessageLockLost(
        "the lock on the message is lost: it expired, the message was already settled, or the "
        "partition was restarted. The message, if still there, will be delivered again."
    )


def _queue_of(partition: PartitionState, where: int, now: Now, entity_uid: str) -> MessageQueue:
    """Return the queue of a token's partition and slot, one without locks if there is none."""
    if where >> 24 != partition.index:
        return NO_QUEUE
    queue = partition.queues.at(where & 0xFFFFFF)
    if queue is None or (entity_uid and queue.entity.uid != entity_uid):
        return NO_QUEUE
    partition.note_use(queue, now)
    return queue


def sweep(turn: Turn) -> None:
    """End locks whose time is over."""
    partition, budget, now_ms = turn.partition, turn.budget, turn.now.mono_ms
    ends = partition.due.lock_ends
    while (first := ends.first()) and first[0] <= now_ms and not budget.spent():
        slot = first[1]
        queue = partition.queues.at(slot)
        if queue is None:
            ends.replace(slot, None)
            continue
        ended = _end_due(turn, queue)
        budget.spend()
        if ended:
            ends.replace(slot, queue.next_lock_end())
        else:
            pause_ms = partition.faults.pause_ms((Sweep.LOCK_ENDS, slot), now_ms)
            ends.replace(slot, now_ms + pause_ms)


def _end_due(turn: Turn, queue: MessageQueue) -> bool:
    """End locks of one queue; return False if one of them raised."""
    if not isinstance(queue, SessionQueue):
        return bool(_watched(queue, partial(redeliver.end_due, turn, queue)))
    end = partial(_watched, queue, partial(session_locks.end_due, turn, queue))
    return turn.attempt(Sweep.LOCK_ENDS.name, queue.entity.name, end) is None


def _watched(queue: MessageQueue, end: Callable[[], bool | None]) -> bool | None:
    """End locks; if that raises, look at all of the queue again: notes were taken for it."""
    try:
        return end()
    except BaseException:
        queue.watch_all()
        raise
