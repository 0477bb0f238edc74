"""Which places of a plan are stored at the destination: what an attempt learns from earlier ones.

    place   1 … 500 | 501 … 1000     a page is within one of these spans
    fence   ordinal 620, mark ─────► bit n: place 501 + n is stored in this partition

A fence alone says how far a producer came. With `--fix`, an earlier attempt may have left a message
below it, or have sent it to another partition, so each fence has a mark of what it stored of its
span. Spans before it are of no interest: what was stored of them was removed before the next one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

# As many bits as a mark has room for.
PLACES: Final = 500
_MARK_BYTES: Final = (PLACES + 7) // 8


class Stored:
    """What is stored in each partition. `fence_of`: asks a partition."""

    def __init__(self, partitions: Sequence[int], fence_of: Callable[[int], Any]) -> None:
        self._fence_of = fence_of
        self._upto: dict[int, int] = {}
        self._places: dict[int, set[int]] = {}
        for partition in partitions:
            self.look(partition)

    def look(self, partition: int) -> None:
        """Ask a partition."""
        fence = self._fence_of(partition)
        first, bits = _first(fence.ordinal), int.from_bytes(fence.mark, "little")
        self._upto[partition] = fence.ordinal
        self._places[partition] = {first + bit for bit in range(PLACES) if bits >> bit & 1}

    def has(self, place: int) -> bool:
        """Whether a place is stored, in whatever partition."""
        return any(place in places for places in self._places.values())

    def passed(self, partition: int, place: int) -> bool:
        """Whether the partition would pass over a place, as if it were stored."""
        return place <= self._upto[partition]

    def mark(self, partition: int, ordinals: Sequence[int]) -> bytes:
        """Return the mark of a frame, whose ordinals are all of one span."""
        first = _first(ordinals[-1])
        bits = sum(1 << place - first for place in self._with(partition, ordinals))
        return bits.to_bytes(_MARK_BYTES, "little")

    def took(self, partition: int, ordinals: Sequence[int]) -> None:
        """Note what a partition stored."""
        self._upto[partition] = max(self._upto[partition], ordinals[-1])
        self._places[partition] = self._with(partition, ordinals)

    def _with(self, partition: int, ordinals: Sequence[int]) -> set[int]:
        """Return what is stored of the span of a frame, with that frame."""
        first = _first(ordinals[-1])
        return {place for place in self._places[partition] if place >= first}.union(ordinals)


def _first(ordinal: int) -> int:
    """Return the first place of the span of an ordinal."""
    return max(0, ordinal - 1) // PLACES * PLACES + 1
