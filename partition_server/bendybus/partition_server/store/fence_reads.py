"""What is read of the fences of producers."""

from typing import Final, Protocol

from bendybus.partition_server.store.pipeline_records import Fence

# Old fences that are forgotten with one that is new.
FORGOTTEN_A_COMMIT: Final = 100


class FenceReads(Protocol):
    """How far producers came."""

    def fence(self, slot: int, producer_id: bytes) -> Fence | None:
        """Return how far a producer came in a slot; None: nothing is known of it."""

    def fence_counts(self, since_ms: int = 0) -> dict[int, int]:
        """Return how many producers are remembered since a time, by slot; none is left out."""
