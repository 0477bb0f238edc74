"""What client processes of many connections are told, and what they report. Pure."""

from array import array
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bench import row

# What the name of the queue of replies ends with.
REPLIES: Final = "-replies"


class Role(Enum):
    """What each connection does, one message after the other."""

    SEND = "send"
    """Await the acceptance of each send."""
    RECEIVE = "receive"
    """Receive one, settle it, await the confirmation if there is one."""
    REQUEST = "request"
    """Send to the queue, and receive a reply from the queue of replies: half of the connections.
    The others receive, and send replies."""


@dataclass(frozen=True, slots=True)
class Order:
    """Work for a process: so many connections, for so long."""

    role: Role
    connections: int
    seconds: float


@dataclass(slots=True)
class Report:
    """What a process did."""

    # Of each message, or request, in seconds.
    took_s: "array[float]"
    # From the first to the last.
    lasted_s: float

    def milliseconds(self, share: float) -> float:
        """Return the time that `share` of the messages did not exceed."""
        return 1_000 * row.percentile(self.took_s, share) if self.took_s else 0.0
