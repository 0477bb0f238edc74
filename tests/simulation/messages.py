"""Messages of the simulation, as clients know them."""

from dataclasses import dataclass


@dataclass
class Lease:
    """A message that a receiver got."""

    payload: str
    number: int
    token: bytes


@dataclass
class Sent:
    """A unit that a client sends, and where it was in the frame of its first try."""

    payloads: list[str]
    key: str
    position: int
    # Chooses the partition, with whose sends it went together.
    lane: int | None = None
