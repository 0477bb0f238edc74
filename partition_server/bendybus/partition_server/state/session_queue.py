"""A session-aware queue of one partition in memory: its sessions that are locked, and who waits.

The locks of messages end with the lock of their session, so this queue watches only those.
"""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.partition_server.state.message_lock import OpenAsk
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.session_lock import (
    NextSessionAsk,
    SessionAsk,
    SessionLock,
    SessionMessageLock,
)
from bendybus.partition_server.state.session_ready_set import SessionReadySet

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
    accepts: OrderedDict[tuple[Any, int], NextSessionAsk] = field(default_factory=OrderedDict)
    # (when a session's lock ends, its number), earliest first; a note outlives its lock.
    ends: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slot = self.state.slot
        self.sessions = SessionReadySet(self.state, self.locks, self.held)
        self.ready = self.sessions

    def open_ask(self, key: tuple[Any, int], ask: OpenAsk) -> None:
        """Take what a receiver wants."""
        self.asks[key] = ask
        if isinstance(ask, SessionAsk):
            ask.session.asks[key] = ask
            self.sessions.woken[ask.session.session_id] = None
        elif isinstance(ask, NextSessionAsk):
            self.accepts[key] = ask

    def close_ask(self, key: tuple[Any, int]) -> None:
        """Forget what a receiver wants."""
        ask = self.asks.get(key)
        if isinstance(ask, SessionAsk):
            ask.session.asks.pop(key, None)
        elif ask is not None:
            self.accepts.pop(key, None)
        self.asks.pop(key, None)

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
        for lock in session.locks_alive(self.locks).values():
            lock.until_mono_ms = until_mono_ms
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
