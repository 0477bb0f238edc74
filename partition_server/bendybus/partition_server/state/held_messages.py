"""How many messages wait because they were abandoned with a delay; queues have their locks."""

from collections import Counter


class HeldMessages:
    """Counts them by slot."""

    def __init__(self) -> None:
        self._by_slot: Counter[int] = Counter()
        self.total = 0

    def of(self, slot: int) -> int:
        """Return how many of a queue wait."""
        return self._by_slot[slot] if self.total else 0

    def add(self, slot: int, count: int = 1) -> None:
        """Count messages that wait from now on; a negative count: no more."""
        self._by_slot[slot] += count
        self.total += count

    def put(self, slot: int, count: int) -> None:
        """Count that many messages of a queue again."""
        self.add(slot, count - self._by_slot[slot])

    def drop(self, slot: int) -> None:
        """Forget a queue that is deleted."""
        self.total -= self._by_slot.pop(slot, 0)
