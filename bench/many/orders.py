"""Orders to client processes that have many connections, and their reports. Pure."""

from array import array
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bench import row

# The end of the name of the queue for replies.
REPLIES: Final = "-replies"


class Role(Enum):
    """The work of each connection: one message after the other."""

    SEND = "send"
    """Await the acceptance of each send."""
    RECEIVE = "receive"
    """Receive one, settle it, await the confirmation if there is one."""
    REQUEST = "request"
    """Send to the queue, and receive a reply from the queue of replies: half of the connections.
    The others receive, and send replies."""


@dataclass(frozen=True, slots=True)
class Order:
    """Work for a process: the number of its connections, and for how long they work."""

    role: Role
    connections: int
    seconds: float


@dataclass(slots=True)
class Report:
    """The result of an order."""

    # One for each message, or request; in seconds.
    took_s: "array[float]"
    # From the first to the last.
    lasted_s: float

    def milliseconds(self, share: float) -> float:
        """Return the time that `share` of the messages did not exceed."""
        return 1_000 * row.percentile(self.took_s, share) if self.took_s else 0.0
