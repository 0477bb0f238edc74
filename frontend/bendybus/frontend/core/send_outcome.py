"""What became of a frame: numbers and failures as partitions answer, and why parts fail. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core.routing import Part, Unit


@dataclass(slots=True)
class Frame:
    """A client's frame on its way; `tag` finds the client again, `data` holds its messages."""

    tag: Any
    entity: Entity
    data: Any
    count: int
    deadline_ms: int
    age_ms: int
    producer_id: bytes
    producer_sequence: int
    # Lists; or the answer's own columns, when one partition answered for the whole frame.
    numbers: Any = ()
    duplicates: Any = ()
    failures: dict[int, BusError] = field(default_factory=dict)
    # Units that are stored, and maybe another time elsewhere.
    possible_duplicates: set[int] = field(default_factory=set)
    # How many messages these are.
    messages_twice: int = 0
    # By how much each unit was further on in the frame of the first try; empty: not at all.
    offsets: Sequence[int] = ()
    open_parts: int = 0


def record(
    frame: Frame,
    part: Part,
    numbers: Sequence[int],
    duplicates: Sequence[bool],
    failed: dict[int, BusError],
    again: set[Unit],
) -> None:
    """Note what a partition answered for a part, except for the units that are tried again."""
    at = 0
    if not failed and part.count == frame.count:
        # The answer's own, not copied: nothing of the frame is open any more.
        frame.numbers, frame.duplicates = numbers, duplicates
        return
    if not frame.numbers:
        frame.numbers = [0] * frame.count
    if any(duplicates) and not frame.duplicates:
        frame.duplicates = [False] * frame.count
    if not failed and not any(duplicates):
        for start, end in part.spans:
            frame.numbers[start:end] = numbers[at : at + end - start]
            at += end - start
        return
    for i, unit in enumerate(part.units):
        size = unit.end - unit.start
        if i in failed:
            if unit not in again:
                note_failure(frame, unit, failed[i])
        else:
            frame.numbers[unit.start : unit.end] = numbers[at : at + size]
            if any(duplicates):
                frame.duplicates[unit.start : unit.end] = duplicates[at : at + size]
        at += size


def note_failure(frame: Frame, unit: Unit, error: BusError) -> None:
    """Note why a unit failed; of a split one, an unknown outcome of a piece is that of the unit."""
    if not isinstance(frame.failures.get(unit.group), errors.OutcomeUnknown):
        frame.failures[unit.group] = error


def outcome_unknown(error: BusError) -> BusError:
    """Return the error for a part that an earlier try may have stored."""
    if isinstance(error, errors.OutcomeUnknown):
        return error
    return errors.OutcomeUnknown(
        f"{error.message} An earlier try may have stored it: the outcome is unknown. Repeat the "
        "send under the same name to find out.",
        retry_after_ms=error.retry_after_ms,
        metadata={**error.metadata, "cause": error.reason},
    )


def timeout(frame: Frame) -> BusError:
    """Return the error for a frame whose time is over."""
    return errors.ServiceTimeout(
        f"{frame.entity.title}: the send timed out.",
        metadata={"entity": frame.entity.name},
    )


def unavailable(frame: Frame, partition: int) -> BusError:
    """Return the error for a key whose partition is unavailable."""
    return errors.PartitionUnavailable(
        f"{frame.entity.title}: partition {partition}, to which the message's key belongs, "
        "is unavailable. Repeat the send later; messages without a partition key go to other "
        "partitions.",
        metadata={"entity": frame.entity.name, "partition": str(partition)},
    )
