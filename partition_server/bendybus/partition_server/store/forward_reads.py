"""What the rules read of frames that other partitions forwarded."""

from collections.abc import Sequence
from typing import Protocol


class ForwardReads(Protocol):
    """The last frame of each source, and its messages that may come again."""

    def last(self, source: bytes) -> tuple[int, int]:
        """Return boot and sequence of the last frame of a source; (0, 0) if there was none."""

    def choices(self) -> dict[int, int]:
        """Return the partition that was chosen for messages without a key, by id."""

    def known(self, source: bytes, counters: Sequence[int]) -> set[int]:
        """Return those of its messages that are stored here."""
