"""What newer peers read in frames: merged commands or events, and heads beside bodies. Pure.

Either end says in the metadata of the call (the caller) or in the initial metadata (the server)
what it reads; otherwise it gets what a peer of 0.3 reads, so that every hop is served by itself.

Merged frames (`further` of the streams of receiving): each gRPC frame costs both ends more than
what is in it, so what waits to be written at the same time goes in one; else each is sent alone.

Heads of messages: a peer that does not read them gets each message whole: head and body, one after
the other, are the message of format 0.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import add
from typing import Any, Final, TypeVar

from bendybus.domain.errors import InvalidArgument

READS_MERGED: Final = ("bendybus-merged-frames", "1")
# Commands or events of one frame.
PARTS_MAX: Final = 64
# Bytes of those after the first one. What is larger than that gains nothing by company.
BYTES_MAX: Final = 64 * 1024
Frame = TypeVar("Frame", bound=Any)
READS_HEADS: Final = ("bendybus-message-heads", "1")
Columns = TypeVar("Columns", bound=Any)


def merged_read_by(metadata: Iterable[tuple[str, Any]] | None) -> bool:
    """Whether the other end of a call reads merged frames, by its metadata."""
    # As pairs: `in` of gRPC's own type looks at names only.
    return READS_MERGED in tuple(metadata or ())


def merged(first: Frame, take: Callable[[int], Frame | None]) -> Frame:
    """Return `first` with what may go with it; `take(bytes_max)` gives the next one that is not
    larger, None when there is none.
    """
    left = BYTES_MAX
    others: list[Frame] = []
    while len(others) < PARTS_MAX - 1 and (other := take(left)) is not None:
        left -= other.ByteSize()
        others.append(other)
    if others:
        first.further.extend(others)
    return first


def parts(frame: Frame) -> Iterator[Frame]:
    """Yield the commands or events of a frame. Raises InvalidArgument for one out of bounds."""
    yield frame
    further = frame.further
    if not further:
        return
    if len(further) >= PARTS_MAX:
        raise InvalidArgument(
            "further", f"a frame must have at most {PARTS_MAX} parts (got {len(further) + 1})."
        )
    for part in further:
        if part.further:
            raise InvalidArgument("further", "a part of a frame must not have parts itself.")
        yield part


def heads_read_by(metadata: Iterable[tuple[str, Any]] | None) -> bool:
    """Whether the other end of a call reads heads, by its metadata."""
    # As pairs: `in` of gRPC's own type looks at names only.
    return READS_HEADS in tuple(metadata or ())


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
