"""Where a read begins and ends, by partition: names, numbers and times become numbers.

Partitions without which a read cannot be planned are waited for, for a bounded time. Where a
watermark follows, a batch ends in all partitions at one enqueued time (`Dealer`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.domain.sequence_number import base_below
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.option_table import EARLIEST, LATEST, Position
from bendybus.spark.options import ReadOptions
from bendybus.spark.source import ranges
from bendybus.spark.source.ranges import Extent, Offset, shown

AT_THE_END: Final = Position(LATEST)
# (partition, time) → the number after which everything was enqueued then or later.
NumberAt = Callable[[int, datetime], int]
logger = logging.getLogger(__name__)
LOOK_S: Final = 0.5
Spans = Mapping[int, tuple[int, int]]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Later than all messages.
_LAST_MS: Final = 1 << 43
# Of the limit: a batch that has so many is large enough, and the search ends.
_ENOUGH: Final = 0.75
_FIRST_GUESS_MS: Final = 1_000


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
    """Raise OptionError for numbers of partitions, or in a form, that the entity does not have."""
    known = {extent.partition: extent for extent in extents}
    for partition, number in (position.numbers or {}).items():
        if partition not in known:
            raise OptionError(
                f"option {name}: {path} has no partition {partition}; it has "
                f"{', '.join(map(str, sorted(known)))}"
            )
        tail = known[partition].stable_tail
        if (
            isinstance(number, int)
            and number
            and not known[partition].unavailable
            and base_below(number) != base_below(tail)
        ):
            raise OptionError(
                f"option {name}: {number} is not a sequence number of {path}, partition "
                f"{partition}, whose last one is {tail}; write the numbers that the column "
                "sequence_number shows, -2 (earliest) or -1 (latest)"
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
        tail = extent.stable_tail
        return wanted if extent.unavailable else max(base_below(tail), min(wanted, tail))
    if extent.unavailable:
        return None
    if wanted == LATEST or not extent.first_number:
        return extent.stable_tail
    return extent.first_number - 1


def awaited_extents(
    look: Callable[[], list[Extent]],
    wanted: Sequence[Position],
    options: ReadOptions,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> list[Extent]:
    """Return the extents once these positions are known. Raises PipelineError, OptionError."""
    until = clock() + options.timeout_s
    while True:
        found = look()
        path = options.entity.path
        check("startingOffsets", options.starting, found, path)
        check("endingOffsets", options.ending, found, path)
        missing = [
            extent
            for extent in found
            if any(unknown(position, extent, EARLIEST) for position in wanted)
        ]
        if not missing:
            _check_start(options, found)
            return found
        if clock() >= until:
            raise PipelineError(
                f"{path}, partition {missing[0].partition}: is unavailable, and where to read it "
                f"is not known without it: {missing[0].unavailable} Try again when it is there, "
                "or set a longer timeout."
            )
        sleep(LOOK_S)


def _check_start(options: ReadOptions, found: list[Extent]) -> None:
    """Raise OptionError for a start beyond the end; log it where losses are no failures."""
    for sentence in beyond(options.starting, found, options.entity.path):
        if options.fail_on_data_loss:
            raise OptionError(
                f"{sentence}. Name a number that was enqueued, or -1 for what comes; or set "
                "failOnDataLoss=false to read from the end on."
            )
        logger.warning("%s; it is read from its end on", sentence)


class Dealer:
    """Deals the batches of one query, each of which begins where the one before ended."""

    def __init__(self, number_at: NumberAt) -> None:
        self._number_at = number_at
        # Before which all was dealt, and how much time the last batch was of: the next one is
        # likely to be of as much.
        self._dealt_ms = 0
        self._length_ms = _LAST_MS // 4

    def ends(self, spans: Spans, limit: int) -> dict[int, int]:
        """Return where each partition's part of a batch ends; at most `limit` numbers.

        `spans`: (after, last) of each partition. Raises what `number_at` does.
        """
        few = {partition: after for partition, (after, _) in spans.items()}
        many = {partition: last for partition, (_, last) in spans.items()}
        if _count(spans, many) <= limit:
            return many
        low_ms, high_ms, step_ms = self._dealt_ms, _LAST_MS, 2 * self._length_ms
        while high_ms - low_ms > 1 and _count(spans, few) < _ENOUGH * limit:
            # From what was dealt on in growing steps, until it is too much; then by halving.
            middle_ms = low_ms + min(step_ms, (high_ms - low_ms + 1) // 2)
            found = self._before(spans, middle_ms)
            if _count(spans, found) <= limit:
                low_ms, few, step_ms = middle_ms, found, 2 * step_ms
            else:
                high_ms, many = middle_ms, found
        if not _count(spans, few):
            # All of one millisecond, which is late for no watermark that waits at all.
            narrow = {p: (after, many[p]) for p, (after, _) in spans.items() if many[p] > after}
            return ranges.deal(narrow, limit)
        if self._dealt_ms:
            self._length_ms = max(1, low_ms - self._dealt_ms)
        else:
            self._length_ms = _FIRST_GUESS_MS
        self._dealt_ms = low_ms
        return {p: number for p, number in few.items() if number > spans[p][0]}

    def _before(self, spans: Spans, moment_ms: int) -> dict[int, int]:
        """Return the last number of each partition that was enqueued before a time."""
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
        return {
            partition: min(last, max(after, self._number_at(partition, moment)))
            for partition, (after, last) in spans.items()
        }


def _count(spans: Spans, ends: Mapping[int, int]) -> int:
    return sum(ends[partition] - after for partition, (after, _) in spans.items())
