"""The rules of sending through many partitions: attempts, deadlines, failover. Pure.

Source: "If the chosen partition isn't available, Service Bus assigns the message to a different
partition"; "If the partition is temporarily unavailable, Service Bus returns an error" (keyed).

A part without a key gets a bounded attempt, min(2 s, a quarter of what is left), at one partition
after the other; what is pinned gets all the time there is, at its own. A partition refuses what
it sees only after the attempt's deadline, and an attempt is given up only some time after that,
so that a failover does not store twice. What a partition says by mistake of knowledge (another
generation) is tried again there a moment later.

A partition is late when it answered nothing at all for as long as the longest attempt: what one
client gives little time, or what waits there behind much of its own entity, says nothing about it.

An outcome is stored, not stored, or unknown: once some partition may have stored a part, only its
answer to the part's name tells, and no refusal of a repeat does. Pinned: the outcome is reported as
OutcomeUnknown, and clients repeat under the same name. Keyless: the part is repeated at the
partition that may have it, if that is back within RETURN_MS; then it goes elsewhere. Wherever it is
stored in the end, its units are reported as possible duplicates while another partition may have
them. Where the first try of a client's repeat went is unknown here, and another front end that
wakes up may still send it: what one partition has stored may be in another as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns
from bendybus.frontend.core.routing import Part, Routed, Unit

if TYPE_CHECKING:
    from bendybus.frontend.core.send import Tag

ATTEMPT_MS_MAX: Final = 2_000
# Given up this long after the deadline that was sent to the partition.
GRACE_MS: Final = 250
RETRY_MS: Final = 50
# How long a keyless part waits for the partition that may have stored it, at most a quarter of
# what is left.
RETURN_MS: Final = 2_000
# Among partitions that may have stored a part: any, through another front end.
ANYWHERE: Final = -1
# What another partition may do better.
ELSEWHERE: Final = (
    errors.QuotaExceeded,
    errors.RetryableError,
)


@dataclass(slots=True)
class Frame:
    """A client's frame on its way; `tag` finds the client again, `data` holds its messages."""

    tag: "Tag"
    entity: Entity
    data: columns.MessageBatch
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
    # As in the request.
    measured: bool = False
    open_parts: int = 0


@dataclass(slots=True)
class Attempt:
    """One part at one partition."""

    attempt_id: int
    frame: Frame
    part: Part
    partition: int
    # On this process's monotonic clock.
    deadline_ms: int
    tried: frozenset[int]
    # Not before; 0: it is under way.
    retry_at_ms: int = 0
    # Until then the partition is waited for, to be asked again; 0: it is not.
    return_until_ms: int = 0
    # It was waited for before.
    returned: bool = False
    full: bool = True
    # Every partition that was tried had no room on its disk.
    low: bool = True
    # The partitions that may have stored it: a repeat must go by the same name.
    unsure: frozenset[int] = frozenset()
    last_error: BusError | None = None


@dataclass(frozen=True, slots=True)
class Transmit:
    """Send this attempt's messages to its partition."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Finished:
    """The frame has its outcome."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class PartitionLate:
    """The partition did not answer in time."""

    partition: int


Action = Transmit | Finished | PartitionLate


class SendFailover:
    """All frames under way through one front end."""

    def __init__(self, available: Callable[[int], bool]) -> None:
        self._available = available
        self._attempts: dict[int, Attempt] = {}
        self._last_id = 0
        # By partition: when it answered last, and when it got the first part since then.
        self._heard_ms: dict[int, int] = {}
        self._asked_ms: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def submit(self, frame: Frame, routed: Routed, now_ms: int) -> list[Action]:
        """Start a frame's parts."""
        frame.open_parts = len(routed.parts)
        for unit, error in routed.refused:
            frame.failures[unit.group] = error
        actions: list[Action] = []
        for part in routed.parts:
            start = Attempt(0, frame, part, -1, 0, frozenset())
            if frame.age_ms:
                start.unsure = frozenset((ANYWHERE,))
            if start.unsure and part.pinned is None and not self._available(part.lane):
                actions += self._wait_for_return(replace(start, partition=part.lane), now_ms)
            else:
                actions += self._next(start, now_ms)
        if not routed.parts:
            actions.append(Finished(frame))
        return actions

    def heard(self, partition: int, now_ms: int) -> None:
        """Take note that a partition answered, whatever and to whichever part."""
        self._heard_ms[partition] = now_ms

    def answered(
        self,
        attempt_id: int,
        numbers: Sequence[int],
        duplicates: Sequence[bool],
        failures: Sequence[tuple[int, BusError]],
        now_ms: int,
    ) -> list[Action]:
        """Take a partition's outcome; `failures` are indexes into the part's units."""
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is None:
            return []
        failed = dict(failures)
        again = [
            unit
            for i, unit in enumerate(attempt.part.units if failed else ())
            if attempt.part.pinned is None and isinstance(failed.get(i), ELSEWHERE)
        ]
        # A partition knows for sure what it has; the others that were tried may have it, too.
        elsewhere = attempt.unsure - {attempt.partition}
        if elsewhere and attempt.part.pinned is None and attempt.frame.entity.partitioned:
            stored = [u for i, u in enumerate(attempt.part.units) if i not in failed]
            attempt.frame.possible_duplicates.update(unit.group for unit in stored)
            attempt.frame.messages_twice += sum(unit.end - unit.start for unit in stored)
        record_answer(attempt.frame, attempt.part, numbers, duplicates, failed, set(again))
        if again:
            rest = replace(attempt, part=Part(again, None, attempt.part.lane))
            rest.returned = True
            rest.last_error = next(iter(failed.values()))
            rest.full = attempt.full and isinstance(rest.last_error, errors.QuotaExceeded)
            rest.low = attempt.low and isinstance(rest.last_error, errors.DiskLow)
            return self._next(rest, now_ms)
        return self._part_done(attempt.frame)

    def refused(self, attempt_id: int, error: BusError, now_ms: int) -> list[Action]:
        """Take a partition's refusal of the whole part: this try stored nothing there, unless
        the error says that its outcome is unknown.
        """
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is None:
            return []
        attempt.last_error = error
        if isinstance(error, errors.OutcomeUnknown):
            return self._unknown(attempt, now_ms, wait=True)
        attempt.full = attempt.full and isinstance(error, errors.QuotaExceeded)
        attempt.low = attempt.low and isinstance(error, errors.DiskLow)
        if isinstance(error, errors.GenerationMismatch):
            return self._retry_here(attempt, now_ms)
        if attempt.part.pinned is None and isinstance(error, ELSEWHERE):
            return self._next(attempt, now_ms)
        return self._fail(attempt, error)

    def lost(self, partition: int, why: str, now_ms: int) -> list[Action]:
        """Take the end of the stream to a partition: its outcomes are unknown."""
        actions: list[Action] = []
        # The parts without an answer are not under way any more.
        self.heard(partition, now_ms)
        for attempt in self._at(partition):
            del self._attempts[attempt.attempt_id]
            actions += self._gone(attempt, why, now_ms, wait=True)
        return actions

    def stalled(self, partition: int, why: str, now_ms: int) -> list[Action]:
        """Take the opening of a partition's breaker: what is pinned to it gets its error now.

        What is not waits for its attempt's deadline: until then the partition may wake up and
        store it, and it would be stored twice.
        """
        actions: list[Action] = []
        for attempt in self._at(partition):
            if attempt.part.pinned is not None:
                del self._attempts[attempt.attempt_id]
                actions += self._gone(attempt, why, now_ms)
        return actions

    def suspended(self, gap_ms: int, now_ms: int) -> None:
        """Give attempts the time back in which no answer could be read, up to a whole share."""
        for times in (self._heard_ms, self._asked_ms):
            times.update({each: min(at + gap_ms, now_ms) for each, at in times.items()})
        for attempt in self._attempts.values():
            until_ms = min(attempt.deadline_ms + gap_ms, now_ms + _share_ms(attempt.frame, now_ms))
            attempt.deadline_ms = max(attempt.deadline_ms, until_ms)

    def due(self, now_ms: int) -> list[Action]:
        """Take the passing of time: attempts that got no answer, retries whose moment is here."""
        actions: list[Action] = []
        for attempt in list(self._attempts.values()):
            if attempt.retry_at_ms:
                if attempt.retry_at_ms <= now_ms:
                    actions += self._again(attempt, now_ms)
            elif attempt.deadline_ms + GRACE_MS <= now_ms:
                del self._attempts[attempt.attempt_id]
                if self._silent_ms(attempt.partition, now_ms) >= ATTEMPT_MS_MAX + GRACE_MS:
                    actions.append(PartitionLate(attempt.partition))
                actions += self._gone(attempt, "it did not answer in time", now_ms)
        return actions

    def next_due(self) -> int | None:
        """Return when `due` has something to do."""
        return min(
            (a.retry_at_ms or a.deadline_ms + GRACE_MS for a in self._attempts.values()),
            default=None,
        )

    def _at(self, partition: int) -> list[Attempt]:
        return [
            attempt
            for attempt in self._attempts.values()
            if attempt.partition == partition and not attempt.retry_at_ms
        ]

    def _again(self, attempt: Attempt, now_ms: int) -> list[Action]:
        """Try a part again where it was, or stop waiting for that."""
        attempt.retry_at_ms = 0
        if attempt.return_until_ms:
            if not self._available(attempt.partition):
                if now_ms < attempt.return_until_ms:
                    attempt.retry_at_ms = now_ms + RETRY_MS
                    return []
                del self._attempts[attempt.attempt_id]
                tried = attempt.tried | {attempt.partition}
                return self._next(replace(attempt, tried=tried), now_ms)
            attempt.return_until_ms = 0
            attempt.tried |= {attempt.partition}
            attempt.deadline_ms = now_ms + _share_ms(attempt.frame, now_ms)
        return [self._transmit(attempt, now_ms)]

    def _transmit(self, attempt: Attempt, now_ms: int) -> Transmit:
        partition = attempt.partition
        if self._asked_ms.get(partition, 0) <= self._heard_ms.get(partition, 0):
            self._asked_ms[partition] = now_ms
        return Transmit(attempt)

    def _silent_ms(self, partition: int, now_ms: int) -> int:
        """Return for how long a partition has owed an answer, and given none."""
        since_ms = max(self._heard_ms.get(partition, 0), self._asked_ms.get(partition, 0))
        return now_ms - since_ms

    def _gone(self, attempt: Attempt, why: str, now_ms: int, *, wait: bool = False) -> list[Action]:
        frame, partition = attempt.frame, attempt.partition
        late = frame.deadline_ms <= now_ms
        kind = errors.ServiceTimeout if late else errors.PartitionUnavailable
        attempt.last_error = kind(
            f"{frame.entity.title}: partition {partition} is unavailable ({why}).",
            metadata={"entity": frame.entity.name, "partition": str(partition)},
        )
        return self._unknown(attempt, now_ms, wait=wait)

    def _unknown(self, attempt: Attempt, now_ms: int, *, wait: bool) -> list[Action]:
        """Go on with a part that its partition may have stored."""
        attempt.full = attempt.low = False
        attempt.unsure |= {attempt.partition}
        if attempt.part.pinned is not None:
            return self._fail(attempt, attempt.last_error or timed_out(attempt.frame.entity))
        if wait and not attempt.returned:
            return self._wait_for_return(attempt, now_ms)
        return self._next(attempt, now_ms)

    def _wait_for_return(self, attempt: Attempt, now_ms: int) -> list[Action]:
        """Keep a keyless part for a while for the partition that may have it."""
        left_ms = attempt.frame.deadline_ms - now_ms
        self._last_id += 1
        attempt.attempt_id = self._last_id
        attempt.returned = True
        attempt.return_until_ms = now_ms + min(RETURN_MS, max(1, left_ms // 4))
        attempt.retry_at_ms = now_ms + RETRY_MS
        self._attempts[attempt.attempt_id] = attempt
        return []

    def _next(self, attempt: Attempt, now_ms: int) -> list[Action]:
        """Try the next partition for a part, or give up."""
        frame, part = attempt.frame, attempt.part
        left_ms = frame.deadline_ms - now_ms
        if left_ms <= 0:
            return self._fail(attempt, attempt.last_error or timed_out(frame.entity))
        if part.pinned is not None:
            if not self._available(part.pinned):
                return self._fail(attempt, unavailable(frame, part.pinned))
            partition, share_ms = part.pinned, left_ms
        else:
            chosen = self._choose(frame.entity, part.lane, attempt.tried)
            if chosen is None:
                return self._fail(attempt, self._none_left(attempt))
            partition, share_ms = chosen, _share_ms(frame, now_ms)
        if attempt.attempt_id:
            # One of its own, as the earlier one is known elsewhere.
            attempt = replace(attempt)
        self._last_id += 1
        attempt.attempt_id, attempt.partition = self._last_id, partition
        attempt.deadline_ms, attempt.tried = now_ms + share_ms, attempt.tried | {partition}
        attempt.retry_at_ms = attempt.return_until_ms = 0
        self._attempts[self._last_id] = attempt
        return [self._transmit(attempt, now_ms)]

    def _choose(self, entity: Entity, lane: int, tried: frozenset[int]) -> int | None:
        count = entity.partition_count
        for step in range(count):
            partition = (lane + step) % count
            if partition not in tried and self._available(partition):
                return partition
        return None

    def _none_left(self, attempt: Attempt) -> BusError:
        entity = attempt.frame.entity
        facts = {"entity": entity.name}
        if attempt.last_error is None:
            return errors.PartitionUnavailable(
                f"{entity.title}: no partition is reachable.", metadata=facts
            )
        full, low = errors.QuotaExceeded, errors.DiskLow
        if (isinstance(attempt.last_error, full) and not attempt.full) or (
            # One that is away may have room.
            isinstance(attempt.last_error, low)
            and not (attempt.low and attempt.tried.issuperset(entity.partitions()))
        ):
            return errors.PartitionUnavailable(
                f"{entity.title}: every partition is full or unavailable.", metadata=facts
            )
        return attempt.last_error

    def _retry_here(self, attempt: Attempt, now_ms: int) -> list[Action]:
        if attempt.frame.deadline_ms <= now_ms + RETRY_MS:
            return self._fail(attempt, attempt.last_error or timed_out(attempt.frame.entity))
        attempt.retry_at_ms = now_ms + RETRY_MS
        self._attempts[attempt.attempt_id] = attempt
        return []

    def _fail(self, attempt: Attempt, error: BusError) -> list[Action]:
        if attempt.unsure:
            error = outcome_unknown(error)
        for unit in attempt.part.units:
            note_failure(attempt.frame, unit, error)
        return self._part_done(attempt.frame)

    def _part_done(self, frame: Frame) -> list[Action]:
        frame.open_parts -= 1
        return [] if frame.open_parts else [Finished(frame)]


def _share_ms(frame: Frame, now_ms: int) -> int:
    return min(ATTEMPT_MS_MAX, max(1, (frame.deadline_ms - now_ms) // 4))


def record_answer(
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


def timed_out(entity: Entity) -> BusError:
    """Return the error for a send whose time is over."""
    return errors.ServiceTimeout(
        f"{entity.title}: the send timed out.", metadata={"entity": entity.name}
    )


def unavailable(frame: Frame, partition: int) -> BusError:
    """Return the error for a key whose partition is unavailable."""
    return errors.PartitionUnavailable(
        f"{frame.entity.title}: partition {partition}, to which the message's key belongs, "
        "is unavailable. Repeat the send later; messages without a partition key go to other "
        "partitions.",
        metadata={"entity": frame.entity.name, "partition": str(partition)},
    )
