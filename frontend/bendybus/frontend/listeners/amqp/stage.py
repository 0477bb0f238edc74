"""The stages of a connection whose front end stops; see `hand_over`."""

from enum import IntEnum


class Stage(IntEnum):
    """Each includes those before it. Links that are attached later are treated as all others."""

    SERVES = 0
    RECEIVERS_FINISHED = 1
    """Receivers get no more messages."""
    SENDERS_FINISHED = 2
    """Senders get no more credit."""
    HANDED_OVER = 3
    """Input of the client is read and dropped."""
