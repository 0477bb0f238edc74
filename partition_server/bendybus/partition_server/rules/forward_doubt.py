"""Messages that may be at their destination though they are still here: they do not end here.

Their frame was not answered; or they were here when the file was opened, which may have been after
their frame had left. They are sent again, also after their time to live: their destination answers
for those that it has, and takes the others, which end there.
"""

from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row


def in_doubt(partition: PartitionState, queue: MessageQueue, counter: int) -> bool:
    """Whether a message of a queue may be at its destination, in another partition."""
    if not _goes_across(partition, queue):
        return False
    if counter <= queue.opened_to:
        return True
    return any(counter in lane.unanswered for lane in partition.lanes.of(queue.slot).values())


def is_to_go(turn: Turn, queue: MessageQueue, row: Row) -> bool:
    """Whether a message is to be sent: it lives, or may be at its destination."""
    lives = row.expires_ms is None or row.expires_ms > turn.now.wall_ms
    return lives or in_doubt(turn.partition, queue, row.counter)


def end(partition: PartitionState, queue: MessageQueue) -> None:
    """End all doubts if the destination is gone, or the queue forwards there no more."""
    if _goes_across(partition, queue):
        return
    lanes = partition.lanes.of(queue.slot).values()
    if queue.opened_to or any(lane.unanswered for lane in lanes):
        queue.opened_to = 0
        for lane in lanes:
            lane.unanswered.clear()
        # Expiry has passed over them.
        partition.due.expires_at(1)


def _goes_across(partition: PartitionState, queue: MessageQueue) -> bool:
    if queue.slot not in partition.forwards.sources:
        return False
    destination = partition.destination_of(queue)
    return destination is not None and not partition.stays(queue, destination)
