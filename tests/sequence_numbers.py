"""Sequence numbers that name their partition: those of partitioned entities."""

from bendybus.domain import sequence_number


def of(partition: int, counter: int) -> int:
    """Return the number of a message."""
    return sequence_number.base_of(partition, plain=False) + counter


def partition_of(number: int) -> int:
    """Return the partition that a number names."""
    return number >> 48
