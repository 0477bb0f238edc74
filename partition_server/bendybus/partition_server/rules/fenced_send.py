"""Sends with a fence: what a producer repeats, after whatever died, is stored once.

A producer numbers its messages within an epoch (a batch of a data pipeline) and sends those for
one partition in order. The partition keeps the epoch and the number of the last one that it stored,
in the commit that stores it: one row a producer, however much it sends.
"""

import itertools
from functools import partial

from bendybus.domain import bounds, errors, limits
from bendybus.domain.message_access import Access
from bendybus.partition_server.rules import send
from bendybus.partition_server.state import shares
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.pipeline_commands import (
    FencedStored,
    FenceRead,
    GetFence,
    SendFenced,
)
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Fence


def checked(turn: Turn, command: SendFenced) -> MessageQueue:
    """Return where a frame goes. Raises what `send.target` does, and what is wrong with it."""
    queue = send.target(turn, command.entity)
    _check(command)
    return queue


def store(turn: Turn, command: SendFenced, queue: MessageQueue) -> FencedStored | Failed:
    """Store what is above the fence, all of it or nothing.

    Raises ProducerFenced for an earlier epoch, and what refuses a send.
    """
    if not command.batch.payloads:
        return _move(turn, command, queue)
    repeated = begin(turn, command, queue)
    if repeated == len(command.ordinals):
        return FencedStored(0, repeated, 0)
    rest = fresh(command, repeated)
    mark = turn.mark()
    outcome = send.Appender(turn, queue).run(rest)
    return move_fence(turn, command, queue, mark, outcome)


def _move(turn: Turn, command: SendFenced, queue: MessageQueue) -> FencedStored:
    """Move the fence forward and store nothing; or, with `replace`, anywhere within its epoch.

    So of equal ordinals the first one of an epoch has it. Raises what `begin` does.
    """
    known = _found(turn, queue, command)
    place = (command.epoch, command.ordinals[0])
    if known is not None and place <= (known.epoch, known.ordinal) and not command.replace:
        return FencedStored(0, 1, 0)
    _check_stores(turn, command, queue, known)
    _write(turn, command, queue)
    return FencedStored(0, 0, 0)


def begin(turn: Turn, command: SendFenced, queue: MessageQueue) -> int:
    """Return how many messages of a frame, from the first on, are stored already.

    Raises ProducerFenced for an earlier epoch, and what refuses a send.
    """
    known = _found(turn, queue, command)
    repeated = 0
    if known is not None and known.epoch == command.epoch:
        repeated = sum(1 for ordinal in command.ordinals if ordinal <= known.ordinal)
    if repeated < len(command.ordinals):
        _check_stores(turn, command, queue, known)
    return repeated


def _found(turn: Turn, queue: MessageQueue, command: SendFenced) -> Fence | None:
    """Return how far the producer came. Raises ProducerFenced for an earlier epoch."""
    known = _known(turn, queue, command.producer_id)
    if known is not None and known.epoch > command.epoch:
        raise errors.ProducerFenced(
            f"{queue.entity.title}: the producer is at epoch {known.epoch}; messages of "
            f"epoch {command.epoch} are rejected. Stop the earlier attempt.",
            metadata={"epoch": str(known.epoch)},
        )
    return known


def _check_stores(
    turn: Turn, command: SendFenced, queue: MessageQueue, known: Fence | None
) -> None:
    """Raise what refuses a send, and another producer."""
    send.check_sends(turn, queue, command.deadline_mono_ms)
    if known is None:
        _check_room(turn, queue)


def fresh(command: SendFenced, repeated: int) -> Append:
    """Return what is to be stored, each message as a group of its own."""
    count, batch = len(command.ordinals), command.batch
    if repeated:
        batch = batch.chosen(range(repeated, count))
    return Append(
        command.reply_to,
        command.entity,
        batch,
        [1] * (count - repeated),
        deadline_mono_ms=command.deadline_mono_ms,
    )


def move_fence(
    turn: Turn, command: SendFenced, queue: MessageQueue, mark: int, outcome: Appended
) -> FencedStored:
    """Move the fence in the commit of what was appended since a mark; or take that back.

    Raises what refuses a message.
    """
    if outcome.failures:
        # Nothing of it: the fence would pass over what was refused.
        turn.take_back_to(mark)
        raise outcome.failures[0][1]
    _write(turn, command, queue)
    count, duplicates = len(outcome.numbers), sum(outcome.duplicates)
    return FencedStored(count - duplicates, len(command.ordinals) - count, duplicates)


def _write(turn: Turn, command: SendFenced, queue: MessageQueue) -> None:
    if _known(turn, queue, command.producer_id) is None:
        turn.partition.fence_places.add(_user(queue))
    # The fence is by slot: without a message, too, that must be the queue's after a restart.
    turn.stage.touch(queue)
    turn.stage.changes.fences_before_ms = _forgotten_before_ms(turn)
    turn.stage.changes.fences.append(
        Fence(
            queue.slot,
            command.producer_id,
            command.epoch,
            command.ordinals[-1],
            command.mark,
            turn.now.wall_ms,
        )
    )


def _known(turn: Turn, queue: MessageQueue, producer_id: bytes) -> Fence | None:
    """Return how far a producer came, with what this turn stores."""
    for each in reversed(turn.stage.changes.fences):
        if (each.slot, each.producer_id) == (queue.slot, producer_id):
            return each
    return turn.partition.store.pipelines.fence(queue.slot, producer_id)


def read(turn: Turn, command: GetFence) -> FenceRead:
    """Return how far a producer came. Raises what `find` does."""
    queue = turn.partition.find(command.entity, turn.now, Access.SEND)
    _check_producer(command.producer_id)
    found = turn.partition.store.pipelines.fence(queue.slot, command.producer_id)
    return FenceRead() if found is None else FenceRead(found.epoch, found.ordinal, found.mark)


def _check(command: SendFenced) -> None:
    _check_producer(command.producer_id)
    bounds.check_number("epoch", command.epoch, bounds.NUMBER_MAX, 1)
    bounds.check_number("deadline", command.deadline_mono_ms, bounds.NUMBER_MAX)
    bounds.check_number("mark", len(command.mark), limits.FENCE_MARK_BYTES_MAX)
    ordinals, count = command.ordinals, len(command.batch.payloads)
    if count or not ordinals:
        send.check_shape(command.batch, ())
    if command.replace and count:
        raise errors.InvalidArgument("replace", "is only valid for a call without messages.")
    if len(ordinals) != max(1, count):
        raise errors.InvalidArgument(
            "ordinals", f"has {len(ordinals)} entries for {count} messages."
        )
    # 0: the next attempt starts over.
    least = 0 if command.replace else 1
    bounds.check_number("ordinals", ordinals[0], bounds.NUMBER_MAX, least)
    bounds.check_number("ordinals", ordinals[-1], bounds.NUMBER_MAX, least)
    if any(later <= earlier for earlier, later in itertools.pairwise(ordinals)):
        raise errors.InvalidArgument("ordinals", "must be strictly increasing.")
    content = command.batch.content_bytes()
    if count > 1 and content > limits.FENCED_BYTES_MAX:
        raise errors.InvalidArgument(
            "batch",
            f"a call takes at most {limits.FENCED_BYTES_MAX} bytes (got {content}). "
            "Send fewer messages at a time.",
        )


def _check_producer(producer_id: bytes) -> None:
    if len(producer_id) != limits.FENCE_PRODUCER_BYTES:
        raise errors.InvalidArgument(
            "producer_id",
            f"must be {limits.FENCE_PRODUCER_BYTES} bytes (got {len(producer_id)}).",
        )


def _forgotten_before_ms(turn: Turn) -> int:
    """Return the time before which producers are forgotten; 0, if the clock is in doubt."""
    return 0 if turn.expiry_held else max(0, turn.now.wall_ms - limits.FENCE_MS)


def _check_room(turn: Turn, queue: MessageQueue) -> None:
    """Raise QuotaExceeded where too many producers of an entity are remembered, without old ones.

    None is forgotten for another one: what it repeats would be stored twice.
    """
    partition, most = turn.partition, limits.FENCES_MAX
    known = partition.fence_places
    if not turn.stage.changes.fences:
        known.count_again(
            partial(partition.store.pipelines.fence_counts, _forgotten_before_ms(turn)),
            lambda slot: _user(partition.queues.at(slot)),
            turn.now.mono_ms,
        )
    places, user = known.places, _user(queue)
    if not places.has_room(user, 1, most):
        raise errors.QuotaExceeded(
            f"{queue.entity.title}: partition {partition.index} remembers {places.of(user)} "
            f"producers of its data pipelines, its share of {most}, each for "
            f"{limits.FENCE_MS // limits.DAY_MS} days after its last message. Use one "
            "idempotency key a pipeline, not one a run.",
            metadata={"entity": queue.entity.name, "partition": str(partition.index)},
        )


def _user(queue: MessageQueue | None) -> str:
    """Return who has the fences of a queue; those of deleted queues are one user's."""
    return "" if queue is None else shares.user_of(queue.entity)
