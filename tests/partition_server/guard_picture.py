"""What a partition holds, in memory and in its store, as values that can be compared."""

from collections import Counter, deque
from dataclasses import fields, is_dataclass
from typing import Any, Final

from bendybus.domain.errors import BusError
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.ready_set import ReadyWindow
from bendybus.partition_server.state.session_lock import SessionLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.topics import Topic
from bendybus.partition_server.store.records import SLOT_SHIFT, Row, State, body_size
from tests.partition_server.driver import Driver
from tests.partition_server.memory_store import MemoryStore

# What has no meaning of its own, see `NOT_UNDONE`, or is checked by `amiss`.
_IGNORED: Final = {
    "store", "clock", "clock_ms", "new_id", "handles_use", "serve_budget", "_budget", "faults",
    "lock_generation", "generation", "generations", "last_used_mono_ms", "accessed_at_ms", "boot",
    "lock_ends", "noted", "ends", "ready", "sessions", "number", "by_number",
    "_forgotten", "_before", "_reserved", "forward_link", "fail_next", "held_most", "settler_id",
    "session_token", "tokens", "_last", "_heap", "told", "loaded",
    "more", "returned", "_orders", "_known", "_known_size", "measured_mono_ms",
    "journal", "_journal", "windows", "_windows",
}  # fmt: skip


def picture(value: Any, depth: int = 0) -> Any:
    """Return a comparable image of a value."""
    if isinstance(value, Row):
        return tuple(value)
    if isinstance(value, BusError):
        return str(value)
    if isinstance(value, Topic):
        # Its size is measured again within a second.
        return picture(value.index, depth + 1), value.version
    if isinstance(value, MessageQueue) and depth:
        return ("queue", value.slot)
    if isinstance(value, SessionLock) and depth > 1:
        return ("session", value.session_id)
    if isinstance(value, Counter):
        return {key: count for key, count in value.items() if count}
    if isinstance(value, dict):
        return {str(key): picture(each, depth + 1) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple | deque):
        return [picture(each, depth + 1) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value)]
    elif not type(value).__module__.startswith(("bendybus", "tests")):
        return "callable" if callable(value) else value
    elif hasattr(value, "__dict__"):
        names = list(vars(value))
    elif hasattr(type(value), "__slots__"):
        names = list(type(value).__slots__)
    else:
        return "callable" if callable(value) else value
    names = [name for name in names if name not in _IGNORED]
    return {name: picture(getattr(value, name), depth + 1) for name in names}


def of_partition(driver: Driver) -> dict[str, Any]:
    """Return what a partition holds, in memory and in its store."""
    state = driver.partition.state
    shown = {name: value for name, value in vars(state).items() if name not in _IGNORED}
    made = {
        name: picture(value, 1)
        for name, value in shown.items()
        if name not in ("queues", "due", "lanes")
    }
    made["queues"] = {queue.slot: _queue(queue) for queue in state.queues}
    made["slots"] = picture(vars(state.queues)["_transfers"], 1)
    made["lanes"] = {
        slot: {n: picture(lane, 1) for n, lane in known.items()}
        for slot, known in state.lanes._by_slot.items()
        if any(x.parked or x.in_flight or x.sequence for x in known.values())
    }
    made["stored"] = stored(driver)
    return made


def _queue(queue: MessageQueue) -> Any:
    made = picture(queue, 0)
    if isinstance(queue, SessionQueue):
        made["held"] = {
            name: {k: v for k, v in picture(session, 1).items() if k not in ("held", "reserved")}
            for name, session in queue.held.items()
        }
    return made


def stored(driver: Driver) -> Any:
    """Return what a store holds."""
    store = driver.store
    if isinstance(store, MemoryStore):
        names = [name for name in vars(store) if name not in ("fail_next", "_boot")]
        return {name: picture(getattr(store, name), 1) for name in names}
    return None


def differences(found: Any, expected: Any, path: str = "") -> list[str]:
    """Return where two pictures differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        made = []
        for key in [*found, *(key for key in expected if key not in found)]:
            made += differences(found.get(key, "—"), expected.get(key, "—"), f"{path}.{key}")
        return made
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        made = []
        for i, pair in enumerate(zip(found, expected, strict=True)):
            made += differences(*pair, f"{path}[{i}]")
        return made
    return [] if found == expected else [f"{path}: {found!r} instead of {expected!r}"[:300]]


def amiss(driver: Driver) -> list[str]:
    """Return what contradicts itself: counters, locks that are not watched, lost messages."""
    state, found = driver.partition.state, list[str]()
    for queue in state.queues:
        rows = _rows(driver, queue)
        found += [f"slot {queue.slot}: {each}" for each in _figures(driver, queue, rows)]
        found += [f"slot {queue.slot}: {each}" for each in _locks(state, queue, rows)]
        found += [f"slot {queue.slot}: {each}" for each in _ready(driver, queue, rows)]
    held = Counter(
        queue.slot
        for queue in state.queues
        for lock in queue.locks.values()
        if type(lock).__name__ == "HeldLock"
    )
    if held.total() != state.held.total or any(state.held.of(s) != n for s, n in held.items()):
        found.append(f"held: {state.held.total} are counted, {held} are there")
    return found


def _rows(driver: Driver, queue: MessageQueue) -> list[Row]:
    return list(driver.store.browse(queue.slot, 0, 100_000, 1 << 40))


def _figures(driver: Driver, queue: MessageQueue, rows: list[Row]) -> list[str]:
    state = queue.state
    counted = Counter(row.state for row in rows)
    pairs = [
        ("active", state.active, counted[State.ACTIVE]),
        ("deferred", state.deferred, counted[State.DEFERRED]),
        ("scheduled", state.scheduled, counted[State.SCHEDULED]),
    ]
    store = driver.store
    if isinstance(store, MemoryStore):
        raw = [row for row in store._rows.values() if row.slot == queue.slot]
        size = sum(row.size() for row in raw)
        size += sum(e.size() for e in store._history.values() if e.slot == queue.slot)
        size += _extra_bytes(store, queue)
        pairs.append(("size_bytes", state.size_bytes, size))
        written = store._slots.get(queue.slot)
        if written is not None:
            pairs += [
                (f"stored {name}", getattr(written, name), getattr(state, name))
                for name in ("active", "deferred", "scheduled", "size_bytes", "counter")
            ]
        elif raw:
            pairs.append(("stored figures", 0, 1))
    return [f"{name} is {a}, counted {b}" for name, a, b in pairs if a != b]


def _extra_bytes(store: MemoryStore, queue: MessageQueue) -> int:
    states = sum(
        entry.size()
        for key, entry in vars(store.sessions)["_states"].items()
        if key[0] == queue.slot
    )
    bodies = sum(
        body_size(len(payload))
        for id_, payload in vars(store.bodies)["_bodies"].items()
        if id_ >> SLOT_SHIFT == queue.slot
    )
    return states + bodies


def _locks(state: PartitionState, queue: MessageQueue, rows: list[Row]) -> list[str]:
    found, there = list[str](), {row.counter for row in rows}
    first = vars(state.due.lock_ends)["_times"].get(queue.slot)
    for counter, lock in queue.locks.items():
        if counter not in there:
            found.append(f"message {counter} is locked and not there")
        if lock.until_mono_ms > 1 << 60:
            continue
        if isinstance(queue, SessionQueue):
            if lock.session.held.get(counter) is not lock:  # type: ignore[attr-defined]
                found.append(f"message {counter}: not with its session")
            if queue.held.get(lock.session.session_id) is not lock.session:  # type: ignore[attr-defined]
                found.append(f"message {counter}: its session is gone")
            continue
        noted = [
            until
            for until, entries in queue.lock_ends
            for entry in entries
            if entry == (counter, lock.generation)
        ]
        if not noted or min(noted) > lock.until_mono_ms:
            found.append(f"message {counter}: its lock never ends")
        if first is None or first > lock.until_mono_ms:
            found.append(f"message {counter}: no sweep ends its lock")
    if isinstance(queue, SessionQueue):
        for session in queue.held.values():
            noted = [until for until, number in queue.ends if number == session.number]
            if not noted or min(noted) > session.until_mono_ms:
                found.append(f"session {session.session_id}: its lock never ends")
            if first is None or first > session.until_mono_ms:
                found.append(f"session {session.session_id}: no sweep ends its lock")
            if queue.by_number.get(session.number) is not session:
                found.append(f"session {session.session_id}: no token leads to it")
            for key, ask in queue.asks.items():
                own = getattr(ask, "session", None)
                if own is session and key not in session.asks:
                    found.append(f"ask {key} is not with its session")
        for number, session in queue.by_number.items():
            if queue.held.get(session.session_id) is not session:
                found.append(f"session number {number} is not held")
    for stream, ask_id in queue.asks:
        if state.streams.slot_of_ask(stream, ask_id) != queue.slot:
            found.append(f"ask {ask_id} of {stream} is not closed with its stream")
    return found


def _ready(driver: Driver, queue: MessageQueue, rows: list[Row]) -> list[str]:
    state, now = driver.partition.state, driver.now
    free = {
        row.counter: row
        for row in rows
        if row.state == State.ACTIVE
        and row.counter not in queue.locks
        and (row.expires_ms is None or row.expires_ms > now.wall_ms)
    }
    if isinstance(queue, SessionQueue):
        return _ready_sessions(queue, free)
    ready = queue.ready
    assert isinstance(ready, ReadyWindow)
    parked = [c for lane in state.lanes.of(queue.slot).values() for c in lane.parked]
    window = [row.counter for row in ready.window if row.counter not in ready.gone]
    known = Counter(
        [c for c in window + parked if c in free] + list({c for c in ready.returned if c in free})
    )
    known.update(c for c in free if c > ready.loaded)
    made = [f"message {c} is ready {n} times" for c, n in known.items() if n > 1]
    made += [f"message {c} is not ready" for c in free if c not in known]
    made += [
        f"message {c} is in the window and not free"
        for c in window
        if c not in free and c not in {r.counter for r in rows if r.expires_ms}
    ]
    if ready.window_bytes != sum(row.delivered_bytes() for row in ready.window):
        made.append("the bytes of the window are wrong")
    return made


def _ready_sessions(queue: SessionQueue, free: dict[int, Row]) -> list[str]:
    ready, made = queue.sessions, list[str]()
    heads = vars_of(ready)["_heads"]
    for counter, row in free.items():
        name = row.session_id or ""
        session = queue.held.get(name)
        if session is not None:
            if counter in session.returned or (counter > session.loaded and session.more):
                continue
            if session.offered and not session.loaded:
                continue
            made.append(f"message {counter} of session {name} is not given")
        elif counter <= ready.loaded and heads.get(name, 1 << 60) > counter:
            made.append(f"message {counter}: session {name} is not offered")
    return made


def vars_of(value: Any) -> dict[str, Any]:
    """Return the attributes of a value with slots."""
    return {name: getattr(value, name) for name in type(value).__slots__}
