"""Orders to client processes, and their answers. Pure."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

# Unsettled deliveries of each process at any time.
WINDOW: Final = 1_000
# Answers.
READY: Final = "ready"
DONE: Final = "done"
BROKEN: Final = "broken"


class Role(Enum):
    """What a process does with messages."""

    SEND = "send"
    RECEIVE = "receive"
    """Each disposition is a frame of its own."""
    RECEIVE_JOINED = "receive, joined"
    """Proton joins the dispositions of deliveries that follow each other."""


@dataclass(frozen=True, slots=True)
class Order:
    """Work for a process: `count` messages, or as many as it can in `seconds`."""

    role: Role
    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the queue of a server is."""

    address: str
    """HOST:PORT."""
    queue: str
    """The address of a link to it, for sending and receiving."""
    durable: bool
    """Whether messages ask to be stored: some brokers keep others in memory only."""
    echoes: bool
    """Whether rcv-settle-mode `second` is supported: the sender settles first, which confirms."""
