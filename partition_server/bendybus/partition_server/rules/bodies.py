"""Shared bodies that no message has any more: removed some at a time, soon after the last copy."""

from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import SLOT_SHIFT, body_size


def sweep(turn: Turn) -> None:
    """Remove some bodies, and what they count to their topics; the rest in later turns."""
    partition, stage, budget = turn.partition, turn.stage, turn.budget
    bodies, most = partition.store.bodies, budget.rows_left
    found = bodies.unreferenced(most)
    removed = 0
    for id_, length in found:
        topic = partition.queues.at(id_ >> SLOT_SHIFT)
        # Of a deleted topic, nothing is counted any more.
        if topic is not None:
            stage.touch(topic)
            topic.state.size_bytes -= body_size(length)
        stage.changes.bodies_removed.append(id_)
        removed += 1
        budget.spend(length)
        if budget.spent():
            break
    if removed == len(found) < most:
        stage.journal.later(partition.no_garbage)
