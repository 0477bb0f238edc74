"""The oldest active message of a queue: how long it has been active.

A message becomes active with the highest counter, also a scheduled one, which gets a new number
then. So what lies below the first active message is never active again, and is not looked at again.
"""

from typing import Final

from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.store.records import COUNTER_MASK, State

# Rows that one look passes over, at most. The next one goes on from there.
LOOK_ROWS: Final = 1_000
_PAGE_ROWS: Final = 100


def age_ms(partition: PartitionState, queue: MessageQueue, now: Now) -> int | None:
    """Return its age in ms; None if no message is active, or none was found yet."""
    if not queue.state.active:
        return None
    for _ in range(LOOK_ROWS // _PAGE_ROWS):
        found = partition.store.summaries(queue.slot, queue.active_from, COUNTER_MASK, _PAGE_ROWS)
        for each in found:
            if each.state == State.ACTIVE:
                queue.active_from = each.counter
                return max(0, now.wall_ms - each.enqueued_ms)
        if len(found) < _PAGE_ROWS:
            return None
        queue.active_from = found[-1].counter + 1
    return None
