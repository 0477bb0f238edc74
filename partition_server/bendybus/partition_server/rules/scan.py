"""Going through rows that are due, within a budget."""

from collections.abc import Callable, Sequence

from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.store.records import Summary


def through(
    summaries: Sequence[Summary],
    cursor: tuple[int, int],
    budget: Budget,
    take: Callable[[Summary], int],
) -> tuple[bool, tuple[int, int]]:
    """Take summaries until the budget is spent, one at least; return whether all, and how far.

    `take` returns the bytes that it read.
    """
    for index, summary in enumerate(summaries):
        if index and budget.spent():
            return False, cursor
        budget.spend(take(summary))
        cursor = (summary.at_ms, summary.id)
    return True, cursor
