"""What a batch read reads: one range a partition, within the query's filters, cut into tasks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from bendybus.domain import sequence_number
from bendybus.spark.bus import Bus
from bendybus.spark.errors import DataLossError
from bendybus.spark.options import ReadOptions
from bendybus.spark.source import positions, ranges
from bendybus.spark.source.ranges import Extent, Range

_TICK: Final = timedelta(milliseconds=1)
_COMPARISONS: Final = (
    "EqualTo",
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What filters leave of a read. None: everything."""

    partitions: frozenset[int] | None = None
    after: int | None = None
    upto: int | None = None
    # Enqueued at this time or later; before this time. Both in whole milliseconds, outward.
    since: datetime | None = None
    before: datetime | None = None


def plan(
    options: ReadOptions,
    bus: Bus,
    bounds: Bounds | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Range]:
    """Return what the tasks of a read read. Raises PipelineError.

    `bounds`: what filters of the query leave of it. All partitions have to answer.
    """
    # The end of each is needed, so each must be there.
    extents = positions.awaited_extents(
        bus.extents, [options.starting, positions.AT_THE_END, options.ending], options, clock, sleep
    )
    starts = positions.begins(options.starting, extents, bus.number_at)
    stops = positions.ends(options.ending, extents, bus.number_at)
    chosen = _partitions(options, bus, bounds)
    found = []
    for extent in extents:
        if chosen is not None and extent.partition not in chosen:
            continue
        after, upto = starts[extent.partition], stops[extent.partition]
        _check_loss(options, extent, after)
        if extent.first_number:
            after = max(after, extent.first_number - 1)
        after, upto = _within(_sound(bounds, options), bus, extent, after, upto)
        if extent.first_number and upto > after:
            found.append(
                Range(extent.partition, after, upto, extent.incarnation, extent.low_watermark)
            )
    return ranges.cut(found, options.min_partitions)


def _partitions(options: ReadOptions, bus: Bus, bounds: Bounds | None) -> frozenset[int] | None:
    """Return the partitions that can hold what is wanted; None: all."""
    chosen = None if bounds is None else bounds.partitions
    if options.session_id is None:
        return chosen
    of_session = frozenset({bus.partition_of(options.session_id)})
    return of_session if chosen is None else of_session & chosen


def _check_loss(options: ReadOptions, extent: Extent, after: int) -> None:
    """Raise if the read was asked to begin at a number, and what follows it is gone."""
    numbers = options.starting.numbers or {}
    asked = isinstance(numbers.get(extent.partition), int)
    counter = sequence_number.counter_of(after)
    if asked and counter and extent.low_watermark > after and options.fail_on_data_loss:
        raise DataLossError(
            f"{options.entity.path}, partition {extent.partition}: messages up to "
            f"{extent.low_watermark} expired or were purged, and startingOffsets asks for those "
            f"after {after}. Set failOnDataLoss=false to read what is there."
        )


def _sound(bounds: Bounds | None, options: ReadOptions) -> Bounds | None:
    """Leave out what numbers do not tell: dead letters keep their times, which do not rise."""
    if bounds is None or not options.entity.sub_queue:
        return bounds
    return replace(bounds, before=None)


def _within(
    bounds: Bounds | None, bus: Bus, extent: Extent, after: int, upto: int
) -> tuple[int, int]:
    """Return the part of a range that filters leave."""
    if bounds is None:
        return after, upto

    def number_at(moment: datetime) -> int:
        return bus.number_at(extent.partition, moment)

    if bounds.after is not None:
        after = max(after, bounds.after)
    if bounds.upto is not None:
        upto = min(upto, bounds.upto)
    if bounds.since is not None:
        after = max(after, number_at(bounds.since))
    if bounds.before is not None:
        upto = min(upto, number_at(bounds.before))
    return after, upto


def take(filters: Sequence[Any], bounds: Bounds) -> tuple[Bounds, list[Any]]:
    """Return the bounds with what these filters add, and the filters that Spark still needs."""
    left = []
    for each in filters:
        found = _taken(each, bounds)
        if found is None or tuple(each.attribute) == ("enqueued_at",):
            # Times are compared in milliseconds here, in microseconds there.
            left.append(each)
        bounds = found or bounds
    return bounds, left


def _taken(given: Any, bounds: Bounds) -> Bounds | None:
    kind, column = type(given).__name__, tuple(getattr(given, "attribute", ()))
    if kind == "In" and column == ("partition",):
        return _in_partitions(bounds, given.value)
    if kind not in _COMPARISONS or given.value is None:
        return None
    value = given.value
    if column == ("partition",) and kind == "EqualTo":
        return _in_partitions(bounds, (value,))
    if column == ("sequence_number",):
        return _numbered(kind, value, bounds)
    if column == ("enqueued_at",) and isinstance(value, datetime):
        return _timed(kind, value, bounds)
    return None


def _in_partitions(bounds: Bounds, values: Sequence[Any]) -> Bounds:
    chosen = frozenset(int(value) for value in values if value is not None)
    known = bounds.partitions
    return replace(bounds, partitions=chosen if known is None else known & chosen)


def _numbered(kind: str, value: int, bounds: Bounds) -> Bounds:
    after, upto = bounds.after, bounds.upto
    if kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        low = value if kind == "GreaterThan" else value - 1
        after = low if after is None else max(after, low)
    if kind in ("EqualTo", "LessThan", "LessThanOrEqual"):
        high = value - 1 if kind == "LessThan" else value
        upto = high if upto is None else min(upto, high)
    return replace(bounds, after=after, upto=upto)


def _timed(kind: str, value: datetime, bounds: Bounds) -> Bounds:
    since, before = bounds.since, bounds.before
    if kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        since = value if since is None else max(since, value)
    if kind in ("EqualTo", "LessThan", "LessThanOrEqual"):
        # Numbers before a time end below it, so a whole millisecond more is read.
        after = value + _TICK
        before = after if before is None else min(before, after)
    return replace(bounds, since=since, before=before)
