"""What a cache of received messages is asked for, and what it decides. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class ClientAsk:
    """A receive that waits; `tag` finds the caller again. `deadline_ms` None: no end."""

    tag: Any
    messages: int
    size_bytes: int
    deadline_ms: int | None
    # The connection.
    owner: Any = None
    # Whether its messages are asked for: not while it is closing, nor while its owner is paused.
    counted: bool = False
    # Asks of partitions whose answers it waits for at its end; None: its wait is not over.
    checks: set[int] | None = None
    # Whether a partition answered.
    answered: bool = False


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
    """Give these slices to the caller of a receive; none: its wait is over."""

    ask: ClientAsk
    slices: Sequence[Slice] = ()
    # No partition answered, or its connection is paused: whether there are messages is not known.
    unanswered: bool = False

    @property
    def tag(self) -> Any:
        """The caller."""
        return self.ask.tag


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Release a slice: no client will see it."""

    data: Any
    start: int
    end: int
    partition: int


Action = AskPartition | WithdrawAsk | HandOver | GiveBack
