"""Which partition gets which part of a frame. Pure: columns in, parts out.

A frame holds atomic units (one send call each). A unit with a key goes to the key's partition.
Units without one are dealt over the partitions in runs: message positions [0, run) of the frame
to the partition of the frame's lane, the next run to the next one, and so on. A unit stays whole.
A run costs a commit of its own, so the client makes it as long as even spreading allows. The choice
depends only on what a frame and its repeats have in common, so that a repeat, also of some units,
tries the same partition first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple
from zlib import crc32

from bendybus.domain import errors, limits, partitioning
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError


@dataclass(slots=True)
class Keys:
    """The columns that routing reads; a column is empty or as long as the frame."""

    count: int
    message_ids: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    session_ids: Sequence[str] = ()
    session_present: Sequence[bool] = ()


# Messages of a frame, without a key, that go to one partition before the next one's turn, where the
# client does not say.
RUN: Final = 64


class Unit(NamedTuple):
    """Messages [start, end) of a frame that are stored whole or not at all."""

    group: int
    start: int
    end: int


# The units of a frame whose units have a message each: by far the most frequent ones, made once.
_SINGLES: Final = [Unit(i, i, i + 1) for i in range(limits.FRAME_MESSAGES_MAX)]


@dataclass(slots=True)
class Part:
    """Units that go to one partition together."""

    units: list[Unit]
    # Where they must go; None: anywhere, `lane` first.
    pinned: int | None
    # The partition of the first choice.
    lane: int
    # Its messages as runs [start, end) of the frame.
    spans: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Join neighbouring units."""
        if not self.spans:
            self.spans = joined(self.units)

    @property
    def count(self) -> int:
        """How many messages."""
        return sum(end - start for start, end in self.spans)


@dataclass(slots=True)
class Routed:
    """A frame's parts, and the groups that no partition may get."""

    parts: list[Part]
    refused: list[tuple[Unit, BusError]]


def joined(units: Sequence[Unit]) -> list[tuple[int, int]]:
    """Return units as runs of messages, in their order."""
    spans: list[tuple[int, int]] = []
    at_start = at_end = -1
    for _, start, end in units:
        if start == at_end:
            at_end = end
            continue
        if at_end >= 0:
            spans.append((at_start, at_end))
        at_start, at_end = start, end
    spans.append((at_start, at_end))
    return spans


def first_choice(entity: Entity, producer_id: bytes, lane: int) -> int:
    """Return the partition that the first run of a frame tries first.

    Derived from what the producer counts itself, so that a repeat through another front end goes
    to the same partition first, which knows whether it has the frame already.
    """
    return (crc32(producer_id) + lane) % entity.partition_count


def lane_to(entity: Entity, producer_id: bytes, partition: int) -> int:
    """Return the lane of which a partition is the first choice."""
    return (partition - crc32(producer_id)) % entity.partition_count


def route(
    entity: Entity,
    keys: Keys,
    group_sizes: Sequence[int],
    *,
    lane: int,
    split: bool,
    offsets: Sequence[int] = (),
    run: int = RUN,
) -> Routed:
    """Return the parts of a frame; see the module's docstring.

    `lane`: first choice of what has no key; `run`: how many messages go there before the next one.
    `split`: units with several keys may be taken apart.
    `offsets`: how much further on each group was in the frame of the first try; empty: not at all.
    """
    units = units_of(keys.count, group_sizes)
    if not entity.partitioned:
        return Routed([Part(units, entity.home_partition, entity.home_partition)], [])
    by_id = keys.message_ids and entity.description.requires_duplicate_detection
    if not (keys.partition_keys or keys.session_ids or by_id):
        return Routed(_Dealing(lane, run, entity.partition_count).deal(units, offsets), [])
    routed = Routed([], [])
    by_partition: dict[int, list[Unit]] = {}
    keyless: list[Unit] = []
    for unit in units:
        try:
            for piece, key in _pieces(entity, keys, unit, split=split):
                if key is None:
                    keyless.append(piece)
                else:
                    pinned = partitioning.partition_of(key, entity.partition_count)
                    by_partition.setdefault(pinned, []).append(piece)
        except BusError as error:
            routed.refused.append((unit, error))
    routed.parts = [Part(pieces, pinned, pinned) for pinned, pieces in by_partition.items()]
    if keyless:
        routed.parts += _Dealing(lane, run, entity.partition_count).deal(keyless, offsets)
    return routed


def bad_sizes(count: int) -> BusError:
    """Return the error for the sizes of units that do not fit a frame of `count` messages."""
    return errors.InvalidArgument("group_sizes", f"must add up to {count} messages.")


def effective_keys(entity: Entity, keys: Keys) -> list[str | None]:
    """Return the key of each message; None: it may go anywhere. Raises InvalidOperation."""
    return [_key(entity, keys, i) for i in range(keys.count)]


def without_faults(routed: Routed, faults: Mapping[int, BusError]) -> Routed:
    """Refuse the units that have a faulty message; `faults` is by the message's index."""
    kept: list[Part] = []
    for part in routed.parts:
        good = []
        for unit in part.units:
            fault = next((faults[i] for i in range(unit.start, unit.end) if i in faults), None)
            if fault is None:
                good.append(unit)
            else:
                routed.refused.append((unit, fault))
        if good:
            kept.append(Part(good, part.pinned, part.lane))
    return Routed(kept, routed.refused)


def offsets_of(positions: Sequence[int], count: int, group_sizes: Sequence[int]) -> list[int]:
    """Return by how much each group was further on in the frame of the first try."""
    if not positions:
        return []
    sizes = group_sizes or (count,)
    if len(positions) != len(sizes):
        raise errors.InvalidArgument("positions", f"must be one for each of {len(sizes)} units.")
    last = limits.FRAME_MESSAGES_MAX - max(sizes)
    if max(positions) > last:
        raise errors.InvalidArgument(
            "positions",
            f"must be at most {last} (got {max(positions)}): a unit ends within the "
            f"{limits.FRAME_MESSAGES_MAX} messages of the frame that it was first sent in.",
        )
    return [at - start for at, start in zip(positions, accumulate(sizes, initial=0), strict=False)]


class _Dealing(NamedTuple):
    """How units without a key are dealt over partitions."""

    lane: int
    run: int
    partition_count: int

    def deal(self, units: list[Unit], offsets: Sequence[int]) -> list[Part]:
        """Return the parts, by partition."""
        lane, run, partition_count = self
        if not offsets:
            if units[-1].start < run:
                return [Part(units, None, lane)]
            if units[-1].end == len(units):
                return self._deal_singles(units)
        dealt: dict[int, list[Unit]] = {}
        for unit in units:
            position = unit.start + (offsets[unit.group] if offsets else 0)
            dealt.setdefault((lane + position // run) % partition_count, []).append(unit)
        return [Part(found, None, first) for first, found in dealt.items()]

    def _deal_singles(self, units: list[Unit]) -> list[Part]:
        # By far the most frequent frame, a message a unit: slices instead of a look at each.
        lane, run, partition_count = self
        parts: list[Part] = []
        end = len(units)
        for turn in range(min(partition_count, -(-end // run))):
            runs = range(turn * run, end, partition_count * run)
            spans = [(start, min(start + run, end)) for start in runs]
            chosen: list[Unit] = []
            for start, stop in spans:
                chosen += units[start:stop]
            parts.append(Part(chosen, None, (lane + turn) % partition_count, spans))
        return parts


def units_of(count: int, group_sizes: Sequence[int]) -> list[Unit]:
    """Return the atomic units of a frame. Raises InvalidArgument for sizes that do not add up."""
    if not group_sizes:
        return [Unit(0, 0, count)]
    if len(group_sizes) == count <= len(_SINGLES) and list(group_sizes).count(1) == count:
        return _SINGLES[:count]
    units, start = [], 0
    for group, size in enumerate(group_sizes):
        units.append(Unit(group, start, start + size))
        start += size
    if start != count or 0 in group_sizes:
        raise bad_sizes(count)
    return units


def _pieces(
    entity: Entity, keys: Keys, unit: Unit, *, split: bool
) -> list[tuple[Unit, str | None]]:
    """Return the unit with its key, or pieces of one message each where it may be split."""
    found = [_key(entity, keys, i) for i in range(unit.start, unit.end)]
    if len(set(found)) == 1:
        return [(unit, found[0])]
    if split:
        return [(Unit(unit.group, i, i + 1), key) for i, key in enumerate(found, start=unit.start)]
    raise errors.InvalidOperation(
        f"{entity.title}: a batch for a partitioned entity is stored whole in one partition, "
        f"so all its messages need the same partition key; this one has {len(set(found))}. Send "
        "them one by one, or allow the batch to be split.",
        metadata={"entity": entity.name},
    )


def _key(entity: Entity, keys: Keys, i: int) -> str | None:
    session_id = None
    if keys.session_ids and (not keys.session_present or keys.session_present[i]):
        session_id = keys.session_ids[i]
    return partitioning.effective_key(
        session_id=session_id,
        partition_key=keys.partition_keys[i] if keys.partition_keys else "",
        message_id=keys.message_ids[i] if keys.message_ids else "",
        detects_duplicates=entity.description.requires_duplicate_detection,
    )
