"""Messages on their way into a partition, in columns. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple


class Carried(NamedTuple):
    """What a message that is forwarded takes along beside the columns of a send; as in Row."""

    changed_properties: bytes | None
    dead_letter_reason: str | None
    dead_letter_error_description: str | None
    dead_letter_source: str | None
    enqueued_sequence_number: int
    extra_bytes: int
    hops: int


@dataclass(slots=True)
class Batch:
    """Messages in columns; a column is empty or as long as `payloads`."""

    payloads: Sequence[bytes]
    message_ids: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    session_ids: Sequence[str] = ()
    session_present: Sequence[bool] = ()
    time_to_live_ms: Sequence[int] = ()
    scheduled_ms: Sequence[int] = ()
    heads: Sequence[bytes] = ()
    formats: Sequence[int] = ()
    # Only of what is forwarded.
    carried: Sequence[Carried] = ()
    # Sequence numbers reserved for messages of a transaction, at their destination; 0: none.
    reserved: Sequence[int] = ()

    def chosen(self, positions: Sequence[int]) -> "Batch":
        """Return some of the messages."""
        columns = (getattr(self, name) for name in self.__slots__)
        return Batch(*([column[i] for i in positions] if column else () for column in columns))

    def content_bytes(self) -> int:
        """Return the bytes of all heads and payloads."""
        return sum(map(len, self.payloads)) + sum(map(len, self.heads))

    def sizes(self) -> list[int]:
        """Return the bytes of each message: its head and its payload."""
        sizes = map(len, self.payloads)
        return list(map(add, sizes, map(len, self.heads)) if self.heads else sizes)
