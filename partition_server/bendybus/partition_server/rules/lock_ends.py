"""The ends of locks whose time is over: of messages, and of sessions with all of theirs."""

from bendybus.partition_server.rules import redeliver, session_locks
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn


def sweep(turn: Turn) -> None:
    """End locks whose time is over."""
    partition, budget, now_ms = turn.partition, turn.budget, turn.now.mono_ms
    ends = partition.due.lock_ends
    while (first := ends.first()) and first[0] <= now_ms and not budget.spent():
        slot = first[1]
        queue = partition.queues.at(slot)
        if queue is None:
            ends.replace(slot, None)
            continue
        if isinstance(queue, SessionQueue):
            session_locks.end_due(turn, queue)
        else:
            redeliver.end_due(turn, queue)
        budget.spend()
        ends.replace(slot, queue.next_lock_end())
