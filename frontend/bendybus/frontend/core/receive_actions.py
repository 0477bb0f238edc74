"""What a cache of received messages decides. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bendybus.frontend.core.credit import Credit


@dataclass(frozen=True, slots=True)
class AskPartition:
    """Ask a partition for messages."""

    ask_id: int
    partition: int
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WithdrawAsk:
    """Take an ask back."""

    ask_id: int
    partition: int


# (data, start, end, partition, when the locks end)
Slice = tuple[Any, int, int, int, int]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give these slices to a receiver; none: its credit is drained, or void for another reason."""

    credit: Credit
    slices: Sequence[Slice] = ()
    # No partition answered, or its connection is paused: whether there are messages is not known.
    unanswered: bool = False

    @property
    def messages(self) -> int:
        """The number of messages in the slices."""
        return sum(end - start for _, start, end, _, _ in self.slices)


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Release a slice: no client will see it."""

    data: Any
    start: int
    end: int
    partition: int


Action = AskPartition | WithdrawAsk | HandOver | GiveBack
