"""What partitions answer, checked before anything relies on it. Pure.

A partition may be of another version, and its image is the tenant's to choose. So nothing that it
says is believed beyond these bounds: what cannot be understood is a `InvalidAnswer`, which makes
that one partition count as not answering. Answers come as bytes: what they hold is counted before
it is parsed, and lists are parsed one entry at a time, since 2 bytes may become 150 in memory.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from bendybus.domain import entity_settings, limits, subscription_name
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.decisions.conditions import (
    ANSWER_NOT_UNDERSTOOD,
    CERTIFICATE_OVERDUE,
    READY,
    VERSION_REFUSED,
    WORKER_ENDED,
    Counts,
)
from bendybus.wire import catalogue, entities, expansion

Value = TypeVar("Value")
# All that a bus may have and remember, with room for more of a later version.
ENTRIES_MAX: Final = 2 * (
    limits.ENTITIES_PER_NAMESPACE + limits.SUBSCRIPTIONS_PER_NAMESPACE + limits.TOMBSTONES_MAX
)
# What is asked for in one answer, and how much of one is taken; an entry may be larger.
PART_BYTES: Final = 256 * limits.KB
COUNTS_A_PAGE: Final = 10_000
ANSWER_BYTES_MAX: Final = 2 * limits.MB
# The answer with a larger entry; one at a time of a bus.
LARGE_ANSWER_BYTES_MAX: Final = limits.CATALOGUE_PART_BYTES + limits.MB
# All parts of a catalogue. So many entries of usual size are 35 MB, and rules 10 to 40 MB.
CATALOGUE_BYTES_MAX: Final = 96 * limits.MB
# Memory for the elements of one entry: twice that of the rules of a subscription with all values.
ENTRY_ELEMENTS_BYTES_MAX: Final = (
    2 * 320 * limits.RULES_PER_SUBSCRIPTION * limits.RULE_VALUES_MAX + 32 * limits.MB
)
RULES_MAX: Final = limits.RULES_PER_NAMESPACE + limits.RULES_PER_SUBSCRIPTION
# Of an answer, beside its entries.
_REST_BYTES_MAX: Final = 64 * limits.KB
_ENTITY: Final = entity_pb2.Entity.DESCRIPTOR
_COMMITTED: Final = entity_pb2.CommitEntityResponse.DESCRIPTOR
_CATALOGUE_FIELDS: Final = (entity_pb2.WatchEntitiesResponse.ENTITIES_FIELD_NUMBER,)
_COUNTS_FIELDS: Final = (partition_pb2.GetCountsResponse.ENTITIES_FIELD_NUMBER,)
_NAME_CHARS_MAX: Final = {
    EntityKind.QUEUE: limits.ENTITY_NAME_CHARS_MAX,
    EntityKind.TOPIC: limits.ENTITY_NAME_CHARS_MAX,
    EntityKind.SUBSCRIPTION: limits.ENTITY_PATH_CHARS_MAX,
}
UID_CHARS_MAX: Final = 512
SETTING_CHARS_MAX: Final = 4 * limits.USER_METADATA_CHARS_MAX
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
NO_STATES: Final = frozenset(
    {"uid", "generation", "size_in_bytes", "idle_ms", "accessed_at_ms", "oldest_active_ms"}
)
# Conditions that the operator itself sets.
_OWN: Final = frozenset(
    {READY, ANSWER_NOT_UNDERSTOOD, CERTIFICATE_OVERDUE, VERSION_REFUSED, WORKER_ENDED}
)
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
    """What one answer of a watch says.

    `pulls`: the partition takes what it lacks by itself; `contract`: the number of its contract.
    """

    fingerprint: Fingerprint
    entries: list[Entity]
    pulls: bool
    snapshot: bool
    contract: int


class CatalogueReader:
    """Reads the answers of one watch, and puts the parts of a snapshot together."""

    def __init__(self, *, keep: bool = True) -> None:
        """`keep`: False to look only whether they can be understood."""
        self._keep, self._number = keep, 0
        self._entries: list[Entity] = []
        self._size_bytes = 0
        # Of a snapshot that goes on: `snapshot` of its first part.
        self._begun: bool | None = None

    def read(self, data: bytes) -> CatalogueNews | None:
        """Return what the answer that a part completes says, None if more parts follow.

        Raises InvalidAnswer.
        """
        return understood(lambda: self._read(data))

    def _read(self, data: bytes) -> CatalogueNews | None:
        self._size_bytes += len(data)
        if self._size_bytes > CATALOGUE_BYTES_MAX:
            raise ValueError(f"catalogue: must be at most {CATALOGUE_BYTES_MAX} bytes in all parts")
        rest = bytearray()
        for field, content in expansion.pieces(data, _CATALOGUE_FIELDS):
            if not field:
                _add(rest, content)
                continue
            self._number += 1
            if self._number > ENTRIES_MAX:
                raise ValueError(f"more than {ENTRIES_MAX} entries")
            entry = _entry(content)
            if entry is not None and self._keep:
                self._entries.append(entry)
        response = entity_pb2.WatchEntitiesResponse.FromString(bytes(rest))
        if self._begun is None:
            self._begun = response.snapshot
        return None if response.more else self._news(response)

    def _news(self, response: entity_pb2.WatchEntitiesResponse) -> CatalogueNews:
        fingerprint = entities.fingerprint_from_proto(response.fingerprint)
        _within("partition_count", fingerprint.partition_count, 1)
        news = CatalogueNews(
            fingerprint,
            self._entries,
            response.pulls,
            bool(self._begun),
            response.contract,
        )
        self._entries, self._number, self._size_bytes, self._begun = [], 0, 0, None
        return news


def _add(rest: bytearray, content: memoryview) -> None:
    if len(rest) + len(content) > _REST_BYTES_MAX:
        raise ValueError(f"more than {_REST_BYTES_MAX} bytes beside its entries")
    rest += content


def _entry(content: memoryview) -> Entity | None:
    """Return an entry of a catalogue; None: of a kind that this version does not know."""
    expansion.check(content, _ENTITY, ENTRY_ELEMENTS_BYTES_MAX)
    proto = entity_pb2.Entity.FromString(content.tobytes())
    if proto.kind and not entities.knows_kind(proto.kind):
        return None
    return _checked(entities.entity_from_proto(proto))


def committed(data: bytes) -> Entity:
    """Return the entry that the registrar committed. Raises InvalidAnswer."""

    def convert() -> Entity:
        expansion.check(data, _COMMITTED, ENTRY_ELEMENTS_BYTES_MAX)
        response = entity_pb2.CommitEntityResponse.FromString(data)
        return _checked(catalogue.committed(response))

    return understood(convert)


def _checked(made: Entity) -> Entity:
    _within("partition_count", made.partition_count, 1)
    _within("home_partition", made.home_partition, 0, limits.STANDARD_PARTITION_COUNT - 1)
    for name, text, longest in (
        ("name", made.name, _NAME_CHARS_MAX[made.kind]),
        ("uid", made.uid, UID_CHARS_MAX),
        ("manifest_uid", made.manifest_uid, UID_CHARS_MAX),
        *(
            (each.name, getattr(made.description, each.name), SETTING_CHARS_MAX)
            for each in entity_settings.BY_KIND[made.kind]
            if each.is_text
        ),
    ):
        if len(text) > longest:
            raise ValueError(f"{name}: must be at most {longest} characters (got {len(text)})")
    if not made.name.isprintable() or not made.name:
        raise ValueError(f"name: {made.name!r} is not a name")
    if made.kind is EntityKind.SUBSCRIPTION and subscription_name.split(made.name) is None:
        raise ValueError(f"name: {made.name!r} is not the name of a subscription")
    return made


@dataclass(frozen=True, slots=True)
class CountsPage:
    """Counts by UID; `more`: others follow these."""

    counts: dict[str, Counts]
    conditions: tuple[str, ...]
    more: bool


def counts_page(data: bytes, after_uid: str = "") -> CountsPage:
    """Return the counts of a page that follows `after_uid`. Raises InvalidAnswer."""

    def convert() -> CountsPage:
        rest, number = bytearray(), 0
        for field, content in expansion.pieces(data, _COUNTS_FIELDS):
            if not field:
                _add(rest, content)
            number += bool(field)
            if number > ENTRIES_MAX:
                raise ValueError(f"counts of more than {ENTRIES_MAX} entities")
        # An entry of these has no lists: it takes as much as any other.
        response = partition_pb2.GetCountsResponse.FromString(data)
        found = {each.uid: _counts(each) for each in response.entities}
        # Else it could be asked for ever.
        if response.more and (number < COUNTS_A_PAGE or min(found) <= after_uid):
            raise ValueError("more counts follow a page that is not full, or was there before")
        if any(len(uid) > UID_CHARS_MAX for uid in found):
            raise ValueError(f"uid: must be at most {UID_CHARS_MAX} characters")
        return CountsPage(found, conditions(response.conditions), response.more)

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
