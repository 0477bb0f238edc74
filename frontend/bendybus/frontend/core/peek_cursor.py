"""Browsing many partitions: where each peek goes on. Pure.

Source: the peek of a partitioned entity "returns the oldest message in one of the partitions
whose message broker responded first". The cursor holds the next number of every partition, so
that repeated peeks show each message once. A peek from an explicit number starts in the number's
own partition and goes on through those after it, in the order of whole sequence numbers.
"""

import struct
from collections.abc import Sequence
from typing import Final

from bendybus.domain import bounds, sequence_number
from bendybus.domain.errors import InvalidArgument

_VERSION: Final = b"\x01"
# A partition that is not to be shown (any more).
SKIP: Final = 2**64 - 1


def start(cursor: bytes, partition_count: int, from_sequence_number: int) -> list[int]:
    """Return the next number to show per partition; SKIP where nothing is to be shown.

    Raises InvalidArgument for a cursor of another entity, or a number of no partition.
    """
    if from_sequence_number < 0:
        raise InvalidArgument("from_sequence_number", "is negative.")
    if from_sequence_number:
        own = sequence_number.partition_of(from_sequence_number)
        if own >= partition_count:
            raise InvalidArgument(
                "from_sequence_number",
                f"{from_sequence_number} is of partition {own}; there are {partition_count}.",
            )
        before, after = [SKIP] * own, [0] * (partition_count - own - 1)
        return [*before, from_sequence_number, *after]
    if not cursor:
        return [0] * partition_count
    if cursor[:1] != _VERSION or len(cursor) != 1 + 8 * partition_count:
        raise InvalidArgument("cursor", "belongs to another entity. Start without a cursor.")
    positions = list(struct.unpack(f">{partition_count}Q", cursor[1:]))
    if any(position != SKIP and position > bounds.NUMBER_MAX for position in positions):
        raise InvalidArgument("cursor", "belongs to another entity. Start without a cursor.")
    return positions


def encode(positions: Sequence[int]) -> bytes:
    """Return the cursor of these positions."""
    return _VERSION + struct.pack(f">{len(positions)}Q", *positions)
