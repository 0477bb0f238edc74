"""Outcomes of a frame's units as text, as they are kept with producers' frames.

    7+3@UID                     three messages in a row, numbers from 7 on
    or else as JSON:     {"first": 7, "count": 3, "entity": UID,
                         "spans": [0, 2, 9, 1]       … at positions 0, 1 and 9 of their frame
                         "numbers", "duplicates", "failures": [position, size, text], "texts"}

Entries of 0.3 do not name the entity: they are taken for entries of any.
"""

import json
from collections.abc import Iterator, Sequence

from bendybus.domain import errors, sequence_number
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.store.records import ProducerEntry


def to_text(command: Append, outcome: Appended) -> str:
    """Return the outcome of a command for its entry."""
    numbers = outcome.numbers
    first = numbers[0] if numbers else 0
    uid = command.entity.uid
    facts: dict[str, object] = {"first": first, "count": len(numbers), "entity": uid}
    if len(command.spans) > 2:
        facts["spans"] = list(command.spans)
    if not sequence_number.consecutive(numbers):
        facts["numbers"] = list(numbers)
    if any(outcome.duplicates):
        facts["duplicates"] = [i for i, duplicate in enumerate(outcome.duplicates) if duplicate]
    if outcome.failures:
        places = list(positions(command.spans, len(numbers)))
        groups = list(units(command))
        texts: dict[tuple[str, str], int] = {}
        facts["failures"] = [
            [
                places[groups[group][0]],
                groups[group][1] - groups[group][0],
                texts.setdefault((error.reason, error.message), len(texts)),
            ]
            for group, error in outcome.failures
        ]
        facts["texts"] = list(texts)
    return json.dumps(facts) if len(facts) > 3 else f"{first}+{len(numbers)}@{uid}"


def entity_of(entry: ProducerEntry) -> str:
    """Return the UID of the entity that an entry is of, "" if it does not say."""
    if not entry.outcome.startswith("{"):
        return entry.outcome.partition("@")[2]
    facts = json.loads(entry.outcome)
    # Of a transaction, its entity is beside it.
    return str(facts.get("of", "" if "parts" in facts else facts.get("entity", "")))


def read(
    entry: ProducerEntry,
    uid: str,
    numbers_at: dict[int, tuple[int, bool]],
    failed_at: dict[int, tuple[int, BusError]],
) -> None:
    """Note the numbers and failures of an entry, unless it is of another entity than `uid`."""
    if entry.outcome.startswith("{"):
        facts = json.loads(entry.outcome)
    else:
        span, _, entity_uid = entry.outcome.partition("@")
        facts = dict(zip(("first", "count"), map(int, span.split("+")), strict=True))
        facts["entity"] = entity_uid
    if (facts.get("entity") or uid) != uid:
        return
    first, count = facts["first"], facts["count"]
    numbers: Sequence[int] = facts.get("numbers") or range(first, first + count)
    duplicates = set(facts.get("duplicates", ()))
    spans = facts.get("spans") or (entry.position, count)
    for i, position in enumerate(positions(spans, count)):
        if numbers[i]:
            numbers_at[position] = (numbers[i], i in duplicates)
    made = [error_of(reason, message) for reason, message in facts.get("texts", ())]
    for position, size, text in facts.get("failures", ()):
        failed_at[position] = (size, made[text])


def error_of(reason: str, message: str) -> BusError:
    """Return an error as it was when it was written down."""
    kinds = {kind.reason: kind for kind in errors.all_errors()}
    kind = kinds.get(reason, BusError)
    if kind is errors.InvalidArgument:
        field, _, sentence = message.partition(": ")
        return errors.InvalidArgument(field, sentence)
    return kind(message)


def units(command: Append) -> Iterator[tuple[int, int]]:
    """Yield where each group of a command begins and ends."""
    start = 0
    for size in command.group_sizes or (len(command.batch.payloads),):
        yield start, start + size
        start += size


def positions(spans: Sequence[int], count: int) -> Iterator[int]:
    """Yield the position of each message in the frame of the first try."""
    if not spans:
        yield from range(count)
    for i in range(0, len(spans), 2):
        yield from range(spans[i], spans[i] + spans[i + 1])
