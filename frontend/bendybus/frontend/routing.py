"""Which partition gets which part of a frame. Pure: columns in, parts out.

A frame holds atomic units (one send call each). A unit with a key goes to the key's partition; a
unit without one goes anywhere, and all such units of a frame go to the same place, because round
robin moves by frame: splitting a frame over sixteen partitions would cost most of the speed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from bendybus.domain import errors, partitioning
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


class Unit(NamedTuple):
    """Messages [start, end) of a frame that are stored whole or not at all."""

    group: int
    start: int
    end: int


@dataclass(slots=True)
class Part:
    """Units that go to one partition together."""

    units: list[Unit]
    # Where they must go; None: anywhere, `lane` first.
    pinned: int | None
    # The partition of the first choice: names the part in a producer's frame for good.
    lane: int

    @property
    def count(self) -> int:
        """How many messages."""
        return sum(unit.end - unit.start for unit in self.units)


@dataclass(slots=True)
class Routed:
    """A frame's parts, and the groups that no partition may get."""

    parts: list[Part]
    refused: list[tuple[Unit, BusError]]


def first_choice(entity: Entity, producer_id: bytes, frame_id: int) -> int:
    """Return the partition that a keyless frame tries first: round robin by frame.

    Derived from the producer's own count, so that a repeat through another front end goes to the
    same partition first, which knows whether it has the frame already.
    """
    return (crc32(producer_id) + frame_id) % entity.partition_count


def route(
    entity: Entity,
    keys: Keys,
    group_sizes: Sequence[int],
    *,
    lane: int,
    split: bool,
) -> Routed:
    """Return the parts of a frame; see the module's docstring.

    `lane`: first choice of what has no key. `split`: units with several keys may be taken apart.
    """
    units = _units(keys.count, group_sizes)
    if not entity.partitioned:
        return Routed([Part(units, entity.home_partition, entity.home_partition)], [])
    if not (keys.partition_keys or keys.session_ids or _keyed_by_id(entity, keys)):
        return Routed([Part(units, None, lane)], [])
    routed = Routed([], [])
    by_partition: dict[int | None, Part] = {}
    for unit in units:
        try:
            for piece, key in _pieces(entity, keys, unit, split=split):
                pinned = (
                    None if key is None else partitioning.partition_of(key, entity.partition_count)
                )
                part = by_partition.get(pinned)
                if part is None:
                    part = Part([], pinned, lane if pinned is None else pinned)
                    by_partition[pinned] = part
                part.units.append(piece)
        except BusError as error:
            routed.refused.append((unit, error))
    routed.parts = list(by_partition.values())
    return routed


def without_faults(routed: Routed, faults: Mapping[int, BusError]) -> Routed:
    """Refuse the units that have a faulty message; `faults` is by the message's index."""
    if not faults:
        return routed
    for part in routed.parts:
        for unit in part.units:
            fault = next((faults[i] for i in range(unit.start, unit.end) if i in faults), None)
            if fault is not None:
                routed.refused.append((unit, fault))
        refused = {unit for unit, _ in routed.refused}
        part.units = [unit for unit in part.units if unit not in refused]
    routed.parts = [part for part in routed.parts if part.units]
    return routed


def _keyed_by_id(entity: Entity, keys: Keys) -> bool:
    return entity.queue.requires_duplicate_detection and bool(keys.message_ids)


def _units(count: int, group_sizes: Sequence[int]) -> list[Unit]:
    if not group_sizes:
        return [Unit(0, 0, count)]
    units, start = [], 0
    for group, size in enumerate(group_sizes):
        units.append(Unit(group, start, start + size))
        start += size
    if start != count or 0 in group_sizes:
        raise errors.InvalidArgument("group_sizes", f"do not add up to {count} messages.")
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
        f"queue {entity.name!r}: a batch for a partitioned queue is stored whole in one partition, "
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
        detects_duplicates=entity.queue.requires_duplicate_detection,
    )
