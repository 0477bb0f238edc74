"""A session-aware queue of one partition in memory: its sessions that are locked, and who waits.

The locks of messages end with the lock of their session, so this queue watches only those.

What can be received of a session-aware queue: which sessions are free, and what is next in each.

    store ──page of (counter, session)──► candidates ──next_session()──► offered, locked
    commit ──hot──►                          ▲                               │
                                             └────────────── free ◄──────────┘

Every session that has messages is locked, or a *candidate*, or all its messages have counters
above `loaded`. So memory grows with the sessions that are locked, and a bounded number of others,
never with messages or with the sessions that wait. A session that is locked is read from the store
in its own order, as much at a time as its receiver asks for.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.message_lock import Lock, OpenAsk
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.ready_set import PAGE_COUNTERS, end_of_gap
from bendybus.partition_server.state.session_lock import (
    NextSessionAsk,
    SessionAsk,
    SessionLock,
    SessionMessageLock,
)
from bendybus.partition_server.store.records import Row, SlotState, State, row_id
from bendybus.partition_server.store.store import SESSION_LOOKS, Head, Store

PAGE_ROWS: Final = 2_000
CANDIDATES_MAX: Final = 4_000
# One look for a free session reads this many pages and checks this many candidates; the next turn
# goes on.
LOOK_PAGES: Final = 2
LOOKS: Final = 500
# Candidates that one whose first messages are past their time counts as.
OVER_LOOKS: Final = 20
# Entries of the heap that are void, before it is made again.
HEAP_SPARE: Final = 1_000


class SessionReadySet:
    """The ready set of a queue whose messages are received by session."""

    __slots__ = ("_heads", "_heap", "_held", "_locks", "_state", "loaded", "passed", "woken")

    def __init__(
        self, state: SlotState, locks: Mapping[int, Lock], held: Mapping[str, SessionLock]
    ) -> None:
        """`locks` are those of the queue, `held` its sessions that are offered or locked."""
        self._state = state
        self._locks = locks
        self._held = held
        # Candidates: where the first message of each is, or was; and the same in order.
        self._heads: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self.loaded = 0
        self.passed = 0
        # Sessions that have asks, and maybe something for them.
        self.woken: dict[str, None] = {}

    def at_end(self) -> bool:
        """Whether all messages before the next one are known by their sessions."""
        return self.loaded >= self._state.counter

    def push_hot(self, rows: Iterable[Row], caught_up: bool) -> None:
        """Tell sessions of committed rows; see ReadySet."""
        found: list[tuple[int, str]] = []
        for row in rows:
            session = self._held.get(row.session_id or "")
            if row.state != State.ACTIVE:
                continue
            found.append((row.counter, row.session_id or ""))
            if session is not None:
                session.more = True
                self._wake(session)
        if caught_up and self._discovered(found):
            self.loaded = self._state.counter

    def give_back(self, counter: int, lock: Lock) -> None:
        """Put a message back into its place in its session, if that is still locked."""
        assert isinstance(lock, SessionMessageLock), lock
        session = lock.session
        # Above `loaded` (after a rewind) the next page has it.
        if not session.ended and counter <= session.loaded:
            heapq.heappush(session.returned, counter)
            self._wake(session)

    def forget(self, counters: Sequence[int]) -> None:
        """Do nothing: what is not locked is read again before it is given."""

    def rewind(self) -> None:
        """Look for all sessions, and for all messages of those that are locked, again."""
        self._heads.clear()
        self._heap.clear()
        self.loaded = 0
        for session in self._held.values():
            session.loaded, session.more = 0, True
            session.returned.clear()
            self._wake(session)

    def has_ready(self) -> bool:
        """Whether a look for a free session could find one."""
        return bool(self._heads) or not self.at_end()

    def take(
        self, count: int, size_bytes: int, *, now_ms: int, store: Store, session_id: str = ""
    ) -> list[Row]:
        """Return messages of a session that is locked, in their order; see ReadySet."""
        session = self._held[session_id]
        self.passed = 0
        taken: list[Row] = []
        while session.returned and len(taken) < count and size_bytes > 0:
            counter = session.returned[0]
            for row in store.rows([row_id(self._state.slot, counter)]):
                if not self._free(row, now_ms):
                    continue
                if taken and row.delivered_bytes() > size_bytes:
                    return taken
                taken.append(row)
                size_bytes -= row.delivered_bytes()
            heapq.heappop(session.returned)
        if session.more and len(taken) < count and size_bytes > 0:
            self._read(session, taken, count - len(taken), size_bytes, now_ms=now_ms, store=store)
        return taken

    def next_session(self, *, now_ms: int, store: Store) -> str | None:
        """Return the free session whose first message is the oldest; None: none was found.

        It is no longer a candidate; the caller locks it. The work is bounded: `has_ready` says
        whether there is more to look at.
        """
        self.passed, pages, looks = 0, LOOK_PAGES, LOOKS
        while looks > 0:
            looks -= 1
            if not self._heads:
                if self.at_end() or not pages:
                    return None
                pages -= 1
                self._load(store, now_ms)
                continue
            known, session_id = heapq.heappop(self._heap)
            if self._heads.get(session_id) != known:
                continue
            del self._heads[session_id]
            # Free, so nothing of it came back before the place where it was found.
            head = store.sessions.head(self._state.slot, session_id, known - 1, now_ms)
            if head is None:
                continue
            if head.alive and (head.counter == known or not self._earlier(head.counter)):
                return session_id
            if not head.alive:
                looks -= OVER_LOOKS
                self.passed += SESSION_LOOKS
            self._add_at(head, session_id)
        return None

    def locked(self, session_id: str) -> None:
        """Take a session that is locked out of the candidates."""
        self._heads.pop(session_id, None)

    def freed(self, session_id: str, *, now_ms: int, store: Store) -> None:
        """Make a session whose lock is over a candidate again, if it has messages."""
        self.woken.pop(session_id, None)
        head = store.sessions.head(self._state.slot, session_id, 0, now_ms)
        if head is not None:
            self._add_at(head, session_id)

    def _free(self, row: Row, now_ms: int) -> bool:
        alive = row.expires_ms is None or row.expires_ms > now_ms
        return row.state == State.ACTIVE and alive and row.counter not in self._locks

    def _read(
        self,
        session: SessionLock,
        taken: list[Row],
        count: int,
        size_bytes: int,
        *,
        now_ms: int,
        store: Store,
    ) -> None:
        rows, following = store.sessions.rows(
            self._state.slot, session.session_id, session.loaded, count, size_bytes, now_ms
        )
        for row in rows:
            if row.counter not in self._locks:
                if taken and row.delivered_bytes() > size_bytes:
                    return
                taken.append(row)
                size_bytes -= row.delivered_bytes()
            session.loaded = row.counter
        if following is not None and not rows:
            self.passed += SESSION_LOOKS
        session.more = following is not None
        session.loaded = self._state.counter if following is None else following

    def _load(self, store: Store, now_ms: int) -> None:
        through = min(self._state.counter, self.loaded + PAGE_COUNTERS)
        found = store.sessions.discover(self._state.slot, self.loaded, through, PAGE_ROWS, now_ms)
        began = self.loaded
        if self._discovered(found) and len(found) < PAGE_ROWS:
            self.loaded = through if found else end_of_gap(self._state, through, store)
            self.passed += through - began - len(found)

    def _discovered(self, found: Iterable[tuple[int, str]]) -> bool:
        """Take sessions of messages in order, moving `loaded`; return whether all had room."""
        for counter, session_id in found:
            if session_id not in self._held and session_id not in self._heads:
                if len(self._heads) >= CANDIDATES_MAX:
                    return False
                self._add(counter, session_id)
            self.loaded = counter
        return True

    def _add_at(self, head: Head, session_id: str) -> None:
        """Make a session a candidate at the first message that may be alive.

        Above `loaded` a page will have it.
        """
        at = head.counter if head.alive else head.counter + 1
        if at <= self.loaded:
            self._add(at, session_id)

    def _add(self, head: int, session_id: str) -> None:
        self._heads[session_id] = head
        heapq.heappush(self._heap, (head, session_id))
        if len(self._heap) > 2 * len(self._heads) + HEAP_SPARE:
            # Sessions that were locked by their names left their entries behind.
            self._heap = sorted((at, name) for name, at in self._heads.items())

    def _earlier(self, head: int) -> bool:
        """Whether something free is before `head`, or may be."""
        while self._heap and self._heads.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return head > self.loaded or bool(self._heap and self._heap[0][0] < head)

    def _wake(self, session: SessionLock) -> None:
        if session.asks:
            self.woken[session.session_id] = None


# Notes of ends beyond one a session, before they are made again without those of freed ones.
NOTES_SPARE: Final = 1_000


@dataclass(slots=True)
class SessionQueue(MessageQueue):
    """The volatile side of a slot whose messages are received by session."""

    sessions: SessionReadySet = field(init=False)
    # Offered or locked.
    held: dict[str, SessionLock] = field(default_factory=dict)
    by_number: dict[int, SessionLock] = field(default_factory=dict)
    # Receivers that wait for any session, in the order in which they are served.
    accepts: OrderedDict[tuple[Caller, int], NextSessionAsk] = field(default_factory=OrderedDict)
    # (when a session's lock ends, its number), earliest first; a note outlives its lock.
    ends: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slot = self.state.slot
        self.sessions = SessionReadySet(self.state, self.locks, self.held)
        self.ready = self.sessions

    def open_ask(self, key: tuple[Caller, int], ask: OpenAsk) -> None:
        """Take what a receiver wants."""
        self.asks[key] = ask
        if isinstance(ask, SessionAsk):
            ask.session.asks[key] = ask
            self.sessions.woken[ask.session.session_id] = None
        elif isinstance(ask, NextSessionAsk):
            self.accepts[key] = ask

    def close_ask(self, key: tuple[Caller, int], now: Now) -> None:
        """Forget what a receiver wants; as for all queues, it was a use until now."""
        ask = self.asks.get(key)
        if ask is None:
            return
        self.used(now)
        if isinstance(ask, SessionAsk):
            ask.session.asks.pop(key, None)
        else:
            self.accepts.pop(key, None)
        del self.asks[key]

    def hold(self, session: SessionLock) -> None:
        """Take a session that is offered now."""
        self.held[session.session_id] = session
        self.by_number[session.number] = session
        self.sessions.locked(session.session_id)
        self.watch_session(session)

    def let_go(self, session: SessionLock) -> None:
        """Forget a session whose lock is over; `sessions.freed` lets others have it."""
        self.by_number.pop(session.number, None)
        if self.held.get(session.session_id) is session:
            del self.held[session.session_id]

    def watch_session(self, session: SessionLock) -> None:
        """Look at a session again when its time is over."""
        heapq.heappush(self.ends, (session.until_mono_ms, session.number))
        if len(self.ends) > 2 * len(self.held) + NOTES_SPARE:
            self.watch_all()

    def watch_all(self) -> None:
        """Note the ends of all sessions again, also of those whose notes are lost."""
        self.ends = sorted((each.until_mono_ms, each.number) for each in self.held.values())

    def over(self, now_mono_ms: int) -> SessionLock | None:
        """Return a session whose time is over, the earliest first; its note is taken away."""
        while self.ends and self.ends[0][0] <= now_mono_ms:
            _, number = heapq.heappop(self.ends)
            session = self.by_number.get(number)
            if session is None or session.ended:
                continue
            if session.until_mono_ms <= now_mono_ms:
                return session
            self.watch_session(session)
        return None

    def extend_session(self, session: SessionLock, until_mono_ms: int) -> None:
        """Let a session's lock, and those of its messages, last until then."""
        self.journal.note(self._set_session, session, session.until_mono_ms)
        self._set_session(session, until_mono_ms)

    def _set_session(self, session: SessionLock, until_mono_ms: int) -> None:
        session.until_mono_ms = until_mono_ms
        self.watch_session(session)

    def watch_lock(self, until_mono_ms: int, entries: list[tuple[int, int]]) -> None:
        """Note locks that are there again after a commit failed; they end with their sessions."""
        for counter, _ in entries:
            lock = self.locks.get(counter)
            if isinstance(lock, SessionMessageLock):
                lock.session.back(counter, lock)

    def next_lock_end(self) -> int | None:
        """Return when to look at sessions again."""
        return self.ends[0][0] if self.ends else None

    def extend_locks(self, gap_ms: int) -> None:
        """Extend every lock by the time that the process was suspended."""
        for lock in self.locks.values():
            lock.until_mono_ms += gap_ms
        for session in self.held.values():
            session.until_mono_ms += gap_ms
            if session.kept_until_mono_ms:
                session.kept_until_mono_ms += gap_ms
        self.ends = [(until + gap_ms, number) for until, number in self.ends]
