"""What each session holds: messages by state, what is kept for it, its lock; a page at a time.

Messages are counted when they are asked for, a bounded number in one call: a page may end inside a
session, and the next one goes on there with what is counted so far.
"""

import heapq
from collections.abc import Mapping
from typing import Final, NamedTuple

from bendybus.domain import bounds, limits
from bendybus.partition_server.rules import sessions
from bendybus.partition_server.state.answers import SessionCounts, SessionsCounted
from bendybus.partition_server.state.commands import CountSessions
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, State
from bendybus.partition_server.store.store import CountPlace

# Messages that one call counts, and locks of messages, beside those of one session.
ROWS_MAX: Final = 5_000
SESSIONS_MAX: Final = 250
LOCKS_MAX: Final = 5_000
# The state in a place after all messages of a session.
_END: Final = len(State)
_BEGINNING: Final = CountPlace("", -1, 0)


class _Pages(NamedTuple):
    """What each source has after a place, by session."""

    counts: Mapping[str, CountPlace]
    sizes: Mapping[str, int]
    locked: frozenset[str]
    # Up to this name, all of them are known; None: up to the end.
    horizon: str | None
    # The session whose messages may not all be counted.
    unfinished: str | None


def count(turn: Turn, command: CountSessions) -> SessionsCounted:
    """Return sessions that have messages, a state or a receiver, by name; see the contract."""
    queue = sessions.queue_of(turn.partition, command.entity, turn.now)
    bounds.check_number("max_sessions", command.max_sessions, sessions.LISTED_MAX, 1)
    place = _BEGINNING if command.after is None else command.after
    if command.after is not None:
        _check(command.after)
    most = min(command.max_sessions, SESSIONS_MAX)
    pages = _read(turn, queue, place, most)
    found: list[SessionCounts] = []
    locks = 0
    names = sorted({*pages.counts, *pages.sizes, *pages.locked})
    for name in names:
        if pages.horizon is not None and name > pages.horizon:
            break
        if len(found) == most or locks > LOCKS_MAX:
            return SessionsCounted(found, CountPlace(found[-1].session_id, _END, 0))
        if name == pages.unfinished:
            return SessionsCounted(found, pages.counts[name])
        found.append(_counts(turn, queue, name, pages))
        locks += found[-1].locked
    following = None if pages.horizon is None else CountPlace(pages.horizon, _END, 0)
    return SessionsCounted(found, following)


def _check(place: CountPlace) -> None:
    bounds.check_text("after.session_id", place.session_id, limits.KEY_CHARS_MAX)
    bounds.check_number("after.state", place.state, _END)
    bounds.check_number("after.counter", place.counter, COUNTER_MASK)
    for name in ("active", "deferred", "scheduled"):
        bounds.check_number(f"after.{name}", getattr(place, name), COUNTER_MASK)


def _read(turn: Turn, queue: SessionQueue, place: CountPlace, limit: int) -> _Pages:
    reads = turn.partition.store.sessions
    # One run more than a page can have: else the last one is not known to be whole.
    runs_max = limit * _END + 1
    runs = reads.count(queue.slot, place[:3], ROWS_MAX, runs_max)
    counts: dict[str, CountPlace] = {}
    if place.state < _END and any(place[3:]):
        counts[place.session_id] = place
    for run in runs:
        before = counts.get(run.session_id, CountPlace(run.session_id, 0, 0))
        so_far = list(before[3:])
        so_far[run.state] += run.messages
        counts[run.session_id] = CountPlace(run.session_id, run.state, run.last, *so_far)
    ends: list[str] = []
    unfinished = None
    if len(runs) == runs_max or sum(run.messages for run in runs) == ROWS_MAX:
        unfinished = runs[-1].session_id
        ends.append(unfinished)
    # A session that is being counted is not left behind yet.
    start = place.session_id + "\0" if place.state == _END else place.session_id
    sizes = reads.state_sizes(queue.slot, start, limit)
    if len(sizes) == limit:
        ends.append(sizes[-1][0])
    now_ms = turn.now.mono_ms
    locked = heapq.nsmallest(
        limit,
        (
            name
            for name, session in queue.held.items()
            if name >= start and not session.offered and session.until_mono_ms > now_ms
        ),
    )
    if len(locked) == limit:
        ends.append(locked[-1])
    return _Pages(counts, dict(sizes), frozenset(locked), min(ends, default=None), unfinished)


def _counts(turn: Turn, queue: SessionQueue, name: str, pages: _Pages) -> SessionCounts:
    counts = pages.counts.get(name)
    active, deferred, scheduled = counts[3:] if counts else (0, 0, 0)
    size_bytes = pages.sizes.get(name)
    found = SessionCounts(name, active, deferred, scheduled, state_bytes=size_bytes)
    if name in pages.locked:
        session = queue.held[name]
        found.locked = len(session.locks_alive(queue.locks))
        found.locked_until_ms = turn.now.wall_ms + session.until_mono_ms - turn.now.mono_ms
    return found
