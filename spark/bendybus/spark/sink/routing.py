"""Which partition a row goes to: the same in every attempt at a task. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bendybus.spark.errors import RowError
from bendybus.spark.sink.messages import Encoded

# Rows in a row that go to one partition, where any would do.
RUN: Final = 500


@dataclass(frozen=True, slots=True)
class Target:
    """What a task has to know of the entity that it writes to."""

    path: str
    partitions: tuple[int, ...]
    partition_of: Callable[[str], int]
    detects_duplicates: bool
    requires_session: bool
    message_bytes_max: int


def partition(target: Target, message: Encoded, task: int, row: int) -> int:
    """Return the partition of a row. Raises RowError."""
    if target.requires_session and message.session_id is None:
        raise RowError(f"session_id: is required; {target.path} has sessions")
    size_bytes = len(message.head) + len(message.body)
    if size_bytes > target.message_bytes_max:
        raise RowError(
            f"body: the message has {size_bytes} bytes; {target.path} takes at most "
            f"{target.message_bytes_max}"
        )
    key = message.key(target.detects_duplicates)
    if key is not None:
        return target.partition_of(key)
    return target.partitions[(task + row // RUN) % len(target.partitions)]
