"""Outcomes of transactions, as they are kept, as text, beside those of producers' frames.

{"entity": "a transaction",                no entity's UID: nothing takes it for a frame
 "of": UID,                                what it was about
 "parts": [{"numbers": [7, 8], "duplicates": [1]}, {"locked_until_ms": …}, {}],
 "refused": [part, reason, text]}          then there are no parts
"""

import contextlib
import json
from typing import Final

from bendybus.domain.errors import BusError
from bendybus.partition_server.state import outcomes, producer_memory, producer_outcomes
from bendybus.partition_server.state.answers import Failed, Transacted, TransactionPart
from bendybus.partition_server.state.commands import Now, Transact
from bendybus.partition_server.state.producer_memory import Producers
from bendybus.partition_server.store.records import Changes

ENTITY = "a transaction"
# Of a transaction's entry, beside its id as producer: no frame has it, whatever a client names one.
SEQUENCE: Final = -1


class Transactions:
    """The transactions that are decided; they have one memory with producers' frames."""

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self.bounds = producers.bounds
        self.used = producers.used
        self.unknown_before = producers.unknown_before

    def find(self, command: Transact, now: Now) -> Transacted | None:
        """Return the outcome of a transaction that was decided before, None for a new one.

        Raises OutcomeUnknown when it is a repeat of something too old to be known.
        """
        for entry in self._producers.named(command.transaction_id, SEQUENCE):
            return read(entry.outcome)
        if outcomes.may_be_forgotten(self, command.entity.uid, command.age_ms, now):
            may = "it may or may not be done"
            raise producer_memory.unknown("this transaction", command.age_ms, may)
        return None

    def remember(self, command: Transact, outcome: Transacted, now: Now, changes: Changes) -> None:
        """Note an outcome in memory and in what is committed with it."""
        uid = command.entity.uid
        name = (command.transaction_id, SEQUENCE, 0)
        self._producers.note(uid, name, to_text(outcome, uid), now, changes)

    def refused(self, command: Transact, error: BusError, now: Now) -> Transacted | Failed:
        """Return what to answer to a transaction that finds no room: what is done is told so."""
        with contextlib.suppress(BusError):
            return self.find(command, now) or Failed(error)
        return Failed(error)


def to_text(outcome: Transacted, uid: str) -> str:
    """Return an outcome for its entry."""
    facts: dict[str, object] = {"entity": ENTITY, "of": uid}
    facts["parts"] = list(map(_facts, outcome.parts))
    if outcome.error is not None:
        facts["refused"] = [outcome.refused_part, outcome.error.reason, outcome.error.message]
    return json.dumps(facts)


def read(text: str) -> Transacted:
    """Return the outcome of an entry. A lock's remaining time is not told a second time."""
    facts = json.loads(text)
    refused = facts.get("refused")
    if refused is not None:
        part, reason, message = refused
        return Transacted((), part, producer_outcomes.error_of(reason, message))
    return Transacted([_part(**each) for each in facts["parts"]])


def _facts(part: TransactionPart) -> dict[str, object]:
    facts: dict[str, object] = {}
    if part.numbers:
        facts["numbers"] = list(part.numbers)
    if any(part.duplicates):
        facts["duplicates"] = [i for i, duplicate in enumerate(part.duplicates) if duplicate]
    if part.locked_until_ms:
        facts["locked_until_ms"] = part.locked_until_ms
    return facts


def _part(
    numbers: list[int] | None = None,
    duplicates: list[int] | None = None,
    locked_until_ms: int = 0,
) -> TransactionPart:
    found = numbers or []
    flags = [i in set(duplicates) for i in range(len(found))] if duplicates else []
    return TransactionPart(found, flags, locked_until_ms)
