"""What an entity holds in one partition."""

from dataclasses import replace
from typing import Final

from bendybus.domain import bounds
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import forward, oldest, room
from bendybus.partition_server.state.answers import EntityCounts
from bendybus.partition_server.state.commands import Counts, Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.turn import Turn

# Entities that one command counts: what comes from further away does so in steps.
ENTITIES_A_LOOK: Final = 250


def counts(turn: Turn, command: Counts) -> list[EntityCounts]:
    """Count the messages of the entities that are asked for, or of a page of all, by UID."""
    bounds.check_number("uids", len(command.uids), ENTITIES_A_LOOK)
    queues, most = (
        turn.partition.queues,
        min(command.entities_max or ENTITIES_A_LOOK, ENTITIES_A_LOOK),
    )
    wanted = command.uids or queues.uids_after(command.after_uid, most)
    found = [count(turn.partition, uid, turn.now) for uid in wanted if queues.has(uid)]
    if command.oldest and found:
        main = turn.partition.queues.main_of(found[0].uid)
        found[0] = replace(found[0], oldest_active_ms=oldest.age_ms(turn.partition, main, turn.now))
    if not command.forwarding:
        return found
    return [
        replace(
            each,
            forwarding=forward.of_entity(turn.partition, each.uid, turn.now),
            drains=turn.partition.drains.owners(each.uid),
        )
        for each in found
    ]


def _size_bytes(partition: PartitionState, main: MessageQueue) -> int:
    """Return what counts to the quota of an entity; to that of a topic, all its subscriptions."""
    if main.entity.kind is EntityKind.TOPIC:
        return room.measured(partition, main)
    return partition.queues.size_bytes(main.entity.uid)


def _is_in_use(partition: PartitionState, uid: str) -> bool:
    """Whether an entity is used now: a receiver waits for it, or it holds messages for later.

    Those are scheduled and deferred ones, those abandoned with a delay, and those that wait to go
    on to another entity. (Service Bus deletes an entity with deferred ones.)
    """
    return any(
        queue.asks
        or queue.state.scheduled
        or queue.state.deferred
        or partition.held.of(queue.slot)
        or (queue.state.active and partition.forwards_from(queue))
        for queue in partition.queues.all_of(uid)
    )


def idle_ms(partition: PartitionState, uid: str, now: Now) -> int:
    """Return how long an entity that has queues here was not used; 0: it is in use."""
    if _is_in_use(partition, uid):
        return 0
    return now.mono_ms - partition.queues.last_used_mono_ms(uid)


def count(partition: PartitionState, uid: str, now: Now) -> EntityCounts:
    """Count the messages of an entity that has queues here."""
    queues = {queue.state.sub_queue: queue for queue in partition.queues.all_of(uid)}
    main, dead = queues[SubQueue.MAIN], queues.get(SubQueue.DEAD_LETTER)
    aside = queues.get(SubQueue.TRANSFER_DEAD_LETTER)
    entity, figures = main.entity, main.state
    transfer = sum(queue.state.active for queue in partition.queues.transfers_of(uid))
    return EntityCounts(
        uid=entity.uid,
        name=entity.name,
        generation=entity.generation,
        active=figures.active,
        locked=len(main.locks) - partition.held.of(main.slot),
        deferred=figures.deferred,
        scheduled=figures.scheduled,
        dead_letter=dead.state.active + dead.state.deferred if dead else 0,
        transfer_dead_letter=aside.state.active + aside.state.deferred if aside else 0,
        transfer=transfer,
        size_bytes=_size_bytes(partition, main),
        idle_ms=idle_ms(partition, uid, now),
        accessed_at_ms=max(queue.accessed_at_ms for queue in queues.values()),
        orphaned=entity.orphaned,
    )
