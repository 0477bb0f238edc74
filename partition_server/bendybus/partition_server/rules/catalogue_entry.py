"""Entries of the catalogue: the registrar commits them, others copy them, front ends watch them.

Data is deleted only because of a tombstone, a few rows a turn.
"""

from collections.abc import Sequence

from bendybus.domain import errors
from bendybus.domain.entity import Entity, rules_of
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule_set import RulesEdit
from bendybus.partition_server.rules import counts, forward_lanes
from bendybus.partition_server.state.answers import AskRefused, CatalogueChanged, Done
from bendybus.partition_server.state.commands import (
    ApplyEntity,
    CommitEntity,
    FenceIdle,
    Now,
    Watch,
)
from bendybus.partition_server.state.due_times import LAST_ID
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import FENCE_MS, PartitionState
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, SessionState


def commit(turn: Turn, command: CommitEntity) -> Entity:
    """Decide on a management call, at the registrar. Raises what refuses it."""
    entity, changes = turn.partition.catalogue.decide(command, turn.now)
    _change(turn, changes)
    return entity


def apply(turn: Turn, command: ApplyEntity) -> Done:
    """Copy entries of the registrar, except those of which newer ones are known."""
    catalogue = turn.partition.catalogue
    news = [entry for entry in command.entities if catalogue.accept(entry)]
    _change(turn, sorted(news, key=lambda entry: entry.generation))
    return Done()


def watch(turn: Turn, command: Watch) -> CatalogueChanged:
    """Return the whole catalogue; tell the stream of each change from now on."""
    turn.partition.watchers.append(command.stream)
    return CatalogueChanged(turn.partition.catalogue.all(), snapshot=True)


def fence(turn: Turn, command: FenceIdle) -> bool:
    """Refuse the traffic of an idle entity for a moment; return whether it was idle."""
    partition, now = turn.partition, turn.now
    entity = partition.catalogue.by_uid(command.uid)
    if entity is None or entity.generation != command.generation:
        return False
    # Whoever uses a subscription uses its topic.
    family = [entity, *partition.catalogue.subscriptions(entity)]
    if any(each.orphaned or partition.catalogue.is_never_idle(each) for each in family):
        return False
    # Also of one that has no queue here: its messages may wait where a transaction was.
    if any(partition.queues.is_awaited(each.uid) for each in family):
        return False
    uids = [each.uid for each in family if partition.queues.all_of(each.uid)]
    if any(counts.idle_ms(partition, uid, now) < command.idle_ms for uid in uids):
        return False
    for each in family:
        partition.fenced_until[each.uid] = now.mono_ms + FENCE_MS
    return True


def _change(turn: Turn, entries: Sequence[Entity]) -> None:
    if not entries:
        return
    changes, catalogue = turn.stage.changes, turn.partition.catalogue
    changes.entities.extend(entries)
    # Nothing of a deleted entity is forwarded any more, nor of what had its name before.
    for entry in entries:
        old = catalogue.by_key(entry.key)
        if old is not None and not old.deleted and (entry.deleted or entry.uid != old.uid):
            changes.forward_sources_removed.append(old.uid)
            changes.leases_removed.append(old.uid)
    # Never a name that changes now: its tombstone, if it has one, stays or becomes an entity.
    changing = {entry.key for entry in entries}
    changes.entities_forgotten.extend(key for key in catalogue.forgettable() if key not in changing)
    turn.stage.journal.later(_take_all, turn)


# At the commit


def _take_all(turn: Turn) -> None:
    """Make what a stage decided on entities take effect."""
    partition, stage = turn.partition, turn.stage
    entities = list(stage.changes.entities)
    # Topics whose subscription the bus deletes are not used by that.
    unused = {each.topic_key for each in entities if each.auto_deleted}
    edits = _edits(partition, entities) if partition.watchers else {}
    for entity in entities:
        _take(partition, entity, stage, turn.now, is_use=entity.key not in unused)
    for watcher in partition.watchers:
        stage.answer(watcher, CatalogueChanged(entities, snapshot=False, edits=edits))
    for key in stage.changes.entities_forgotten:
        partition.catalogue.forget(key)


def _edits(partition: PartitionState, entities: Sequence[Entity]) -> dict[str, RulesEdit]:
    """Return how the rules of subscriptions change, before that takes effect."""
    found: dict[str, RulesEdit] = {}
    for entity in entities:
        old = partition.catalogue.by_key(entity.key)
        if old is None or old.uid != entity.uid or old.deleted or entity.deleted:
            continue
        if entity.kind is not EntityKind.SUBSCRIPTION:
            continue
        edit = rule_set.edit_between(rules_of(old), rules_of(entity))
        if edit is not None:
            found[entity.key] = edit
    return found


def _forget_slot(partition: PartitionState, slot: int) -> None:
    partition.queues.dropped.pop(slot, None)
    partition.lanes.forget_choices(slot)


def _take(
    partition: PartitionState, entity: Entity, stage: Stage, now: Now, *, is_use: bool
) -> None:
    old = partition.catalogue.by_key(entity.key)
    partition.catalogue.put(entity)
    if old is not None and (entity.deleted or old.uid != entity.uid):
        gone = errors.EntityNotFound(f"{old.title} was deleted.")
        for queue in partition.queues.drop(old):
            _refuse_asks(partition, queue, stage, gone, now)
            partition.forwards.drop(queue.slot)
            partition.lanes.drop(queue.slot)
            partition.held.drop(queue)
            partition.awaiting.drop(queue.slot)
        partition.fenced_until.pop(old.uid, None)
        partition.topics.drop(old.uid)
        partition.drains.forget(old.uid)
        partition.producers.drop(old.uid)
    partition.topics.put(entity)
    if not entity.deleted:
        partition.queues.ensure(entity, now.mono_ms)
        # The front end asks again with what it knows then.
        changed = errors.GenerationMismatch(f"{entity.title} was changed.")
        for queue in partition.queues.all_of(entity.uid):
            _refuse_asks(partition, queue, stage, changed, now)
            # An entity that is created is not used by that.
            if is_use and old is not None and old.uid == entity.uid:
                queue.used(now)
            # The window of its keys may be another one now.
            partition.watch_keys(queue, 0)
            if queue.slot in partition.forwards.sources:
                forward_lanes.give_back(partition, queue)
            partition.watch_forwarding(queue)


def _refuse_asks(
    partition: PartitionState,
    queue: MessageQueue,
    stage: Stage,
    error: errors.BusError,
    now: Now,
) -> None:
    for stream, ask_id in list(queue.asks):
        queue.close_ask((stream, ask_id), now)
        partition.streams.ask_closed(stream, ask_id)
        stage.answers.append(Answer(stream, AskRefused(ask_id, error)))


def remove_dropped(turn: Turn) -> None:
    """Remove some rows of a deleted entity's slot; when none is left, the slot.

    The slot of a topic goes last, when no message of a subscription has one of its bodies any more:
    what is in the file fits together at each moment, and no later entity gets the slot before.
    """
    partition, changes, budget = turn.partition, turn.stage.changes, turn.budget
    slot = _next_dropped(partition)
    # Its messages may share bodies: who knows what it was.
    state = changes.slots[slot] = partition.queues.dropped[slot]
    state.has_copies = state.dropped = True
    for summary in partition.store.summaries(slot, 0, COUNTER_MASK, budget.rows_left):
        changes.deletes.append(summary.id)
        budget.spend(summary.size_bytes)
        if budget.spent():
            return
    # Of a topic, if messages had them that are gone.
    bodies = partition.store.bodies.of_slot(slot, budget.rows_left)
    changes.bodies_removed += bodies
    keys = partition.store.history(slot, LAST_ID, budget.rows_left)
    changes.history_deletes += keys
    states = partition.store.sessions.with_state(slot, budget.rows_left)
    changes.session_states += [SessionState(slot, session_id, None, 0) for session_id in states]
    if len(keys) < budget.rows_left and not (changes.deletes or states or bodies):
        changes.slots_removed.append(slot)
        turn.stage.journal.later(_forget_slot, partition, slot)


def _next_dropped(partition: PartitionState) -> int:
    """Return the slot whose turn it is: one without bodies, if there is one."""
    dropped = partition.queues.dropped
    for slot in list(dropped):
        if not partition.store.bodies.of_slot(slot, 1):
            return slot
        # Not looked at again before the others.
        dropped[slot] = dropped.pop(slot)
    return next(iter(dropped))
