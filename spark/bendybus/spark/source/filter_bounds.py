"""Filters of a query that choose what is read of the bus, instead of what is kept of it.

A filter that is not understood, or only in part, stays with Spark as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

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
