"""The connections of one listener: how many there may be, and which make room for others.

A *stranger* has not presented a valid token. The oldest stranger is disconnected when there are too
many connections, or too many of strangers. Clients with a valid token keep their place.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from bendybus.frontend.core.quota.bounds import STRANGERS_PART

GuestT = TypeVar("GuestT", bound=Hashable)


class Doors(Generic[GuestT]):
    """The connections of a listener, under keys of the caller's choice.

    `strangers_part`: strangers may have 1/strangers_part of them.
    """

    def __init__(self, most: int, strangers_part: int = STRANGERS_PART) -> None:
        self._most = most
        self._strangers_max = max(1, most // strangers_part)
        self._inside: set[GuestT] = set()
        # The oldest one first, with what disconnects it.
        self._strangers: dict[GuestT, Callable[[], object]] = {}

    def __iter__(self) -> Iterator[GuestT]:
        return iter(list(self._inside))

    def __len__(self) -> int:
        return len(self._inside)

    def room(self) -> bool:
        """Make room for a stranger; return whether there is some."""
        full = len(self._inside) >= self._most
        if full or len(self._strangers) >= self._strangers_max:
            if not self._strangers:
                return False
            self.end_oldest()
        return True

    def enter(self, guest: GuestT, give_up: Callable[[], object]) -> None:
        """Take note of a stranger, which `give_up` disconnects. Call `room` before."""
        self._inside.add(guest)
        self._strangers[guest] = give_up

    def known(self, guest: GuestT) -> None:
        """Take note that one has presented a valid token."""
        self._strangers.pop(guest, None)

    def leave(self, guest: GuestT) -> None:
        """Remove a connection."""
        self._strangers.pop(guest, None)
        self._inside.discard(guest)

    def end_oldest(self) -> None:
        """Disconnect the oldest stranger."""
        guest, give_up = next(iter(self._strangers.items()))
        self.leave(guest)
        give_up()
