"""Safe repeats: which units of producers' frames are stored, and with what outcome.

A unit is named by (entity, producer id, sequence, position): where it began in the frame of the
first try. So no two units share a name, whatever decided their partition, and a repeat of some of
them, or of what is left of a part, finds each. Membership is exact, not a high-water mark: a mark
would take a late first try behind a failed-over later one for a repeat, and lose it.

    entry of one part:   (producer id, sequence, position of its first message) → outcome
    outcome: see `producer_outcomes`

Entries are written in the transaction that stores the part; bounded in number, bytes and age. What
is no longer known is remembered as a time, durably: a repeat whose first try was before it gets
OutcomeUnknown, never "new".
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Final, NamedTuple

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.partition_server.state import producer_outcomes, transaction_outcomes
from bendybus.partition_server.state.answers import Appended, Failed, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Now, Transact
from bendybus.partition_server.store.records import Changes, ProducerEntry

ENTRIES_MAX: Final = 65_536
BYTES_MAX: Final = 24 * 1024 * 1024
# What an entry costs in memory beside its outcome, roughly.
ENTRY_BYTES: Final = 260
# Entries of one frame. A client's has one, and one more for each repeat of some of its units; each
# is looked at when a part of the frame comes.
PARTS_MAX: Final = 256
# Entries are forgotten this many at a time.
FORGET_STEP: Final = 1_024
# Of a transaction's entry, beside its id as producer: no frame has it, whatever a client names one.
TRANSACTION_SEQUENCE: Final = -1
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


class Forgotten(NamedTuple):
    """What a transaction has forgotten so far, and what is no longer known since then."""

    entries: int
    wall_ms: int
    mono_ms: int | None


class _Producer(NamedTuple):
    """What one producer stored."""

    producer_id: bytes
    # By sequence; most often one part a frame.
    parts: dict[int, ProducerEntry | list[ProducerEntry]]


class Producers:
    """The parts that are stored, in the order of their commits."""

    def __init__(
        self,
        entries: Iterable[ProducerEntry],
        now: Now,
        forgotten_until_ms: int = 0,
        *,
        clock_in_doubt: bool = False,
    ) -> None:
        """`clock_in_doubt`: the wall clock may not tell how long ago something was forgotten."""
        # Two columns of one list: entries by the thousand cost a process most as objects. When each
        # was stored is by this process's monotonic clock: no jump of the wall clock matters.
        self._order: deque[ProducerEntry] = deque()
        self._times_ms: deque[int] = deque()
        self._producers: dict[bytes, _Producer] = {}
        self._bytes = 0
        for entry in entries:
            # Their age counts from now on: a wall clock that jumped meanwhile makes none too old.
            self._add(entry, now.mono_ms)
        # First tries before this may be forgotten. A mark from the future (the clock was wrong
        # then), or a clock in doubt, means: everything before this opening.
        self._forgotten_wall_ms = forgotten_until_ms
        age_ms = 0 if clock_in_doubt else max(0, now.wall_ms - forgotten_until_ms)
        self._forgotten_mono_ms = now.mono_ms - age_ms if forgotten_until_ms else None
        # Of the transaction that is being decided.
        self._forgotten: list[tuple[ProducerEntry, int]] = []
        self._before = Forgotten(0, 0, None)

    def find(self, command: Append, now: Now) -> Known | None:
        """Return what is known of `command`, None if all of it is new.

        Raises OutcomeUnknown when it is a repeat of something too old to be known, InvalidOperation
        when its frame has too many parts.
        """
        if not command.producer_id:
            return None
        _check_spans(command)
        entries = self._named(command.producer_id, command.producer_sequence)
        known = _look_up(command, entries) if entries else None
        if known is not None and known.rest is None:
            return known
        if len(entries) >= PARTS_MAX:
            raise errors.InvalidOperation(
                f"frame {command.producer_sequence} was sent in {len(entries)} parts already, as "
                "many as are remembered. Send the rest under another frame_id."
            )
        self._check_age(command.age_ms, now, "this frame", "the messages may or may not be stored")
        return known

    def _check_age(self, age_ms: int, now: Now, what: str, may: str) -> None:
        forgotten = self._forgotten_mono_ms
        if age_ms and (
            age_ms > AGE_MS_MAX or (forgotten is not None and now.mono_ms - age_ms <= forgotten)
        ):
            raise errors.OutcomeUnknown(
                f"the first try of {what} was {age_ms / 1000:.0f} s ago, and its outcome is no "
                f"longer known here: {may}."
            )

    def refused(
        self, command: Append | Transact, error: BusError, now: Now
    ) -> Appended | Transacted | Failed:
        """Return what to answer to a command that finds no room: what is stored is told so."""
        with contextlib.suppress(BusError):
            if isinstance(command, Transact):
                return self.transaction(command, now) or Failed(error)
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
            self._note(*name, text, now, changes)

    def transaction(self, command: Transact, now: Now) -> Transacted | None:
        """Return the outcome of a transaction that was decided before, None for a new one.

        Raises OutcomeUnknown when it is a repeat of something too old to be known.
        """
        for entry in self._named(command.transaction_id, TRANSACTION_SEQUENCE):
            return transaction_outcomes.read(entry.outcome)
        self._check_age(command.age_ms, now, "this transaction", "it may or may not be done")
        return None

    def remember_transaction(
        self, command: Transact, outcome: Transacted, now: Now, changes: Changes
    ) -> None:
        """Note the outcome of a transaction in memory and in what is committed with it."""
        text = transaction_outcomes.to_text(outcome)
        self._note(command.transaction_id, TRANSACTION_SEQUENCE, 0, text, now, changes)

    def _note(
        self,
        producer_id: bytes,
        sequence: int,
        position: int,
        outcome: str,
        now: Now,
        changes: Changes,
    ) -> None:
        if not changes.producers:
            self._before = self.forgotten(changes)
        known = self._producers.get(producer_id)
        # One object for all of a producer.
        name = known.producer_id if known else producer_id
        entry = ProducerEntry(name, sequence, position, outcome, now.wall_ms)
        # STRICTLY BEFORE it is known: what is not noted is not taken back.
        changes.producers.append(entry)
        self._add(entry, now.mono_ms)
        if self._too_many(now):
            self._forget(changes)

    def roll_back(self, changes: Changes) -> None:
        """Take back what was noted in a transaction that failed."""
        if changes.producers:
            self.take_back(changes.producers, self._before)

    def forgotten(self, changes: Changes) -> Forgotten:
        """Return what a transaction has forgotten so far, for `take_back`."""
        if not changes.producers:
            # Of the one before.
            self._forgotten.clear()
        return Forgotten(len(self._forgotten), self._forgotten_wall_ms, self._forgotten_mono_ms)

    def take_back(self, noted: Sequence[ProducerEntry], before: Forgotten) -> None:
        """Take back the last that were noted in a transaction, and what was forgotten since then.

        `before` is what `forgotten` returned before the first of them.
        """
        # The last first: each is at the end.
        for entry in reversed(noted):
            self._remove(entry)
        for forgotten, at_mono_ms in reversed(self._forgotten[before.entries :]):
            self._add(forgotten, at_mono_ms, first=True)
        del self._forgotten[before.entries :]
        self._forgotten_wall_ms, self._forgotten_mono_ms = before.wall_ms, before.mono_ms

    def _too_many(self, now: Now) -> bool:
        order = self._order
        if len(order) > ENTRIES_MAX + FORGET_STEP or self._bytes > BYTES_MAX:
            return True
        if len(order) <= FORGET_STEP:
            return False
        return self._times_ms[FORGET_STEP] < now.mono_ms - AGE_MS_MAX

    def _forget(self, changes: Changes) -> None:
        # STRICTLY older than this transaction's own: those may still be rolled back.
        most = min(FORGET_STEP, len(self._order) - len(changes.producers))
        # Few of them may be large: no more are forgotten than must be.
        large, enough = self._bytes > BYTES_MAX, BYTES_MAX - BYTES_MAX // 16
        count = 0
        while count < most and (not large or self._bytes > enough):
            entry, at_mono_ms = self._order.popleft(), self._times_ms.popleft()
            self._drop(entry)
            self._forgotten.append((entry, at_mono_ms))
            self._forgotten_wall_ms = max(self._forgotten_wall_ms, entry.at_ms)
            self._forgotten_mono_ms = max(self._forgotten_mono_ms or 0, at_mono_ms)
            count += 1
        if count > 0:
            changes.producers_forgotten += count
            changes.producers_forgotten_until_ms = self._forgotten_wall_ms

    def _named(self, producer_id: bytes, sequence: int) -> Sequence[ProducerEntry]:
        producer = self._producers.get(producer_id)
        found = producer.parts.get(sequence, ()) if producer else ()
        return (found,) if isinstance(found, ProducerEntry) else found

    def _add(self, entry: ProducerEntry, at_mono_ms: int, *, first: bool = False) -> None:
        known = self._named(entry.producer_id, entry.sequence)
        both = [entry, *known] if first else [*known, entry]
        if first:
            self._order.appendleft(entry)
            self._times_ms.appendleft(at_mono_ms)
        else:
            self._order.append(entry)
            self._times_ms.append(at_mono_ms)
        producer = self._producers.get(entry.producer_id)
        if producer is None:
            producer = self._producers[entry.producer_id] = _Producer(entry.producer_id, {})
        producer.parts[entry.sequence] = both if known else entry
        self._bytes += len(entry.outcome) + ENTRY_BYTES

    def _remove(self, stored: ProducerEntry) -> None:
        # At the end, unless something is wrong: what is rolled back was added last.
        for _ in range(len(self._order)):
            entry, at_mono_ms = self._order.pop(), self._times_ms.pop()
            if entry is stored:
                self._drop(entry)
                return
            self._order.appendleft(entry)
            self._times_ms.appendleft(at_mono_ms)

    def _drop(self, entry: ProducerEntry) -> None:
        parts = self._producers[entry.producer_id].parts
        known = self._named(entry.producer_id, entry.sequence)
        kept = [other for other in known if other is not entry]
        if kept:
            parts[entry.sequence] = kept if len(kept) > 1 else kept[0]
        else:
            del parts[entry.sequence]
            if not parts:
                del self._producers[entry.producer_id]
        self._bytes -= len(entry.outcome) + ENTRY_BYTES


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
    if spans and (len(spans) % 2 or sum(spans[1::2]) != len(command.batch.payloads)):
        raise errors.InvalidArgument("spans", "must add up to the messages of the batch.")
    if spans and max(map(add, spans[::2], spans[1::2])) > limits.FRAME_MESSAGES_MAX:
        raise errors.InvalidArgument(
            "spans", f"must end within the {limits.FRAME_MESSAGES_MAX} messages of a frame."
        )


def _not_exact(command: Append) -> BusError:
    return errors.InvalidOperation(
        f"frame {command.producer_sequence} is repeated with other units than it was stored with: "
        "a repeat must be exact."
    )
