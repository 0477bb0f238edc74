"""The seam between the rules of a partition and its file.

Two implementations honour the same contract and pass the same tests: `sqlite_store` and
`memory_store`. Reads see what is committed. One thread uses a store.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bendybus.domain.entity import Entity, Fingerprint
from bendybus.partition_server.store.body_reads import BodyReads
from bendybus.partition_server.store.fence_reads import FenceReads
from bendybus.partition_server.store.forward_reads import ForwardReads
from bendybus.partition_server.store.pipeline_records import Lease
from bendybus.partition_server.store.records import (
    Changes,
    ClockMark,
    Delay,
    Envelope,
    HistoryEntry,
    ProducerEntry,
    Row,
    SlotState,
    Summary,
)
from bendybus.partition_server.store.session_reads import SessionReads


@dataclass(frozen=True, slots=True)
class Opened:
    """What a file holds beside messages, read once when it is opened."""

    fingerprint: Fingerprint
    # Rises with every opening; part of lock tokens.
    boot: int
    entities: list[Entity]
    slots: list[SlotState]
    # Oldest first.
    producers: list[ProducerEntry]
    # None: never in use, or before this was noted.
    seen: ClockMark | None = None
    # By UID of an entity, wall clock: frames whose first try was before it may be forgotten; "": of
    # all entities.
    producers_unknown: Mapping[str, int] = field(default_factory=dict)
    # Messages that wait, because they were abandoned with a delay.
    delays: Sequence[Delay] = ()
    # Of drains, also those that were ended.
    leases: Sequence[Lease] = ()


class Store(Protocol):
    """Messages of one partition."""

    @property
    def sessions(self) -> SessionReads:
        """What is read by session."""

    @property
    def forwards(self) -> ForwardReads:
        """What is read of frames that were forwarded here."""

    @property
    def pipelines(self) -> FenceReads:
        """What is read of the fences of producers."""

    @property
    def bodies(self) -> BodyReads:
        """What is read of shared bodies."""

    def open(self) -> Opened:
        """Raise the boot number durably and return what is there.

        Raises errors.FileRefused when the file is not this partition's, errors.StoreFailed when
        it cannot be used.
        """

    def active(
        self, slot: int, after: int, through: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """Return ACTIVE rows with a counter above `after`, up to `through`, in order.

        Leaves out what expires at or before `expired_ms`. Stops at `limit` rows, or as soon as
        what is delivered of them makes up `size_limit` bytes.
        """

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return the rows that exist among `ids`, in order of id."""

    def envelope(self, id_: int) -> Envelope | None:
        """Return a row without head and payload, which are not read; None if it does not exist."""

    def browse(self, slot: int, start: int, limit: int, size_limit: int) -> list[Row]:
        """Return rows of every state from counter `start` up, in order; stops like `active`."""

    def summaries(self, slot: int, start: int, through: int, limit: int) -> list[Summary]:
        """Return the summaries of rows of every state from counter `start` up to `through`."""

    def expiring(self, until_ms: int, after: tuple[int, int], limit: int) -> list[Summary]:
        """Return rows that expire at or before `until_ms`, in order of (expires_ms, id) > after."""

    def activating(
        self, until_ms: int, after: tuple[int, int], limit: int, slot: int | None = None
    ) -> list[Summary]:
        """Return SCHEDULED rows due at or before `until_ms`, in order of (due, id) > after.

        Of one slot, or of all.
        """

    def next_expiry(self, after_ms: int) -> int | None:
        """Return when the first message expires after `after_ms`."""

    def next_activation(self, after_ms: int) -> int | None:
        """Return when the first scheduled message is due after `after_ms`."""

    def oldest_key(self, slot: int, from_ms: int) -> int | None:
        """Return when the oldest key was accepted that duplicate detection remembers since."""

    def known(self, slot: int, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the keys that duplicate detection remembers: counter of the original, when."""

    def history(self, slot: int, before_ms: int, limit: int) -> list[HistoryEntry]:
        """Return what duplicate detection remembered before a time, oldest first."""

    def commit(self, changes: Changes, *, keep: bool = True) -> None:
        """Write all of `changes` durably, or nothing; without `keep`, only find out if it can.

        Raises errors.StoreFull when there is no room and errors.Unwritable for a value that cannot
        be written (the store goes on), errors.StoreFailed on any other failure (the store cannot
        be used until it is reopened).
        """
