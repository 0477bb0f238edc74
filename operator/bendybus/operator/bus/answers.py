"""What partitions answer, checked before anything relies on it. Pure.

A partition may be of another version, and its image is the tenant's to choose. So nothing that it
says is believed beyond these bounds: what cannot be understood is a `InvalidAnswer`, which makes
that one partition count as not answering.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from bendybus.domain import limits, subscription_name
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.decisions.conditions import (
    ANSWER_NOT_UNDERSTOOD,
    CERTIFICATE_OVERDUE,
    READY,
    Counts,
)
from bendybus.wire import catalogue, entities

Value = TypeVar("Value")
# All that a bus may have and remember, with room for more of a later version.
ENTRIES_MAX: Final = 2 * (
    limits.ENTITIES_PER_NAMESPACE + limits.SUBSCRIPTIONS_PER_NAMESPACE + limits.TOMBSTONES_MAX
)
BYTES_MAX: Final = 48 * limits.MB
# All parts of a catalogue. So many entries of usual size are 35 MB, and rules 10 to 40 MB.
CATALOGUE_BYTES_MAX: Final = 96 * limits.MB
_NAME_CHARS_MAX: Final = {
    EntityKind.QUEUE: limits.ENTITY_NAME_CHARS_MAX,
    EntityKind.TOPIC: limits.ENTITY_NAME_CHARS_MAX,
    EntityKind.SUBSCRIPTION: limits.ENTITY_PATH_CHARS_MAX,
}
UID_CHARS_MAX: Final = 512
METADATA_CHARS_MAX: Final = 4 * limits.USER_METADATA_CHARS_MAX
SENTENCE_CHARS_MAX: Final = 500
CONDITIONS_MAX: Final = 8
# Of a field of EntityCounts: what it says of the messages. Fields that are not about messages
# have no state. A new field must be put here, or the guard against deletion would not see it.
STATES: Final[dict[str, str]] = {
    "active": "active",
    "dead_letter": "dead_letter",
    "scheduled": "scheduled",
    "deferred": "deferred",
    "locked": "locked",
    "transfer_dead_letter": "transfer_dead_letter",
    "transfer": "transfer",
}
NO_STATES: Final = frozenset({"uid", "generation", "size_in_bytes", "idle_ms", "accessed_at_ms"})
# Conditions that the operator itself sets.
_OWN: Final = frozenset({READY, ANSWER_NOT_UNDERSTOOD, CERTIFICATE_OVERDUE})
_WORD: Final = re.compile(r"[A-Z][A-Za-z]{0,62}\Z")


class InvalidAnswer(Exception):
    """Raised when a partition's answer cannot be understood; one sentence."""


def understood(convert: Callable[[], Value]) -> Value:
    """Return what `convert` makes of an answer. Raises InvalidAnswer for whatever it cannot."""
    try:
        return convert()
    except BusError as error:
        raise InvalidAnswer(sentence(error.message)) from error
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        DecodeError,
    ) as error:
        raise InvalidAnswer(sentence(f"{type(error).__name__}: {error}")) from error


def sentence(text: str) -> str:
    """Return a text of a partition as logs, events and status may carry it."""
    shown = "".join(each if each.isprintable() else "?" for each in text[:SENTENCE_CHARS_MAX])
    return shown if len(text) <= SENTENCE_CHARS_MAX else f"{shown}…"


@dataclass(frozen=True, slots=True)
class CatalogueNews:
    """What one answer of a watch says. `kinds`: those that the partition can keep."""

    fingerprint: Fingerprint
    entries: list[Entity]
    kinds: frozenset[EntityKind]
    knows_sessions: bool


def catalogue_news(response: entity_pb2.WatchEntitiesResponse) -> CatalogueNews:
    """Return what an answer of a watch says. Raises InvalidAnswer."""

    def convert() -> CatalogueNews:
        if len(response.entities) + len(response.others) > ENTRIES_MAX:
            raise ValueError(f"more than {ENTRIES_MAX} entries")
        fingerprint = entities.fingerprint_from_proto(response.fingerprint)
        _within("partition_count", fingerprint.partition_count, 1)
        for each in response.entities:
            if entities.kind_from_proto(each.kind) is not EntityKind.QUEUE:
                raise ValueError(f"{each.kind}: not where queues are")
        entries = [_checked(each) for each in catalogue.entries_of(response)]
        kinds = catalogue.kinds_of(response)
        return CatalogueNews(fingerprint, entries, kinds, response.knows_sessions)

    return understood(convert)


def catalogue_parts() -> catalogue.Parts:
    """Return what puts the parts of a partition's catalogue together, within bounds."""
    return catalogue.Parts(CATALOGUE_BYTES_MAX)


def committed(response: entity_pb2.CommitEntityResponse) -> Entity:
    """Return the entry that the registrar committed. Raises InvalidAnswer."""
    return understood(lambda: _checked(catalogue.committed(response)))


def _checked(made: Entity) -> Entity:
    _within("partition_count", made.partition_count, 1)
    _within("home_partition", made.home_partition, 0, limits.STANDARD_PARTITION_COUNT - 1)
    for name, text, longest in (
        ("name", made.name, _NAME_CHARS_MAX[made.kind]),
        ("uid", made.uid, UID_CHARS_MAX),
        ("manifest_uid", made.manifest_uid, UID_CHARS_MAX),
        ("user_metadata", made.description.user_metadata, METADATA_CHARS_MAX),
        ("forward_to", made.description.forward_to, METADATA_CHARS_MAX),
        (
            "forward_dead_lettered_messages_to",
            made.description.forward_dead_lettered_messages_to,
            METADATA_CHARS_MAX,
        ),
    ):
        if len(text) > longest:
            raise ValueError(f"{name}: must be at most {longest} characters (got {len(text)})")
    if not made.name.isprintable() or not made.name:
        raise ValueError(f"name: {made.name!r} is not a name")
    if made.kind is EntityKind.SUBSCRIPTION and subscription_name.split(made.name) is None:
        raise ValueError(f"name: {made.name!r} is not the name of a subscription")
    return made


def counts(response: partition_pb2.GetCountsResponse) -> dict[str, Counts]:
    """Return counts by UID. Raises InvalidAnswer."""

    def convert() -> dict[str, Counts]:
        if len(response.entities) > ENTRIES_MAX:
            raise ValueError(f"counts of more than {ENTRIES_MAX} entities")
        return {each.uid: _counts(each) for each in response.entities}

    return understood(convert)


def _counts(proto: partition_pb2.EntityCounts) -> Counts:
    # By position, in the order of Counts: there are many of these.
    return Counts(
        max(proto.active, 0),
        max(proto.dead_letter, 0),
        max(proto.scheduled, 0),
        max(proto.deferred, 0),
        max(proto.locked, 0),
        max(proto.size_in_bytes, 0),
        max(proto.transfer_dead_letter, 0),
        max(proto.transfer, 0),
    )


def conditions(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a partition that a status may show as conditions."""
    found = [word for word in words if _WORD.match(word) and word not in _OWN]
    return tuple(dict.fromkeys(found[:CONDITIONS_MAX]))


def _within(name: str, number: int, low: int, high: int = limits.STANDARD_PARTITION_COUNT) -> None:
    if not low <= number <= high:
        raise ValueError(f"{name}: must be {low} to {high} (got {number})")


class Share:
    """How much of the operator's time one bus may take: a reserve, then a share. Pure.

    A bus whose partitions never stop talking would otherwise leave no time for others.
    """

    def __init__(self, *, reserve_s: float = 10.0, share: float = 0.1) -> None:
        self._reserve_s = self._left_s = reserve_s
        self._share = share
        self._at_s: float | None = None

    def spend(self, seconds: float, now_s: float) -> float:
        """Take note of time that was spent; return how long the bus is to wait now."""
        since_s = 0.0 if self._at_s is None else max(0.0, now_s - self._at_s)
        self._at_s = now_s
        self._left_s = min(self._reserve_s, self._left_s + since_s * self._share) - seconds
        return max(0.0, -self._left_s / self._share)
