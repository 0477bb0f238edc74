"""Sequence numbers: which partition, and which message in it.

    63        48 47                                     0
    ┌──────────┬────────────────────────────────────────┐
    │ partition│ counter of the entity there, 1 and up  │
    └──────────┴────────────────────────────────────────┘

Source: Service Bus, "Message sequencing and timestamps". Numbers of one entity in one partition
rise without gaps at the time they are given; those that are reserved for scheduled messages of a
transaction are given then, and used later, or never. A counter is never used twice: at its end
sends are refused instead of starting over (the store keys rows by 44 bits of it).
"""

from collections.abc import Sequence
from typing import Final

COUNTER_BITS: Final = 48
COUNTER_MAX: Final = 2**44 - 1
_COUNTER_MASK: Final = 2**COUNTER_BITS - 1


def compose(partition: int, counter: int) -> int:
    """Return the whole number for a counter of a partition."""
    return partition << COUNTER_BITS | counter


def partition_of(sequence_number: int) -> int:
    """Return the partition in the top 16 bits."""
    return sequence_number >> COUNTER_BITS


def counter_of(sequence_number: int) -> int:
    """Return the counter in the low 48 bits."""
    return sequence_number & _COUNTER_MASK


def consecutive(numbers: Sequence[int]) -> bool:
    """Whether these are numbers in a row; 0 is none."""
    if not numbers:
        return True
    first = numbers[0]
    return (
        bool(first)
        and numbers[-1] - first == len(numbers) - 1
        and list(numbers) == list(range(first, first + len(numbers)))
    )
