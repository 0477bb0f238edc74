"""When the receives of a program begin, and how long one waits that gets nothing.

The SDK for Python gives credit when a receive begins, and says nothing when it ends or how long it
may take. If its connection is lost, it pauses for 1.6 s, connects again and goes on with what is
left of that time; a receive that has less left raises an error. So a connection may end when its
receives have enough time left, which the ones before them tell.
"""

import math
from typing import Final

# The product that the SDK for Python names in its open.
RECEIVES_BY_CALL: Final = "azsdk-python-servicebus"
# The time to connect again: the pause, up to a second in which the SDK waits for a thread of its
# own, and a new connection.
CONNECTS_S: Final = 3.5
# Usual waiting times, for a link without a measured one.
USUAL_S: Final = (5.0, 10.0, 30.0, 60.0)


class ReceiveCalls:
    """The receives of one link. Times are in seconds, on the loop's clock."""

    __slots__ = ("_began_s", "_delivered", "_flows", "_part", "_shortest_s")

    def __init__(self) -> None:
        self._flows = 0
        self._delivered = 0
        self._began_s = -math.inf
        # The shortest time between two that began, the first of which got nothing: the program may
        # pause between them.
        self._shortest_s = math.inf
        # That is of the first of this link, which may have begun on a connection that was lost.
        self._part = True

    def asked(self, now_s: float, flows: int, delivered: int) -> None:
        """Take note of credit. `flows`, `delivered`: how often it was given, how many were sent."""
        if flows == self._flows:
            return
        if self._flows and delivered == self._delivered:
            took_s = now_s - self._began_s
            if self._shortest_s < math.inf and self._part:
                self._part, self._shortest_s = False, took_s
            self._shortest_s = min(self._shortest_s, took_s)
        self._flows, self._delivered, self._began_s = flows, delivered, now_s

    def has_time(self, now_s: float, since_s: float, *, guess: bool = False) -> bool:
        """Whether the receive under way began after `since_s`, or has time to connect again.

        `guess`: assume a usual time on a link without a measured one.
        """
        if self._began_s > since_s:
            return True
        waited_s, takes_s = now_s - self._began_s, self._shortest_s
        if takes_s == math.inf:
            usual_s = (each for each in USUAL_S if guess and each > waited_s)
            takes_s = next(usual_s, waited_s)
        return waited_s < takes_s - CONNECTS_S
