"""Drains: a data pipeline alone removes the messages of a (sub-)queue, under a lease.

    grant (registrar) ──► epoch ──hold──► every partition: receivers are refused; expiry and
                                          forwarding pause; earlier locks run to their end
                                   │
                       settle ◄────┤  active messages up to a number, or listed ones
                                   │
              release, or its time is over ──► as before

Epochs come from the registrar and rise; a partition obeys the highest that it was told, so the
holder of an earlier one can delete nothing any more.
"""

from typing import Final

from bendybus.domain import bounds, errors, forwarding, limits, message_access, sequence_number
from bendybus.domain.message_access import Access
from bendybus.partition_server.rules import defer, delays, partition_range, room
from bendybus.partition_server.state.answers import AskRefused
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.drains import Drain
from bendybus.partition_server.state.message_lock import HeldLock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.pipeline_commands import (
    DrainAction,
    Drained,
    DrainEntity,
    RangeSettled,
    SettleRange,
)
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Lease, State, row_id

# How many drains a partition may have missed, because it was away or was restored: more than there
# ever are, and far fewer than there are epochs.
EPOCHS_AHEAD_MAX: Final = 1 << 32
# The duration in the file of a lease whose time is over; 0 would say that its owner ended it.
OVER_MS: Final = 1


def check_receives(partition: PartitionState, queue: MessageQueue) -> None:
    """Raise what refuses receives from a queue: its status, forwarding, or a drain."""
    room.check_receives(queue.entity, queue.state.sub_queue)
    check_removes(partition, queue)


def check_removes(partition: PartitionState, queue: MessageQueue) -> None:
    """Raise EntityDrained where a data pipeline alone removes messages."""
    held = partition.drains.held(queue.state.uid, queue.state.sub_queue)
    if held is not None:
        raise _drained(queue.entity.title, held.lease)


def _drained(title: str, lease: Lease) -> errors.EntityDrained:
    return errors.EntityDrained(
        f"{title} is drained by the data pipeline {lease.owner!r}, which alone removes its "
        "messages. Receive from another subscription, or stop the pipeline: its lease then ends "
        f"within {lease.duration_ms / 1_000:g} s.",
        retry_after_ms=limits.DRAIN_MS_MIN,
        metadata={"owner": lease.owner},
    )


def drain(turn: Turn, command: DrainEntity) -> Drained:
    """Grant, hold or release a lease. Raises EntityDrained, DrainLeaseLost, InvalidOperation."""
    partition = turn.partition
    entity = partition.catalogue.resolve(command.entity)
    message_access.check(entity, Access.RECEIVE)
    forwarding.check_receives(entity, command.entity.sub_queue)
    bounds.check_text("owner", command.owner, limits.DRAIN_OWNER_CHARS_MAX)
    if not command.owner:
        raise errors.InvalidArgument("owner", "must not be empty: it names the data pipeline.")
    bounds.check_number("duration", command.duration_ms, limits.DRAIN_MS_MAX, limits.DRAIN_MS_MIN)
    bounds.check_number("epoch", command.epoch, bounds.NUMBER_MAX)
    if command.action is DrainAction.GRANT:
        return _grant(turn, command)
    if command.action is DrainAction.HOLD:
        return _hold(turn, command)
    return _release(turn, command)


def _grant(turn: Turn, command: DrainEntity) -> Drained:
    """Return the next epoch, at the registrar, if no other owner has the lease."""
    partition, ref = turn.partition, command.entity
    if partition.index != 0:
        raise errors.InvalidOperation("only partition 0, the registrar, grants drains.")
    held = partition.drains.held(ref.uid, ref.sub_queue)
    if held is not None and held.lease.owner != command.owner:
        entity = partition.catalogue.resolve(ref)
        raise _drained(entity.title, held.lease)
    known = partition.drains.known((ref.uid, ref.sub_queue))
    _check_epoch(command, known)
    # Others may know a later one than a registrar that was restored.
    epoch = 1 + max(command.epoch, 0 if known is None else known.epoch)
    _write(turn, _lease(command, epoch, command.duration_ms))
    return Drained(epoch)


def _hold(turn: Turn, command: DrainEntity) -> Drained:
    partition, ref = turn.partition, command.entity
    known = partition.drains.known((ref.uid, ref.sub_queue))
    if known is not None and _is_later(known, command):
        raise lost(command.epoch, known)
    if partition.index == 0 and (known is None or known.epoch < command.epoch):
        # The entity was made again since it was granted, or the registrar restored.
        raise lost(command.epoch, known)
    _check_epoch(command, known)
    lease = _lease(command, command.epoch, command.duration_ms)
    held = partition.drains.held(ref.uid, ref.sub_queue)
    if held is not None and held.lease == lease:
        partition.drains.renew(held, turn.now.mono_ms)
    else:
        _write(turn, lease)
    queue = partition.queues.of(ref.uid, ref.sub_queue)
    if queue is None:
        # The registrar, of an entity that it has nothing of.
        return Drained(command.epoch)
    partition.note_use(queue, turn.now)
    return Drained(command.epoch, locked(queue))


def _is_later(known: Lease, command: DrainEntity) -> bool:
    """Whether the known lease is a later one, or another owner's, or was ended by its owner."""
    if known.epoch != command.epoch:
        return known.epoch > command.epoch
    return known.owner != command.owner or not known.duration_ms


def locked(queue: MessageQueue) -> int:
    """Return how many messages receivers have locked."""
    return sum(1 for lock in queue.locks.values() if not isinstance(lock, HeldLock))


def _release(turn: Turn, command: DrainEntity) -> Drained:
    partition, ref = turn.partition, command.entity
    known = partition.drains.known((ref.uid, ref.sub_queue))
    if known is None or (known.epoch, known.owner) != (command.epoch, command.owner):
        return Drained(0 if known is None else known.epoch)
    if known.duration_ms:
        held = partition.drains.held(ref.uid, ref.sub_queue)
        _write(turn, known._replace(duration_ms=0))
        if held is not None:
            turn.stage.journal.later(_ended, partition, held, turn.now)
    return Drained(known.epoch)


def _lease(command: DrainEntity, epoch: int, duration_ms: int) -> Lease:
    ref = command.entity
    return Lease(ref.uid, ref.sub_queue, epoch, command.owner, duration_ms)


def _check_epoch(command: DrainEntity, known: Lease | None) -> None:
    """Raise InvalidArgument for an epoch that was never granted: none could follow the last one."""
    last = 0 if known is None else known.epoch
    if command.epoch > last + EPOCHS_AHEAD_MAX:
        raise errors.InvalidArgument(
            "epoch",
            f"{command.epoch} was never granted. Renew a lease with the epoch that it was acquired "
            "with.",
        )


def _write(turn: Turn, lease: Lease) -> None:
    partition, stage = turn.partition, turn.stage
    stage.changes.leases.append(lease)
    stage.journal.later(partition.drains.put, lease, turn.now.mono_ms)
    queue = partition.queues.of(lease.uid, lease.sub_queue)
    if queue is not None and lease.duration_ms:
        stage.journal.later(_refuse_asks, turn, queue, lease)


def _refuse_asks(turn: Turn, queue: MessageQueue, lease: Lease) -> None:
    """Refuse what receivers wait for."""
    error = _drained(queue.entity.title, lease)
    for stream, ask_id in list(queue.asks):
        queue.close_ask((stream, ask_id), turn.now)
        turn.partition.streams.ask_closed(stream, ask_id)
        turn.stage.answers.append(Answer(stream, AskRefused(ask_id, error)))


def lost(epoch: int, known: Lease | None) -> errors.DrainLeaseLost:
    """Return the error for a lease that its caller no longer has."""
    if known is not None and known.epoch > epoch:
        why = f"epoch {known.epoch} of {known.owner!r} follows it"
    else:
        why = "its time is over, or it was ended"
    return errors.DrainLeaseLost(
        f"the lease of this drain (epoch {epoch}) is lost: {why}. Nothing is deleted under it. "
        "Run one data pipeline a queue or subscription, or start this one again to take the lease.",
        metadata={"epoch": str(0 if known is None else known.epoch)},
    )


# Under the lease


def settle(turn: Turn, command: SettleRange) -> RangeSettled:
    """Delete active messages up to a counter, or those listed; what is gone already is no error.

    Raises DrainLeaseLost, and InvalidOperation while receivers have messages locked, or where
    sequence numbers were reset.
    """
    partition, ref = turn.partition, command.entity
    queue = partition.find(ref, turn.now)
    if command.incarnation not in ("", partition_range.incarnation(turn, queue)):
        raise errors.InvalidOperation(
            f"{queue.entity.title}: the sequence numbers of partition {partition.index} were "
            "reset: the entity was recreated or restored. Nothing is deleted; read "
            "it from its beginning.",
            metadata={"entity": queue.entity.name, "partition": str(partition.index)},
        )
    held = partition.drains.held(ref.uid, ref.sub_queue)
    if held is None or held.lease.epoch != command.epoch:
        raise lost(command.epoch, partition.drains.known((ref.uid, ref.sub_queue)))
    if locked(queue):
        raise errors.InvalidOperation(
            f"{queue.entity.title}: receivers have {locked(queue)} messages locked in partition "
            f"{partition.index}. Wait until the lease is ready there.",
            metadata={"entity": queue.entity.name, "partition": str(partition.index)},
        )
    if command.counters:
        return _settle_listed(turn, queue, command)
    bounds.check_number("upto", command.upto, sequence_number.COUNTER_MAX)
    return _settle_up_to(turn, queue, held, command.upto)


def _settle_listed(turn: Turn, queue: MessageQueue, command: SettleRange) -> RangeSettled:
    defer.check(queue, command.counters, limits.RANGE_NUMBERS_MAX)
    budget, deleted = turn.budget, 0
    for counter in sorted(set(command.counters)):
        if deleted and budget.spent():
            # A repeat finds no more than the others.
            return RangeSettled(deleted, more=True)
        found = turn.partition.store.envelope(row_id(queue.slot, counter))
        if found is not None and found.row.state == State.ACTIVE:
            _remove(turn, queue, counter, found.size())
            budget.spend(found.size())
            deleted += 1
    return RangeSettled(deleted)


def _settle_up_to(turn: Turn, queue: MessageQueue, held: Drain, upto: int) -> RangeSettled:
    budget, deleted = turn.budget, 0
    after = held.settled_to
    # What is not active stays, and is not looked at again.
    summaries = turn.partition.store.summaries(queue.slot, after + 1, upto, budget.rows_left)
    more = len(summaries) == budget.rows_left
    for index, summary in enumerate(summaries):
        if index and budget.spent():
            more = True
            break
        after = summary.counter
        if summary.state == State.ACTIVE:
            _remove(turn, queue, summary.counter, summary.size_bytes)
            deleted += 1
        budget.spend(summary.size_bytes)
    turn.stage.journal.later(setattr, held, "settled_to", after)
    return RangeSettled(deleted, more)


def _remove(turn: Turn, queue: MessageQueue, counter: int, size_bytes: int) -> None:
    stage = turn.stage
    stage.remove(queue, row_id(queue.slot, counter), State.ACTIVE, size_bytes)
    if counter in queue.locks:
        # Only of a delay; see `locked`.
        stage.unlock(queue, counter)
        delays.end(turn, queue, counter)
    else:
        stage.touch(queue, counts=False).vanished.append(counter)


# The end of a lease


def sweep(turn: Turn) -> None:
    """Let leases be over whose time is; what paused goes on."""
    for held in turn.partition.drains.over(turn.now.mono_ms):
        # Else the next opening would hold it again for its whole duration.
        turn.stage.changes.leases.append(held.lease._replace(duration_ms=OVER_MS))
        turn.stage.journal.later(_ended, turn.partition, held, turn.now)


def _ended(partition: PartitionState, held: Drain, now: Now) -> None:
    """Let expiry and forwarding go on."""
    partition.drains.end(held)
    first = partition.store.next_expiry(-1)
    if first is not None and first <= now.wall_ms:
        partition.due.expires_at(first)
    partition.forwards.note_all()
