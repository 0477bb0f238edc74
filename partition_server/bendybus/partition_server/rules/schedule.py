"""Scheduled messages: each is enqueued when it is due, with a new number, unless it is cancelled.

A sweep is a cursor that goes on where the last one stopped, within the budget of a turn, so that a
million activations are many transactions with other work between them. One that fails is
due again.
"""

from functools import partial

from bendybus.domain import bounds, errors
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.message_access import Access
from bendybus.partition_server.rules import browse, defer, publications, publish, room
from bendybus.partition_server.state import awaiting_room, outcomes
from bendybus.partition_server.state.answers import Done
from bendybus.partition_server.state.commands import CancelScheduled, Now
from bendybus.partition_server.state.due_times import LAST_ID, Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.publications import Held
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import State, Summary, row_id


def cancel(turn: Turn, command: CancelScheduled) -> Done:
    """Delete scheduled messages, all or none; a repeat gets the first outcome.

    Raises MessageNotFound for one that is not scheduled; OutcomeUnknown if it may have been so at a
    first try that is not remembered. A message that is still scheduled was not cancelled.
    """
    operations = turn.partition.operations
    name = outcomes.name_of(command)
    try:
        done = operations.outcome_of(name, command.age_ms, turn.now, Done)
    except errors.OutcomeUnknown:
        try:
            return _cancel(turn, command, name)
        except errors.MessageNotFound:
            # The first try may have cancelled it, or it became active.
            pass
        raise
    return _cancel(turn, command, name) if done is None else done


def _cancel(turn: Turn, command: CancelScheduled, name: bytes) -> Done:
    partition = turn.partition
    queue = partition.find(command.entity, turn.now, Access.SEND)
    defer.check(queue, command.counters, bounds.NUMBERS_A_CALL_MAX)
    summaries: list[Summary] = []
    for counter in dict.fromkeys(command.counters):
        found = partition.store.summaries(queue.slot, counter, counter, 1)
        if not found or found[0].state != State.SCHEDULED:
            # Nothing is looked up after it: a caller may name thousands that are not there.
            advice = "it may be active already"
            raise defer.not_found(partition, queue, counter, "scheduled", advice)
        summaries += found
    done = Done(len(summaries))
    if not command.only_check:
        for summary in summaries:
            turn.stage.remove(queue, summary.id, summary.state, summary.size_bytes)
        turn.remember_operation(name, done)
    return done


def sweep(turn: Turn) -> None:
    """Enqueue messages that are due, each with a new number at the end."""
    partition, now_ms = turn.partition, turn.now.wall_ms

    def take(summary: Summary) -> int:
        queue = partition.queues.at(summary.slot)
        if queue is None:
            return 0
        if queue.entity.kind is EntityKind.TOPIC:
            _publish(turn, queue, summary)
        else:
            _activate(turn, queue, summary)
        return summary.size_bytes

    rows, due = turn.budget.rows_left, partition.due
    summaries = partition.store.activating(now_ms, due.activated_to, rows)
    done, cursor = browse.through(turn, Sweep.ACTIVATION, summaries, due.activated_to, take)
    following: int | None = now_ms
    if done and len(summaries) < rows:
        cursor, following = (now_ms, LAST_ID), partition.store.next_activation(now_ms)
    due.activated(cursor, following)


def _publish(turn: Turn, topic: MessageQueue, summary: Summary) -> None:
    """Publish a message that is due; without room, or behind others, it waits."""
    awaiting, slot = turn.partition.awaiting, topic.slot
    first = not awaiting.waits(slot)
    awaiting.add(slot, summary.id, summary.at_ms)
    if first:
        publications.attempt(turn, _held(slot), lambda turn: _publish_awaiting(turn, topic))


def sweep_awaiting(turn: Turn) -> None:
    """Look for room for what waits in one topic."""
    awaiting = turn.partition.awaiting
    first = awaiting.due.first()
    assert first is not None, "nothing is due"
    held = _held(first[1])
    if turn.partition.publications.holds(held.key) or not publications.attempt(turn, held):
        # It goes on by itself.
        awaiting.look(first[1])


def _held(slot: int) -> Held[bool]:
    return Held(partial(_look, slot=slot), key=(Sweep.AWAITING_ROOM.name, slot), alone=True)


def _look(turn: Turn, slot: int) -> bool:
    """Publish what waits in a topic; return True."""
    partition, now_ms = turn.partition, turn.now.mono_ms
    topic = partition.queues.at(slot)
    if topic is None:
        return True
    failed = turn.attempt(
        Sweep.AWAITING_ROOM.name, topic.entity.name, lambda: _publish_awaiting(turn, topic)
    )
    if failed:
        pause_ms = partition.faults.pause_ms((Sweep.AWAITING_ROOM, slot), now_ms)
        partition.awaiting.due.replace(slot, now_ms + pause_ms)
    return True


def note_room(partition: PartitionState, stage: Stage, now: Now) -> None:
    """Look soon at topics in which something waits, and that shrank."""
    for touched in stage.touched.values():
        queue = touched.queue
        if queue.state.size_bytes >= touched.size_bytes or partition.queues.at(queue.slot) is None:
            continue
        if queue.entity.kind is not EntityKind.QUEUE:
            slot = room.payer_of(partition, queue).slot
            if partition.awaiting.waits(slot):
                partition.awaiting.due.add(now.mono_ms, slot)


def _publish_awaiting(turn: Turn, topic: MessageQueue) -> bool:
    """Publish what waits in a topic, in order, until there is no room or the budget is spent.

    Returns True.
    """
    partition, slot = turn.partition, topic.slot
    awaiting, budget = partition.awaiting, turn.budget
    # First: what follows may let it be looked at again.
    awaiting.look(slot)
    for index, id_ in enumerate(awaiting.ids(slot)):
        if index and budget.spent():
            awaiting.due.replace(slot, turn.now.mono_ms)
            return True
        if not _publish_one(turn, topic, id_):
            awaiting.no_room(slot, turn.now.mono_ms)
            return True
        awaiting.remove(slot, id_)
        topic.used(turn.now)
        budget.spend()
    first = awaiting.beyond(slot)
    if first is not None:
        _know_more(turn, slot, first)
    return True


def _publish_one(turn: Turn, topic: MessageQueue, id_: int) -> bool:
    """Publish a message that waits, if it is still there; return False if there is no room for it.

    One that raises is passed over for a while.
    """
    found = turn.partition.store.rows([id_])
    if not found:
        # It was cancelled, or purged.
        return True
    row, published = found[0], [False]

    def take() -> None:
        published[0] = publish.activate(turn, topic, row)

    name, number = topic.entity.name, topic.base + row.counter
    if turn.attempt(Sweep.AWAITING_ROOM.name, name, take, number=number):
        turn.partition.faults.skip(Sweep.ACTIVATION, row.scheduled_ms, turn.now.mono_ms)
        return True
    return published[0]


def _know_more(turn: Turn, slot: int, first: tuple[int, int]) -> None:
    """Let some of those that wait from one on be known, and look at them next.

    Only they are read: what waits is not gone through again for each few that find room.
    """
    partition, awaiting = turn.partition, turn.partition.awaiting
    due_ms, id_ = first
    after, most = (due_ms, id_ - 1), awaiting_room.WAITING_MAX
    found = partition.store.activating(turn.now.wall_ms, after, most, slot)
    for each in found:
        awaiting.add(slot, each.id, each.at_ms)
    if not found:
        # They were cancelled, or a clock was corrected.
        partition.due.activates_at(due_ms)
        return
    if len(found) == most:
        awaiting.add_beyond(slot, (found[-1].at_ms, found[-1].id + 1))
    elif turn.now.wall_ms < partition.due.activated_to[0]:
        # The clock was set back: the others are due later, and the sweep has passed them.
        partition.due.activates_at(turn.now.wall_ms + 1)
    awaiting.due.replace(slot, turn.now.mono_ms)


def _activate(turn: Turn, queue: MessageQueue, summary: Summary) -> None:
    found = turn.partition.store.rows([summary.id])
    if not found:
        return
    row, state, now_ms = found[0], queue.state, turn.now.wall_ms
    # It was in use as long as it held this for later.
    queue.used(turn.now)
    turn.stage.remove(queue, row.id, row.state, row.size())
    state.last_enqueued_ms = max(state.last_enqueued_ms, now_ms)
    fresh = row._replace(
        id=row_id(state.slot, state.counter + 1),
        state=0,
        enqueued_ms=state.last_enqueued_ms,
        expires_ms=bounds.end_of_life(now_ms, row.time_to_live_ms),
    )
    turn.stage.append_row(queue, fresh)
