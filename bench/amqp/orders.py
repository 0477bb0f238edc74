"""What client processes are told, and what they answer. Pure."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

# Deliveries under way at any time, of each process.
WINDOW: Final = 1_000
# Answers.
READY: Final = "ready"
DONE: Final = "done"
BROKEN: Final = "broken"


class Role(Enum):
    """What is done with messages."""

    SEND = "send"
    RECEIVE = "receive"
    """Each disposition is a frame of its own."""
    RECEIVE_JOINED = "receive, joined"
    """Proton joins the dispositions of deliveries that follow each other."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to do: `count` messages, or what it can in so many seconds."""

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
