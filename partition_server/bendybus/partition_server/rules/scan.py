"""Going through rows that are due, within a budget."""

from collections.abc import Callable, Sequence

from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Summary


def through(
    turn: Turn,
    sweep: Sweep,
    summaries: Sequence[Summary],
    cursor: tuple[int, int],
    take: Callable[[Summary], int],
) -> tuple[bool, tuple[int, int]]:
    """Take summaries until the budget is spent, one at least; return whether all, and how far.

    `take` returns the bytes that it read. What raises is passed over for a while; see `faults`.
    """
    budget = turn.budget
    for index, summary in enumerate(summaries):
        if index and budget.spent():
            return False, cursor
        if turn.careful:
            _take_careful(turn, sweep, summary, take)
        else:
            budget.spend(take(summary))
        cursor = (summary.at_ms, summary.id)
    return True, cursor


def _take_careful(
    turn: Turn, sweep: Sweep, summary: Summary, take: Callable[[Summary], int]
) -> None:
    queue = turn.partition.queues.at(summary.slot)
    entity = queue.entity.name if queue else ""
    counter = summary.counter
    if turn.attempt(sweep.name, entity, lambda: turn.budget.spend(take(summary)), counter=counter):
        turn.budget.spend()
        turn.partition.faults.skip(sweep, summary.at_ms, turn.now.mono_ms)
