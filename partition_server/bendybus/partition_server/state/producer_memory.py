"""Safe repeats: which units of producers' frames are stored, and with what outcome.

A unit is named by (entity, producer id, sequence, position): where it began in the frame of the
first try. So no two units share a name, whatever decided their partition, and a repeat of some of
them, or of what is left of a part, finds each. Membership is exact, not a high-water mark: a mark
would take a late first try behind a failed-over later one for a repeat, and lose it.

    entry of one part:   (producer id, sequence, position of its first message) → outcome
    outcome: see `producer_outcomes`

Entries are written in the transaction that stores the part; bounded in number, bytes and age, each
entity to its share (see `repeat_windows`). What is no longer known is remembered as a time of each
entity, durably: a repeat whose first try was before it gets OutcomeUnknown, never "new".
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from operator import add
from typing import Final, NamedTuple

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.partition_server.state import outcomes, producer_outcomes
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Now
from bendybus.partition_server.state.journal import Journal, JournalDict
from bendybus.partition_server.state.outcomes import Bounds
from bendybus.partition_server.state.repeat_windows import ENTRY_BYTES as ENTRY_BYTES
from bendybus.partition_server.state.repeat_windows import RepeatWindows
from bendybus.partition_server.store.records import Changes, ProducerEntry

ENTRIES_MAX: Final = 65_536
BYTES_MAX: Final = 24 * 1024 * 1024
# Entries of one frame. A client's has one, and one more for each repeat of some of its units; each
# is looked at when a part of the frame comes.
PARTS_MAX: Final = 256
# Entries are forgotten this many at a time.
FORGET_STEP: Final = 1_024
# Five times what a send may take by default.
AGE_MS_MAX: Final = 5 * limits.MINUTE_MS


@dataclass(slots=True)
class Known:
    """What is known of a command's units; `rest` is what is new, None if nothing is."""

    command: Append
    outcome: Appended
    rest: Append | None
    # Units of `rest`, as indexes into the command's.
    rest_units: list[int]


class Unknown(NamedTuple):
    """Until when frames were first tried that may be forgotten, by both clocks."""

    wall_ms: int
    mono_ms: int


_NEVER: Final = Unknown(0, -(1 << 62))


class Producers:
    """The parts that are stored, by entity."""

    def __init__(
        self,
        entries: Iterable[ProducerEntry],
        now: Now,
        unknown_before_ms: Mapping[str, int],
        journal: Journal,
        *,
        clock_in_doubt: bool = False,
    ) -> None:
        """`clock_in_doubt`: the wall clock may not tell how long ago something was forgotten."""
        # When each was stored is by this process's monotonic clock: no jump of the wall clock
        # matters. Their age counts from now on: one that jumped meanwhile makes none too old.
        self._windows = RepeatWindows(journal)
        for entry in entries:
            self._windows.add(producer_outcomes.entity_of(entry), entry, now.mono_ms)
        # By entity; "": what was first tried before this may be forgotten of any entity. A mark
        # from the future (the clock was wrong then), or a clock in doubt, means: everything before
        # this opening.
        self._unknown: JournalDict[str, Unknown] = JournalDict(journal)
        for uid, wall_ms in unknown_before_ms.items():
            age_ms = 0 if clock_in_doubt else max(0, now.wall_ms - wall_ms)
            if wall_ms:
                self._unknown[uid] = Unknown(wall_ms, now.mono_ms - age_ms)
        # Entities that are deleted and still remembered: they are forgotten first.
        self._gone: JournalDict[str, None] = JournalDict(journal)

    def uids(self) -> list[str]:
        """Return the entities of which something is remembered."""
        return self._windows.uids()

    def drop(self, uid: str) -> None:
        """Note that an entity is deleted: nothing of it is repeated any more."""
        if self._windows.oldest(uid):
            self._gone[uid] = None
        self._unknown.pop(uid)

    def find(self, command: Append, now: Now) -> Known | None:
        """Return what is known of `command`, None if all of it is new.

        Raises OutcomeUnknown when it is a repeat of something too old to be known, InvalidOperation
        when its frame has too many parts.
        """
        if not command.producer_id:
            return None
        if command.spans:
            _check_spans(command)
        entries = self._windows.named(command.producer_id, command.producer_sequence)
        known = _look_up(command, entries) if entries else None
        if known is not None and known.rest is None:
            return known
        if len(entries) >= PARTS_MAX:
            raise errors.InvalidOperation(
                f"frame {command.producer_sequence} was sent in {len(entries)} parts already, as "
                "many as are remembered. Send the rest under another frame_id."
            )
        if command.age_ms and outcomes.may_be_forgotten(
            self, command.entity.uid, command.age_ms, now
        ):
            raise unknown("this frame", command.age_ms, "the messages may or may not be stored")
        return known

    def bounds(self) -> Bounds:
        """Return what the memory may take: some more between two times that it forgets."""
        return Bounds(ENTRIES_MAX + FORGET_STEP, BYTES_MAX, AGE_MS_MAX)

    def used(self) -> tuple[int, int]:
        """Return what it takes."""
        return self._windows.count, self._windows.size_bytes

    def unknown_before(self, user: str, now: Now) -> int:
        """Return until when something of an entity may be forgotten."""
        unknown, known_ms = self._unknown, now.mono_ms - AGE_MS_MAX - 1
        # Usually nothing was forgotten.
        if not unknown:
            return known_ms
        return max(known_ms, unknown.get("", _NEVER).mono_ms, unknown.get(user, _NEVER).mono_ms)

    def refused(self, command: Append, error: BusError, now: Now) -> Appended | Failed:
        """Return what to answer to a command that finds no room: what is stored is told so."""
        with contextlib.suppress(BusError):
            known = self.find(command, now)
            if known is not None:
                return refuse_rest(command, known, error)
        return Failed(error)

    def remember(self, command: Append, outcome: Appended, now: Now, changes: Changes) -> None:
        """Note the outcome in memory and in the transaction, if the command has a name."""
        if command.producer_id:
            position = command.spans[0] if command.spans else 0
            text = producer_outcomes.to_text(command, outcome)
            name = (command.producer_id, command.producer_sequence, position)
            self.note(command.entity.uid, name, text, now, changes)

    def named(self, producer_id: bytes, sequence: int) -> Sequence[ProducerEntry]:
        """Return what is remembered under a name, in the order of the commits."""
        return self._windows.named(producer_id, sequence)

    def note(
        self, uid: str, name: tuple[bytes, int, int], outcome: str, now: Now, changes: Changes
    ) -> None:
        """Remember an outcome, in memory and in the transaction; forget what is too much."""
        windows, (producer_id, sequence, position) = self._windows, name
        shared_id = windows.name(producer_id)
        entry = ProducerEntry(
            shared_id, sequence, position, outcome, now.wall_ms, windows.last_id + 1
        )
        changes.producers.append(entry)
        windows.add(uid, entry, now.mono_ms)
        if self._too_many():
            self._forget_some(self._unneeded(now), changes)
            if self._too_many():
                # Few of them may be large: no more are forgotten than must be.
                large = windows.size_bytes > BYTES_MAX
                most = BYTES_MAX - BYTES_MAX // 16 if large else BYTES_MAX
                self._forget_some(windows.surplus(ENTRIES_MAX, most), changes)
        elif self._is_old(uid, FORGET_STEP, now):
            self._forget_some(repeat(uid, FORGET_STEP), changes)

    def _too_many(self) -> bool:
        windows = self._windows
        return windows.count > ENTRIES_MAX + FORGET_STEP or windows.size_bytes > BYTES_MAX

    def _is_old(self, uid: str, position: int, now: Now) -> bool:
        times_ms = self._windows.times_ms(uid)
        return len(times_ms) > position and times_ms[position] < now.mono_ms - AGE_MS_MAX

    def _unneeded(self, now: Now) -> Iterator[str]:
        """Yield entities as long as the oldest that is remembered of each is of no more use."""
        for uid in self._windows.uids():
            while self._is_old(uid, 0, now) or (uid in self._gone and self._windows.oldest(uid)):
                yield uid

    def _forget_some(self, uids: Iterable[str], changes: Changes) -> None:
        """Forget the oldest entry of each of these entities, a bounded number in all."""
        windows = self._windows
        newest: dict[str, Unknown] = {}
        for uid in islice(uids, FORGET_STEP):
            oldest = windows.oldest(uid)
            if oldest is None or oldest.id >= changes.producers[0].id:
                # Never this transaction's own.
                break
            entry, at_mono_ms = windows.forget(uid)
            changes.producers_forgotten.append(entry.id)
            known = newest.get(uid) or self._unknown.get(uid, _NEVER)
            newest[uid] = Unknown(max(known.wall_ms, entry.at_ms), max(known.mono_ms, at_mono_ms))
        for uid, unknown in newest.items():
            if uid not in self._gone:
                self._unknown[uid] = unknown
                changes.producers_unknown.append((uid, unknown.wall_ms))
            elif not windows.oldest(uid):
                del self._gone[uid]
        if newest:
            # So that the file says whose times are known one by one.
            base = self._unknown.get("", _NEVER).wall_ms
            changes.producers_unknown.append(("", base))


def unknown(what: str, age_ms: int, may: str) -> BusError:
    """Return the error for an outcome that may be forgotten."""
    return errors.OutcomeUnknown(
        f"the first try of {what} was {age_ms / 1000:.0f} s ago, and its outcome is no "
        f"longer known here: {may}."
    )


def merge(command: Append, known: Known, rest: Appended) -> Appended:
    """Return the outcome of `command`: what was known, and what has just been stored."""
    numbers, flags = list(known.outcome.numbers), list(known.outcome.duplicates)
    flags = flags or [False] * len(numbers)
    units = list(producer_outcomes.units(command))
    at = 0
    for unit in known.rest_units:
        start, end = units[unit]
        size = end - start
        numbers[start:end] = rest.numbers[at : at + size]
        if rest.duplicates:
            flags[start:end] = rest.duplicates[at : at + size]
        at += size
    failures = [*known.outcome.failures]
    failures += [(known.rest_units[group], error) for group, error in rest.failures]
    return Appended(numbers, flags if any(flags) else (), sorted(failures, key=lambda f: f[0]))


def refuse_rest(command: Append, known: Known, error: BusError) -> Appended:
    """Return the outcome of `command` when what is new of it is refused: the rest stays stored."""
    if known.rest is None:
        return known.outcome
    count = len(known.rest.batch.payloads)
    failures = [(unit, error) for unit in range(len(known.rest_units))]
    return merge(command, known, Appended([0] * count, (), failures))


def _look_up(command: Append, entries: Sequence[ProducerEntry]) -> Known | None:
    """Compare a command with entries of the same producer and sequence, unit by unit."""
    numbers_at: dict[int, tuple[int, bool]] = {}
    failed_at: dict[int, tuple[int, BusError]] = {}
    for entry in entries:
        producer_outcomes.read(entry, command.entity.uid, numbers_at, failed_at)
    positions = list(producer_outcomes.positions(command.spans, len(command.batch.payloads)))
    numbers = [0] * len(positions)
    flags = [False] * len(positions)
    failures: list[tuple[int, BusError]] = []
    rest: list[int] = []
    for unit, (start, end) in enumerate(producer_outcomes.units(command)):
        failed = failed_at.get(positions[start])
        found = [numbers_at.get(position) for position in positions[start:end]]
        if failed is not None:
            if failed[0] != end - start:
                raise _not_exact(command)
            failures.append((unit, failed[1]))
        elif all(found):
            numbers[start:end] = [number for number, _ in found if number]  # type: ignore[misc]
            flags[start:end] = [flag for _, flag in found]  # type: ignore[misc]
        elif any(found):
            raise _not_exact(command)
        else:
            rest.append(unit)
    if len(rest) == len(list(producer_outcomes.units(command))):
        return None
    outcome = Appended(numbers, flags if any(flags) else (), failures)
    return Known(command, outcome, pick(command, rest) if rest else None, rest)


def pick(command: Append, chosen: Sequence[int]) -> Append:
    """Return a command with some of the units of another, under the names that they have there."""
    positions = list(producer_outcomes.positions(command.spans, len(command.batch.payloads)))
    units = list(producer_outcomes.units(command))
    spans = [units[unit] for unit in chosen]
    columns = [
        [entry for start, end in spans for entry in column[start:end]] if column else ()
        for column in (getattr(command.batch, name) for name in Batch.__slots__)
    ]
    return replace(
        command,
        batch=Batch(*columns),
        group_sizes=[end - start for start, end in spans],
        spans=[n for start, end in spans for n in (positions[start], end - start)],
    )


def _check_spans(command: Append) -> None:
    spans = command.spans
    if len(spans) % 2 or sum(spans[1::2]) != len(command.batch.payloads):
        raise errors.InvalidArgument("spans", "must add up to the messages of the batch.")
    if max(map(add, spans[::2], spans[1::2])) > limits.FRAME_MESSAGES_MAX:
        raise errors.InvalidArgument(
            "spans", f"must end within the {limits.FRAME_MESSAGES_MAX} messages of a frame."
        )


def _not_exact(command: Append) -> BusError:
    return errors.InvalidOperation(
        f"frame {command.producer_sequence} is repeated with other units than it was stored with: "
        "a repeat must be exact."
    )
