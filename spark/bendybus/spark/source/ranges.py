"""Offsets, and the ranges between them that a batch reads, cut into tasks. No I/O.

start ──┬─ lost? ──► sentence
        └─ deal(limit) ──► end ──► ranges(start, end) ──► cut(minPartitions)

An offset says how far a read came in each partition, as Spark keeps it in its checkpoint.

    {"v": 1, "owner": "spark-1f0c…", "seq": {"0": 41}, "inc": {"0": "a1-9c"}, "low": {"0": 57},
     "shape": {"minPartitions": 8, "states": ["active"], "sessionId": null}}

`seq`: the last number that was handed over. `inc`: the incarnation it is of; a partition without
one did not answer yet. `low`: what was gone already when it was above the number before: messages
at or below it that are not there any more are no loss of this query. `shape`: the options that give
the batch that ends here its tasks and its rows, so that a repeat of it has the same ones.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.domain.sequence_number import base_below, base_of, counter_of
from bendybus.spark.errors import PipelineError

# Without one, a message is taken to have as many bytes.
_MESSAGE_BYTES_DEFAULT: Final = 1_024
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a partition begins and ends. `unavailable`: why it did not answer."""

    partition: int
    incarnation: str = ""
    low_watermark: int = 0
    stable_tail: int = 0
    first_number: int = 0
    messages: int = 0
    size_bytes: int = 0
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers of one partition, (after, upto], that one task reads.

    `gone`: what was gone already when the range was planned.
    """

    partition: int
    after: int
    upto: int
    incarnation: str = ""
    gone: int = 0

    @property
    def name(self) -> str:
        """What the column `range` shows: the same however often the range is read."""
        return f"{self.incarnation}:{self.after}:{self.upto}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What gives a batch its tasks and its rows, beside its ranges: options by their names."""

    min_partitions: int = 0
    states: tuple[str, ...] = ("active",)
    session_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps."""
        return {
            "minPartitions": self.min_partitions,
            "states": list(self.states),
            "sessionId": self.session_id,
        }


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a read came, by partition. A number that is no message's is the beginning."""

    numbers: Mapping[int, int]
    incarnations: Mapping[int, str] = field(default_factory=dict)
    gone: Mapping[int, int] = field(default_factory=dict)
    owner: str = ""
    # None: not recorded, as it was not before 0.7.0.
    shape: Shape | None = None

    def number(self, partition: int) -> int:
        """Return the last number that was handed over."""
        return self.numbers.get(partition, 0)

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps."""
        made: dict[str, Any] = {"v": VERSION}
        if self.owner:
            made["owner"] = self.owner
        made["seq"] = _by_text(self.numbers)
        made["inc"] = _by_text(self.incarnations)
        if self.gone:
            made["low"] = _by_text(self.gone)
        if self.shape is not None:
            made["shape"] = self.shape.to_json()
        return made


def losses(start: Offset, extents: Iterable[Extent]) -> dict[int, str]:
    """Return what is lost of what follows an offset: partition → why."""
    found = {}
    for extent in extents:
        known = start.incarnations.get(extent.partition)
        number = start.number(extent.partition)
        if extent.unavailable or (known is None and not counter_of(number)):
            continue
        if known not in (None, extent.incarnation):
            found[extent.partition] = (
                "its numbers are others than those read before: it was recreated or restored, or "
                "the checkpoint is another entity's"
            )
        elif counter_of(number) and base_below(extent.stable_tail) != base_below(number):
            found[extent.partition] = (
                f"{number}, which startingOffsets names, is not one of its sequence numbers, the "
                f"last of which is {extent.stable_tail}"
            )
        elif extent.stable_tail < number:
            found[extent.partition] = (
                f"it ends at {shown(extent.stable_tail)}, before {shown(number)}, which "
                f"{'startingOffsets names' if known is None else 'was read'}"
            )
        elif known is None:
            continue
        elif extent.low_watermark > max(_begin(start, extent), start.gone.get(extent.partition, 0)):
            found[extent.partition] = (
                f"messages up to {shown(extent.low_watermark)} expired or were purged, and only "
                f"those up to {shown(number)} were read"
            )
    return found


def advanced(
    start: Offset, extents: Sequence[Extent], ends: Mapping[int, int], owner: str = ""
) -> Offset:
    """Return the offset at these ends; partitions without an end stay where they are."""
    numbers, incarnations = dict(start.numbers), dict(start.incarnations)
    gone = {}
    for extent in extents:
        partition = extent.partition
        # A partition that is away has one, too: only entities in one partition have other numbers.
        numbers.setdefault(partition, base_of(partition, plain=len(extents) == 1))
        if partition in ends and not extent.unavailable:
            numbers[partition] = ends[partition]
            incarnations[partition] = extent.incarnation
            if extent.low_watermark > _begin(start, extent):
                gone[partition] = extent.low_watermark
        elif partition in start.gone:
            gone[partition] = start.gone[partition]
    return Offset(numbers, incarnations, gone, owner or start.owner)


def spans(
    start: Offset, extents: Sequence[Extent], targets: Mapping[int, int] | None
) -> dict[int, tuple[int, int]]:
    """Return (after, last) of what is new, by partition; without those that have nothing new.

    `targets`: where it ends at most.
    """
    found = {}
    for extent in extents:
        if extent.unavailable or not extent.first_number:
            continue
        last = extent.stable_tail
        if targets is not None:
            # By counters: it may have been made again with numbers of another form.
            most = min(counter_of(last), counter_of(targets.get(extent.partition, 0)))
            last = base_below(last) + most
        # Numbers before the first message are passed over without being counted.
        first = max(_begin(start, extent), extent.first_number - 1)
        if last > first:
            found[extent.partition] = (first, last)
    return found


def deal(spans: Mapping[int, tuple[int, int]], limit: int | None) -> dict[int, int]:
    """Return where each partition's part of a batch ends.

    `limit` numbers are dealt by lag, at least one each.
    """
    lags = {partition: last - after for partition, (after, last) in spans.items()}
    total = sum(lags.values())
    if limit is None or total <= limit:
        return {partition: last for partition, (_, last) in spans.items()}
    # One each, and the rest by lag.
    rest, others = max(0, limit - len(lags)), max(1, total - len(lags))
    return {
        partition: spans[partition][0] + 1 + rest * (lag - 1) // others
        for partition, lag in lags.items()
    }


def waiting(start: Offset, ends: Mapping[int, int], extents: Sequence[Extent]) -> int:
    """Return how many messages there are at most between an offset and these ends."""
    return sum(
        min(ends[extent.partition] - _begin(start, extent), extent.messages)
        for extent in extents
        if extent.partition in ends
    )


def within_bytes(extents: Sequence[Extent], most_bytes: int) -> int:
    """Return how many messages take so many bytes, by their average size; at least one."""
    messages = sum(extent.messages for extent in extents)
    size_bytes = sum(extent.size_bytes for extent in extents)
    average = max(1, size_bytes // messages) if messages else _MESSAGE_BYTES_DEFAULT
    return max(1, most_bytes // average)


def between(start: Offset, end: Offset) -> list[Range]:
    """Return the ranges between two offsets, by partition; without empty ones."""
    found = []
    for partition, upto in sorted(end.numbers.items()):
        incarnation = end.incarnations.get(partition, "")
        after = _following(start.number(partition), upto)
        if start.incarnations.get(partition, incarnation) != incarnation:
            after = base_below(upto)
        if upto > after:
            gone = end.gone.get(partition, 0)
            found.append(Range(partition, after, upto, incarnation, gone))
    return found


def cut(ranges: Sequence[Range], least: int) -> list[Range]:
    """Return the ranges cut so that there are about `least`, long ones into more parts."""
    total = sum(each.upto - each.after for each in ranges)
    if len(ranges) >= least or not total:
        return list(ranges)
    made = []
    for each in ranges:
        length = each.upto - each.after
        parts = max(1, min(length, round(length * least / total)))
        edges = [each.after + length * part // parts for part in range(parts + 1)]
        made += [
            Range(each.partition, after, upto, each.incarnation, each.gone)
            for after, upto in itertools.pairwise(edges)
        ]
    return made


def _begin(start: Offset, extent: Extent) -> int:
    """Return after which number the partition is read: its beginning, if numbers start over."""
    known = start.incarnations.get(extent.partition, extent.incarnation)
    if known != extent.incarnation:
        return base_below(extent.stable_tail)
    return _following(start.number(extent.partition), extent.stable_tail)


def _following(number: int, last: int) -> int:
    """Return a number, or the beginning where it is none of those that end with `last`."""
    base = base_below(last)
    return number if base_below(number) == base else base


def shown(number: int) -> str:
    """Return a sequence number and which message of its partition it is."""
    return f"{number} (message {counter_of(number)})"


def offset_of(given: Mapping[str, Any]) -> Offset:
    """Return an offset that Spark kept. Raises PipelineError."""
    if given.get("v") != VERSION:
        raise PipelineError(
            f"the checkpoint has offsets of version {given.get('v')!r}, and this version reads "
            f"{VERSION}; use the version of Bendybus that wrote it, or another checkpointLocation"
        )
    return Offset(
        _by_number(given["seq"]),
        _by_number(given["inc"]),
        _by_number(given.get("low", {})),
        given.get("owner", ""),
        _shape(given["shape"]) if "shape" in given else None,
    )


def _shape(given: Mapping[str, Any]) -> Shape:
    return Shape(given["minPartitions"], tuple(given["states"]), given["sessionId"])


def _by_text(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(partition): values[partition] for partition in sorted(values)}


def _by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(partition): value for partition, value in values.items()}
