"""Whether receives and settlements of one receiver follow each other at once, as in a loop.

While they do, the ask of the next step rides with the last settlement of this one: `ask_ahead`.
Used by the caller's thread or loop. A receiver that several callers share has no steps;
that costs a round trip, nothing else.
"""

import time
from collections.abc import Sequence
from typing import Final

from bendybus.client.core.settlements import Settlement
from bendybus.client.messages.received_message import ServiceBusReceivedMessage

# A receive that comes later than this after an outcome: the loop does something else in between.
_IN_STEP_S: Final = 0.05


class ReceiveSteps:
    """See the module."""

    __slots__ = ("_count", "_given", "_wait_s", "following")

    def __init__(self) -> None:
        # What the last receive gave, and what it asked for.
        self._given: Sequence[ServiceBusReceivedMessage] = ()
        self._count = 0
        self._wait_s = 0.0
        # Whether the current receive followed a settlement at once.
        self.following = False

    def settled(self) -> bool:
        """Whether the last receive gave messages, and all of them are settled."""
        given = self._given
        return bool(given) and all(message._settled for message in given)

    def begin(self, *, settled: bool, outcome_s: float) -> None:
        """Begin a receive; `outcome_s`: when the last outcome of a settlement came."""
        self._given = ()
        self.following = settled and time.monotonic() - outcome_s < _IN_STEP_S

    def gave(
        self, messages: Sequence[ServiceBusReceivedMessage], count: int, wait_s: float
    ) -> None:
        """End a receive of up to `count` messages within `wait_s`."""
        self._given, self._count, self._wait_s = messages, count, wait_s

    def ask_with(
        self, settlement: Settlement, messages: Sequence[ServiceBusReceivedMessage]
    ) -> None:
        """Let the next ask ride with a settlement, if the step ends with it."""
        given = self._given
        if self.following and given and messages[-1] is given[-1] and self._ends(messages):
            settlement.next_count, settlement.next_wait_s = self._count, self._wait_s

    def _ends(self, messages: Sequence[ServiceBusReceivedMessage]) -> bool:
        settling = set(map(id, messages))
        return all(message._settled or id(message) in settling for message in self._given)
