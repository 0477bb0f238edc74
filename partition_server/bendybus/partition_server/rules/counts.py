"""What an entity holds in one partition."""

import heapq
from dataclasses import replace

from bendybus.domain import bounds
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import forward, room
from bendybus.partition_server.state.answers import EntityCounts
from bendybus.partition_server.state.commands import Counts, Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.turn import Turn


def counts(turn: Turn, command: Counts) -> list[EntityCounts]:
    """Count the messages of the entities that are asked for, or of all."""
    bounds.check_number("uids", len(command.uids), bounds.UIDS_A_CALL_MAX)
    known = turn.partition.queues.uids()
    wanted = command.uids or _page(known, command)
    held = set(known)
    found = [count(turn.partition, uid, turn.now) for uid in wanted if uid in held]
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


def _page(known: list[str], command: Counts) -> list[str]:
    """Return the entities of a page: by UID, so that none is missed while others come and go."""
    if not command.entities_max:
        return known
    following = (uid for uid in known if uid > command.after_uid)
    return heapq.nsmallest(command.entities_max, following)


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


def count(partition: PartitionState, uid: str, now: Now) -> EntityCounts:
    """Count the messages of an entity that has queues here."""
    queues = {queue.state.sub_queue: queue for queue in partition.queues.all_of(uid)}
    main, dead = queues[SubQueue.MAIN], queues.get(SubQueue.DEAD_LETTER)
    aside = queues.get(SubQueue.TRANSFER_DEAD_LETTER)
    entity, figures = main.entity, main.state
    transfer = sum(queue.state.active for queue in partition.queues.transfers_of(uid))
    used_ms = max(queue.last_used_mono_ms for queue in queues.values())
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
        idle_ms=0 if _is_in_use(partition, uid) else now.mono_ms - used_ms,
        accessed_at_ms=max(queue.accessed_at_ms for queue in queues.values()),
        orphaned=entity.orphaned,
    )
