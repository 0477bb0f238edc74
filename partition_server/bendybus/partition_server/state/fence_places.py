"""How many producers with a fence are remembered, by who shares their places.

Counting them goes through all of them, so it is done once a second at most; in between those that
are new are added.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.shares import Shares

COUNT_MS: Final = 1_000


class FencePlaces:
    """The places of producers, as they were counted last."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.places: Shares[str] = Shares()
        self.measured_mono_ms = -COUNT_MS

    def count_again(
        self, read: Callable[[], Mapping[int, int]], user_of: Callable[[int], str], mono_ms: int
    ) -> None:
        """Count what is stored (`read`: by slot), if that was long ago. Never while a stage has
        some that are not stored yet.
        """
        if mono_ms - self.measured_mono_ms < COUNT_MS:
            return
        self.measured_mono_ms = mono_ms
        self.places = Shares()
        for slot, count in read().items():
            self.places.add(user_of(slot), count)

    def add(self, user: str) -> None:
        """Count a new producer, until the next count or until that is taken back."""
        places = self.places
        self._journal.note(places.put, user, places.of(user), places.total)
        places.add(user, 1)
