"""Frames of several commands or events (`further` of the streams of sending and receiving). Pure.

Each gRPC frame costs both ends more than what is in it, so what waits to be written at the same
time goes in one; else each is sent alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from bendybus.domain.errors import InvalidArgument

# Parts of one frame: sends, commands, events.
PARTS_MAX: Final = 64
# Bytes of those after the first one. What is larger than that gains nothing by company.
BYTES_MAX: Final = 64 * 1024
Frame = TypeVar("Frame", bound=Any)


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
    """Yield the parts of a frame. Raises InvalidArgument for one out of bounds."""
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


def kept(part: Frame) -> Frame:
    """Return a copy of a part of a frame, which would keep all of the frame in memory."""
    made: Frame = type(part)()
    made.CopyFrom(part)
    return made
