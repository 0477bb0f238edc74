"""One (sub-)queue of one partition in memory: its figures, its locks, and what receivers ask for.

    ready set ──take──► locks ──settled──► gone
        ▲                 └──ended, abandoned──┐
        └──────────────give back───────────────┘

What can be received is kept by the queue's ready set; see `ready_set`.
"""

import heapq
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain.entity import Entity
from bendybus.domain.sub_queue import DEAD_LETTERS
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.message_lock import Lock, OpenAsk
from bendybus.partition_server.state.ready_set import ReadySet, ReadyWindow, WindowMemory
from bendybus.partition_server.store.records import SlotState

# Notes of lock ends beyond two a lock, before they are made again without those of settled ones.
NOTES_SPARE: Final = 1_000


@dataclass(slots=True)
class MessageQueue:
    """The volatile side of a slot; see the module's docstring."""

    state: SlotState
    # As it is now: replaced when its description changes.
    entity: Entity
    locks: dict[int, Lock] = field(default_factory=dict)
    # By (stream, ask id), in the order in which they are served.
    asks: OrderedDict[tuple[Caller, int], OpenAsk] = field(default_factory=OrderedDict)
    # (when the locks end, their counters and generations), earliest first. A note outlives its
    # lock; see `watch_lock`.
    lock_ends: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    noted: int = 0
    # Of the partition.
    journal: Journal = field(default_factory=Journal)
    # The same: what its window may take.
    windows: WindowMemory = field(default_factory=WindowMemory)
    last_used_mono_ms: int = 0
    accessed_at_ms: int = 0
    # No message below this counter is active.
    active_from: int = 0
    # A counter of a message and this are its sequence number.
    base: int = 0
    # The number of the queue in the partition's file.
    slot: int = field(init=False)
    # The highest number of a message when the file was opened.
    opened_to: int = field(init=False, default=0)
    ready: ReadySet = field(init=False)

    def __post_init__(self) -> None:
        self.slot = self.state.slot
        self.opened_to = self.state.counter
        self.ready = ReadyWindow(self.state, self.locks, self.windows)

    @property
    def is_dead_letter(self) -> bool:
        """Whether this is a sub-queue of rejected messages."""
        return self.state.sub_queue in DEAD_LETTERS

    # Locks

    def lock_ended(self, now_mono_ms: int, limit: int) -> list[tuple[int, Lock]]:
        """Return up to about `limit` locks that are over; the caller removes them."""
        # By counter: a lock that was renewed is noted more than once.
        ended: dict[int, Lock] = {}
        renewed: dict[int, Lock] = {}
        while self.lock_ends and len(ended) < limit and self.lock_ends[0][0] <= now_mono_ms:
            _, entries = heapq.heappop(self.lock_ends)
            self.noted -= len(entries)
            for counter, generation in entries:
                lock = self.locks.get(counter)
                if lock is None or lock.generation != generation:
                    continue
                over = lock.until_mono_ms <= now_mono_ms
                (ended if over else renewed)[counter] = lock
        for counter, lock in renewed.items():
            self.watch_lock(lock.until_mono_ms, [(counter, lock.generation)])
        return list(ended.items())

    def watch_lock(self, until_mono_ms: int, entries: list[tuple[int, int]]) -> None:
        """Look at these locks, which are in `locks`, again when their time is over.

        Settling leaves notes behind, as taking one out of a heap is dear; when they outnumber the
        locks, all are made again, so that what was settled costs nothing for long.
        """
        heapq.heappush(self.lock_ends, (until_mono_ms, entries))
        self.noted += len(entries)
        if self.noted > 2 * len(self.locks) + NOTES_SPARE:
            self.watch_all()

    def extend_lock(self, counter: int, lock: Lock, until_mono_ms: int) -> None:
        """Let a lock of one message last until then."""
        self.journal.note(self._set_lock, counter, lock, lock.until_mono_ms)
        self._set_lock(counter, lock, until_mono_ms)

    def _set_lock(self, counter: int, lock: Lock, until_mono_ms: int) -> None:
        lock.until_mono_ms = until_mono_ms
        self.watch_lock(until_mono_ms, [(counter, lock.generation)])

    def watch_all(self) -> None:
        """Note the ends of all locks again, also of those whose notes are lost."""
        notes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for counter, lock in self.locks.items():
            notes[lock.until_mono_ms].append((counter, lock.generation))
        self.lock_ends = sorted(notes.items())
        self.noted = len(self.locks)

    def next_lock_end(self) -> int | None:
        """Return when to look at locks again."""
        return self.lock_ends[0][0] if self.lock_ends else None

    def extend_locks(self, gap_ms: int) -> None:
        """Extend every lock by the time that the process was suspended."""
        for lock in self.locks.values():
            lock.until_mono_ms += gap_ms
        self.lock_ends = [(until + gap_ms, entries) for until, entries in self.lock_ends]

    def close_ask(self, key: tuple[Caller, int], now: Now) -> None:
        """Forget what a receiver wants, by (stream, ask id), if it is still known.

        The receiver waited until now, which is a use.
        """
        if key in self.asks:
            self.used(now)
            del self.asks[key]

    def size_bytes(self) -> int:
        """Return what counts to the quota."""
        return self.state.size_bytes

    def used(self, now: Now) -> None:
        """Note that a client did something here."""
        self.accessed_at_ms, self.last_used_mono_ms = now
