"""Going through rows that are due, within a budget."""

from collections.abc import Callable, Sequence

from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.store.records import Head


def through(
    heads: Sequence[Head], cursor: tuple[int, int], budget: Budget, take: Callable[[Head], int]
) -> tuple[bool, tuple[int, int]]:
    """Take heads until the budget is spent, one at least; return whether all, and how far.

    `take` returns the bytes that it read.
    """
    for index, head in enumerate(heads):
        if index and budget.spent():
            return False, cursor
        budget.spend(take(head))
        cursor = (head.at_ms, head.id)
    return True, cursor
