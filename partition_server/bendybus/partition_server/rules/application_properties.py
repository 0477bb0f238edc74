"""Application properties that receivers changed while they had a message."""

from bendybus.domain import errors, limits
from bendybus.partition_server.rules import room
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import row_id
from bendybus.wire import message_properties


def of_locked(turn: Turn, queue: MessageQueue, counter: int, lock: Lock) -> bytes | None:
    """Return those of a locked message. Locks do not keep them, since they may be large."""
    if not lock.changed_bytes:
        return None
    envelope = turn.partition.store.envelope(row_id(queue.slot, counter))
    return None if envelope is None else envelope.row.changed_properties


def merged(
    turn: Turn, queue: MessageQueue, before: bytes | None, changes: bytes | None
) -> bytes | None:
    """Return both changes, the later one wins; what they add takes room.

    Raises InvalidArgument when they become too large, and what refuses the room.
    """
    if not changes:
        return before
    both = message_properties.merged_changes(before, changes) if before else changes
    if len(both) > limits.HEADER_BYTES_MAX:
        raise errors.InvalidArgument(
            "changed_properties",
            f"the changes of a message may take at most {limits.HEADER_BYTES_MAX} bytes together "
            f"(got {len(both)}).",
        )
    room.take(turn, queue, len(both) - len(before or b""))
    return both
