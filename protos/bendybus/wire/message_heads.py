"""Heads of messages beside their bodies: which peers read them, and whole messages for others.

Either end says in the metadata of the call (the caller) or in the initial metadata (the server)
that it reads heads. A peer that does not, as in 0.3, gets each message whole: head and body, one
after the other, are the message of format 0. So every hop is served by itself.
"""

from collections.abc import Iterable
from operator import add
from typing import Any, Final, TypeVar

READS: Final = ("bendybus-message-heads", "1")

Columns = TypeVar("Columns", bound=Any)


def read_by(metadata: Iterable[tuple[str, Any]] | None) -> bool:
    """Whether the other end of a call reads heads, by its metadata."""
    # As pairs: `in` of gRPC's own type looks at names only.
    return READS in tuple(metadata or ())


def join(columns: Any) -> None:
    """Make the messages of a MessageBatch or DeliveredBatch whole, in place."""
    if columns.heads:
        columns.messages[:] = list(map(add, columns.heads, columns.messages))
        del columns.heads[:]
    del columns.formats[:]


def joined(columns: Columns) -> Columns:
    """Return a MessageBatch or DeliveredBatch with whole messages; a copy, unless they are."""
    if not columns.formats:
        return columns
    made: Columns = type(columns)()
    made.CopyFrom(columns)
    join(made)
    return made


def whole(request: Any) -> Any:
    """Return a frame of a send stream with whole messages; a copy, unless they are."""
    if not request.batch.formats:
        return request
    made = type(request)()
    made.CopyFrom(request)
    join(made.batch)
    return made
