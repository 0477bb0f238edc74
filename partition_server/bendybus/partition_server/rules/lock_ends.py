"""The ends of locks whose time is over: of messages, and of sessions with all of theirs."""

from collections.abc import Callable
from functools import partial

from bendybus.partition_server.rules import redeliver, session_locks
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
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
        ended = _end_due(turn, queue)
        budget.spend()
        if ended:
            ends.replace(slot, queue.next_lock_end())
        else:
            pause_ms = partition.faults.pause_ms((Sweep.LOCK_ENDS, slot), now_ms)
            ends.replace(slot, now_ms + pause_ms)


def _end_due(turn: Turn, queue: MessageQueue) -> bool:
    """End locks of one queue; return False if one of them raised."""
    if not isinstance(queue, SessionQueue):
        return bool(_watched(queue, partial(redeliver.end_due, turn, queue)))
    end = partial(_watched, queue, partial(session_locks.end_due, turn, queue))
    return turn.attempt(Sweep.LOCK_ENDS.name, queue.entity.name, end) is None


def _watched(queue: MessageQueue, end: Callable[[], bool | None]) -> bool | None:
    """End locks; if that raises, look at all of the queue again: notes were taken for it."""
    try:
        return end()
    except BaseException:
        queue.watch_all()
        raise
