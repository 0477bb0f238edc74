"""What an entity holds in one partition."""

from bendybus.partition_server.rules.settle import Place
from bendybus.partition_server.state.commands import EntityCounts, Now
from bendybus.partition_server.state.message_queue import MessageQueue


def count(main: Place, dead: MessageQueue, now: Now) -> EntityCounts:
    """Count the messages of an entity and of its dead-letter sub-queue."""
    queue, entity = main.queue, main.entity
    figures = queue.state
    used_ms = max(queue.last_used_mono_ms, dead.last_used_mono_ms)
    return EntityCounts(
        uid=entity.uid,
        name=entity.name,
        generation=entity.generation,
        active=figures.active,
        locked=len(queue.locks),
        deferred=figures.deferred,
        scheduled=figures.scheduled,
        dead_letter=dead.state.active + dead.state.deferred,
        size_bytes=queue.size_bytes() + dead.size_bytes(),
        # Somebody who waits for a message uses the entity.
        idle_ms=0 if queue.asks or dead.asks else now.mono_ms - used_ms,
        accessed_at_ms=max(queue.accessed_at_ms, dead.accessed_at_ms),
        orphaned=entity.orphaned,
    )
