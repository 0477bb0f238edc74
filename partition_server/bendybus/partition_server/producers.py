"""Safe repeats: which parts of producers' frames are stored, and with what outcome.

A part is named by (producer id, sequence, lane). The lane is the partition of the first choice:
a part that failed over to another partition keeps its lane, so it can never be mistaken for a
part that this partition got in its own right. Membership is exact, not a high-water mark: a mark
would take a late first try behind a failed-over later one for a repeat, and lose it.

Entries are written in the transaction that stores the part; bounded by number. A repeat that is
older than what is kept gets no answer but an error: its outcome is unknown.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.partition_server.commands import Append, Appended, Now
from bendybus.partition_server.stored import Changes, ProducerEntry

ENTRIES_MAX: Final = 65_536
# Entries are forgotten this many at a time.
FORGET_STEP: Final = 1_024
AGE_MS_MAX: Final = 10 * 60 * 1_000

Key = tuple[bytes, int, int]


class Producers:
    """The parts that are stored, in the order of their commits."""

    def __init__(self, entries: Iterable[ProducerEntry]) -> None:
        self._entries: dict[Key, ProducerEntry] = {
            (entry.producer_id, entry.sequence, entry.lane): entry for entry in entries
        }
        self._forgotten_until_ms = 0

    def repeat_of(self, command: Append, now: Now) -> Appended | None:
        """Return the outcome if `command` was stored before, None if it is new.

        Raises ServiceTimeout when it is a repeat of something too old to be known.
        """
        entry = self._entries.get(_key(command))
        if entry is not None:
            outcome = _outcome_from_json(entry.outcome)
            if len(outcome.numbers) != len(command.batch.payloads):
                raise errors.InvalidOperation(
                    f"frame {command.producer_sequence} was stored with {len(outcome.numbers)} "
                    f"messages and is repeated with {len(command.batch.payloads)}: a repeat must "
                    "be exact."
                )
            return outcome
        first_try_ms = now.wall_ms - command.age_ms
        if command.age_ms and (
            command.age_ms > AGE_MS_MAX or first_try_ms < self._forgotten_until_ms
        ):
            raise errors.ServiceTimeout(
                f"the first try of this frame was {command.age_ms / 1000:.0f} s ago and its "
                "outcome is no longer known: the messages may or may not be stored."
            )
        return None

    def remember(self, command: Append, outcome: Appended, now: Now, changes: Changes) -> None:
        """Note the outcome in memory and in the transaction."""
        entry = ProducerEntry(*_key(command), _outcome_to_json(outcome), now.wall_ms)
        self._entries[_key(command)] = entry
        changes.producers.append(entry)
        if len(self._entries) > ENTRIES_MAX + FORGET_STEP:
            # STRICTLY older than this transaction's own: those may still be rolled back.
            for key in list(self._entries)[:FORGET_STEP]:
                self._forgotten_until_ms = max(
                    self._forgotten_until_ms, self._entries.pop(key).at_ms
                )
            changes.producers_forgotten += FORGET_STEP

    def roll_back(self, entries: Iterable[ProducerEntry]) -> None:
        """Forget entries whose transaction failed."""
        for entry in entries:
            self._entries.pop((entry.producer_id, entry.sequence, entry.lane), None)


def _key(command: Append) -> Key:
    return command.producer_id, command.producer_sequence, command.producer_lane


def _outcome_to_json(outcome: Appended) -> str:
    numbers = outcome.numbers
    facts: dict[str, object] = {"first": numbers[0] if numbers else 0, "count": len(numbers)}
    if not _consecutive(numbers):
        facts["numbers"] = list(numbers)
    if any(outcome.duplicates):
        facts["duplicates"] = [i for i, duplicate in enumerate(outcome.duplicates) if duplicate]
    if outcome.failures:
        facts["failures"] = [
            [group, error.reason, error.message] for group, error in outcome.failures
        ]
    return json.dumps(facts)


def _outcome_from_json(text: str) -> Appended:
    facts = json.loads(text)
    first, count = facts["first"], facts["count"]
    numbers: Sequence[int] = facts.get("numbers") or range(first, first + count)
    duplicate = set(facts.get("duplicates", ()))
    flags = [i in duplicate for i in range(count)] if duplicate else ()
    failures = [
        (group, _error(reason, message)) for group, reason, message in facts.get("failures", ())
    ]
    return Appended(numbers, flags, failures)


def _error(reason: str, message: str) -> BusError:
    kinds = {kind.reason: kind for kind in errors.all_errors()}
    kind = kinds.get(reason, BusError)
    if kind is errors.InvalidArgument:
        field, _, sentence = message.partition(": ")
        return errors.InvalidArgument(field, sentence)
    return kind(message)


def _consecutive(numbers: Sequence[int]) -> bool:
    if not numbers:
        return True
    first = numbers[0]
    return (
        bool(first)
        and numbers[-1] - first == len(numbers) - 1
        and list(numbers) == list(range(first, first + len(numbers)))
    )
