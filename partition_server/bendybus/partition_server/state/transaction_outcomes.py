"""Outcomes of transactions as text, as they are kept beside those of producers' frames.

{"entity": "a transaction",                no entity's UID: nothing takes it for a frame
 "of": UID,                                what it was about
 "parts": [{"numbers": [7, 8], "duplicates": [1]}, {"locked_until_ms": …}, {}],
 "refused": [part, reason, text]}          then there are no parts
"""

import json

from bendybus.partition_server.state import producer_outcomes
from bendybus.partition_server.state.answers import Transacted, TransactionPart

ENTITY = "a transaction"


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
