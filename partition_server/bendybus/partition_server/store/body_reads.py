"""What the rules read of shared bodies."""

from typing import Protocol


class BodyReads(Protocol):
    """Bodies that several messages have; see docs/reference/data-file.md."""

    # Whether a commit may have left bodies that no message has. Cleared by the rules.
    has_garbage: bool

    def unreferenced(self, limit: int) -> list[tuple[int, int]]:
        """Return (id, length) of bodies that no message has any more."""

    def of_slot(self, slot: int, limit: int) -> list[int]:
        """Return ids of bodies that came to the topic in this slot."""
