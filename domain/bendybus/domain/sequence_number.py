"""Sequence numbers: which partition, and which message in it.

    63        48 47                                     0
    ┌──────────┬────────────────────────────────────────┐
    │ partition│ counter of the entity there, 1 and up  │
    └──────────┴────────────────────────────────────────┘

A plain entity is in one partition, and its numbers name none: they are the counter, 1, 2, 3. Plain
entities that were made before version 0.13.2 have numbers with their partition, and keep them for
good. So what a number means depends on its entity; the counter is in the low bits of either form.

Source: Service Bus, "Message sequencing and timestamps". Numbers of one entity in one partition
rise without gaps at the time they are given; those that are reserved for scheduled messages of a
transaction are given then, and used later, or never. A counter is never used twice: at its end
sends are refused instead of starting over (the store keys rows by 44 bits of it).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bendybus.domain.entity import Entity

COUNTER_MAX: Final = 2**44 - 1
_COUNTER_BITS: Final = 48
_COUNTER_MASK: Final = 2**_COUNTER_BITS - 1


def base_of(partition: int, *, plain: bool) -> int:
    """Return the number before the first one of an entity in a partition, by its form.

    A counter there and this are a number.
    """
    return 0 if plain else partition << _COUNTER_BITS


def partition_of(entity: "Entity", sequence_number: int) -> int | None:
    """Return the partition that has, or had, or will have a number; None if none of the entity."""
    partition = entity.home_partition if entity.plain_numbers else sequence_number >> _COUNTER_BITS
    counter = sequence_number - base_of(partition, plain=entity.plain_numbers)
    return partition if partition in entity.partitions() and counter <= _COUNTER_MASK else None


def first_from(entity: "Entity", partition: int, sequence_number: int) -> int | None:
    """Return the first possible number of a partition from a number on; None: all are below."""
    base = base_of(partition, plain=entity.plain_numbers)
    return None if sequence_number > base + _COUNTER_MASK else max(sequence_number, base + 1)


def counter_of(sequence_number: int) -> int:
    """Return the counter in the low 48 bits of a number of either form."""
    return sequence_number & _COUNTER_MASK


def base_below(sequence_number: int) -> int:
    """Return the number before the first one where this one is from, without its entity."""
    return sequence_number & ~_COUNTER_MASK


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
