"""Frames that carry several commands or events: `further` of the streams of receiving. Pure.

Each gRPC frame costs both ends more than what is in it, so what waits to be written at the same
time goes in one. Either end says in the metadata of the call (the caller) or in the initial
metadata (the server) that it reads merged frames; otherwise each is sent alone, as in 0.3.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from bendybus.domain.errors import InvalidArgument

READS: Final = ("bendybus-merged-frames", "1")
# Commands or events of one frame.
PARTS_MAX: Final = 64
# Bytes of those after the first one. What is larger than that gains nothing by company.
BYTES_MAX: Final = 64 * 1024

Frame = TypeVar("Frame", bound=Any)


def read_by(metadata: Iterable[tuple[str, Any]] | None) -> bool:
    """Whether the other end of a call reads merged frames, by its metadata."""
    # As pairs: `in` of gRPC's own type looks at names only.
    return READS in tuple(metadata or ())


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
