"""Messages that are abandoned with a delay: each waits before it can be received again.

    locked ──abandon, with a delay──► held ──time over──► ready; the delivery counted already
                                       └──purged, or its queue deleted──► gone

It stays where it is, as an active message, under a lock that no receiver has the token of. Until
when is in the file: a restart holds it again.
"""

from collections.abc import Sequence

from bendybus.domain import bounds, errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import shares
from bendybus.partition_server.state.commands import Now, Settle
from bendybus.partition_server.state.message_lock import HeldLock, Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.ready_set import ReadyWindow
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, SLOT_SHIFT, Delay, row_id


def check(command: Settle) -> None:
    """Raise InvalidArgument for a delay that no settlement can have."""
    bounds.check_number("delay", command.delay_ms, limits.ABANDON_DELAY_MS_MAX)
    if command.disposition is not Disposition.ABANDON:
        raise errors.InvalidArgument("delay", "is only valid for an abandon.")


def check_message(turn: Turn, queue: MessageQueue, lock: Lock) -> None:
    """Raise what refuses to hold a message."""
    entity = queue.entity
    if isinstance(queue, SessionQueue):
        raise errors.InvalidOperation(
            f"{entity.title}: `delay` is not supported on session-enabled entities. Abandon "
            "without one.",
            metadata={"entity": entity.name},
        )
    if lock.deferred:
        raise errors.InvalidOperation(
            f"{entity.title}: deferred messages are received by sequence number only, and "
            "cannot be abandoned with a delay. Abandon without one.",
            metadata={"entity": entity.name},
        )
    places, user = turn.partition.held.places, shares.user_of(entity)
    if not places.has_room(user, 1, limits.DELAYED_MESSAGES_MAX):
        raise errors.ServerBusy(
            f"{entity.title}: {places.of(user)} of its messages wait in partition "
            f"{turn.partition.index} because they were abandoned with a delay, its share of "
            f"{limits.DELAYED_MESSAGES_MAX}. Abandon without one, or wait.",
            retry_after_ms=10_000,
            metadata={"entity": entity.name},
        )


def hold(
    turn: Turn, queue: MessageQueue, counter: int, lock: Lock, size_bytes: int, delay_ms: int
) -> None:
    """Hold a message, which is not locked any more, for a time."""
    now, id_ = turn.now, row_id(queue.slot, counter)
    # Its lock goes when the one that it had comes back.
    _hold(turn.partition, queue, counter, now.mono_ms + delay_ms, size_bytes, lock.expires_ms)
    turn.stage.changes.delays.append(Delay(id_, now.wall_ms + delay_ms))


def end(turn: Turn, queue: MessageQueue, counter: int) -> None:
    """Note that a message, whose lock is taken away, is held no more; until now it was a use."""
    queue.used(turn.now)
    turn.stage.changes.delays_ended.append(row_id(queue.slot, counter))
    turn.partition.held.add(queue, -1)


def restore(partition: PartitionState, delays: Sequence[Delay], now: Now) -> None:
    """Hold messages again that were held when the file was last in use."""
    for delay in delays:
        queue = partition.queues.at(delay.id >> SLOT_SHIFT)
        envelope = partition.store.envelope(delay.id)
        if queue is None or envelope is None:
            # Its queue is being deleted.
            continue
        # A wall clock that jumped must not hold a message for longer than any can be.
        left_ms = min(max(0, delay.until_ms - now.wall_ms), limits.ABANDON_DELAY_MS_MAX)
        until_ms = now.mono_ms + left_ms
        counter, row = delay.id & COUNTER_MASK, envelope.row
        _hold(partition, queue, counter, until_ms, envelope.size(), row.expires_ms)
        assert isinstance(queue.ready, ReadyWindow), "messages of sessions have no delay"
        queue.ready.expect_locked(counter)


def _hold(
    partition: PartitionState,
    queue: MessageQueue,
    counter: int,
    until_mono_ms: int,
    size_bytes: int,
    expires_ms: int | None,
) -> None:
    generation = partition.next_generation()
    queue.locks[counter] = HeldLock(
        generation,
        until_mono_ms,
        stream=None,
        delete=False,
        # What is over is not counted again.
        delivered=False,
        deferred=False,
        delivery_count=0,
        size_bytes=size_bytes,
        expires_ms=expires_ms,
        changed_bytes=0,
    )
    queue.watch_lock(until_mono_ms, [(counter, generation)])
    partition.due.lock_ends.add(until_mono_ms, queue.slot)
    partition.held.add(queue)
