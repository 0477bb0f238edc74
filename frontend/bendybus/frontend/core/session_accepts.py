"""Receivers that wait for any session of one queue: asks of partitions, who gets an offer. Pure.

    waiting ──► an ask at each available partition ──► offered ──► the one that waits longest
                                                          │ none waits any more
                                                          ▼
                                                       declined

All partitions are asked at once, each for as many sessions as receivers wait, up to a bound. An
offer is for whichever receiver waits longest at this front end, so that receivers which wait
together do not race for the same sessions.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.frontend.core.receive_actions import WithdrawAsk

# Asks of one partition that are open for the receivers of one queue. More receivers wait behind
# these: an ask is opened again for each that is answered.
ASKS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class AskForSession:
    """Ask a partition for a session."""

    ask_id: int
    partition: int


@dataclass(frozen=True, slots=True)
class Offer:
    """A session that a partition keeps for us, not for long."""

    partition: int
    session_id: str
    token: bytes
    entity_uid: str


@dataclass(frozen=True, slots=True)
class Give:
    """Let a receiver confirm an offer."""

    waiter: Any
    offer: Offer


@dataclass(frozen=True, slots=True)
class Decline:
    """Give an offer back."""

    offer: Offer


Action = AskForSession | WithdrawAsk | Give | Decline


class NextSessions:
    """See the module's docstring. `available`: whether a partition can be asked."""

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._available = available
        self._next_ask_id = next_ask_id
        self._waiting: OrderedDict[Any, None] = OrderedDict()
        # By partition: asks that are not withdrawn, oldest first.
        self._asks: dict[int, dict[int, None]] = {partition: {} for partition in partitions}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, waiter: Any, *, first: bool = False) -> list[Action]:
        """Take a receiver that waits; `first`: before the others, since it waited already."""
        self._waiting[waiter] = None
        if first:
            self._waiting.move_to_end(waiter, last=False)
        return self.ask()

    def leave(self, waiter: Any) -> list[Action]:
        """Forget a receiver that no longer waits."""
        self._waiting.pop(waiter, None)
        return self._withdraw()

    def ask(self) -> list[Action]:
        """Ask the partitions that are asked for less than is wanted."""
        wanted = self._wanted
        actions: list[Action] = []
        for partition, asks in self._asks.items():
            if len(asks) >= wanted or not self._available(partition):
                continue
            for _ in range(wanted - len(asks)):
                ask_id = self._next_ask_id()
                asks[ask_id] = None
                actions.append(AskForSession(ask_id, partition))
        return actions

    def offered(self, ask_id: int, offer: Offer) -> list[Action]:
        """Take an offer, also one for an ask that was withdrawn."""
        self._asks[offer.partition].pop(ask_id, None)
        if not self._waiting:
            return [Decline(offer)]
        waiter, _ = self._waiting.popitem(last=False)
        return [Give(waiter, offer), *self._withdraw(), *self.ask()]

    def ended(self, ask_id: int, partition: int) -> None:
        """Take the end of an ask without an offer."""
        self._asks[partition].pop(ask_id, None)

    def lost(self, partition: int) -> None:
        """Forget the asks of a partition whose stream ended."""
        if partition in self._asks:
            self._asks[partition].clear()

    def waiters(self) -> list[Any]:
        """Return who waits."""
        return list(self._waiting)

    @property
    def reachable(self) -> bool:
        """Whether some partition can be asked."""
        return any(map(self._available, self._partitions))

    @property
    def _wanted(self) -> int:
        return min(len(self._waiting), ASKS_MAX)

    def _withdraw(self) -> list[Action]:
        wanted = self._wanted
        actions: list[Action] = []
        for partition, asks in self._asks.items():
            while len(asks) > wanted:
                ask_id, _ = asks.popitem()
                actions.append(WithdrawAsk(ask_id, partition))
        return actions
