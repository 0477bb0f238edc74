"""Where a read begins and ends, by partition: names, numbers and times become numbers."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from bendybus.spark.errors import OptionError
from bendybus.spark.option_values import EARLIEST, LATEST, Position
from bendybus.spark.source.offsets import Offset
from bendybus.spark.source.ranges import Extent, shown

AT_THE_END: Final = Position(LATEST)
# (partition, time) → the number after which everything was enqueued then or later.
NumberAt = Callable[[int, datetime], int]


def begins(position: Position, extents: Sequence[Extent], number_at: NumberAt) -> dict[int, int]:
    """Return after which number each partition is read; without those that are unavailable."""
    found = {}
    for extent in extents:
        number = _number(position, extent, number_at, EARLIEST)
        if number is not None:
            found[extent.partition] = number
    return found


def ends(position: Position, extents: Sequence[Extent], number_at: NumberAt) -> dict[int, int]:
    """Return up to which number each partition is read; without those that cannot be known."""
    found = {}
    for extent in extents:
        if extent.unavailable:
            continue
        number = _number(position, extent, number_at, LATEST)
        if number is not None:
            found[extent.partition] = min(number, extent.stable_tail)
    return found


def check(name: str, position: Position, extents: Sequence[Extent], path: str) -> None:
    """Raise OptionError for numbers of partitions that the entity does not have."""
    known = {extent.partition for extent in extents}
    for partition in position.numbers or {}:
        if partition not in known:
            raise OptionError(
                f"option {name}: {path} has no partition {partition}; it has "
                f"{', '.join(map(str, sorted(known)))}"
            )


def beyond(position: Position, extents: Sequence[Extent], path: str) -> list[str]:
    """Return a sentence for each partition that ends before the number after which to read."""
    numbers = position.numbers or {}
    return [
        f"option startingOffsets: {path}, partition {extent.partition} ends at "
        f"{shown(extent.stable_tail)}, before {shown(number)}, after which to read"
        for extent in extents
        if not extent.unavailable
        and isinstance(number := numbers.get(extent.partition), int)
        and number > extent.stable_tail
    ]


def unknown(position: Position, extent: Extent, otherwise: str) -> bool:
    """Whether a position cannot be known, since the partition is unavailable."""
    if not extent.unavailable:
        return False
    wanted: int | str | None = position.name
    if position.numbers is not None:
        wanted = position.numbers.get(extent.partition, otherwise)
    return position.time is not None or wanted == LATEST


def initial(
    position: Position, extents: Sequence[Extent], number_at: NumberAt, owner: str
) -> Offset:
    """Return the offset at which a new query starts."""
    numbers = begins(position, extents, number_at)
    answered = [extent for extent in extents if not extent.unavailable]
    return Offset(
        numbers,
        {extent.partition: extent.incarnation for extent in answered},
        {
            extent.partition: extent.low_watermark
            for extent in answered
            if extent.low_watermark > numbers[extent.partition]
        },
        owner,
    )


def _number(position: Position, extent: Extent, number_at: NumberAt, otherwise: str) -> int | None:
    partition = extent.partition
    if position.time is not None:
        return None if extent.unavailable else number_at(partition, position.time)
    wanted: int | str = position.name
    if position.numbers is not None:
        wanted = position.numbers.get(partition, otherwise)
    if isinstance(wanted, int):
        return wanted if extent.unavailable else min(wanted, extent.stable_tail)
    if extent.unavailable:
        return None
    if wanted == LATEST or not extent.first_number:
        return extent.stable_tail
    return extent.first_number - 1
