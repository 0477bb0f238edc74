"""When everything in a partition is due, as a value that can be compared.

Found by walking through its state, so that a due time that is added is compared, too.
"""

from collections import deque
from dataclasses import fields, is_dataclass
from typing import Any, Final

from bendybus.partition_server.state.due_times import SlotTimes
from bendybus.partition_server.state.lanes import Lane
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import SessionLock
from bendybus.partition_server.state.session_queue import SessionQueue

# When something was used, measured or enqueued; what is only read; notes that outlive their locks
# and are checked by `guard_picture.amiss`.
_IGNORED: Final = {
    "last_used_mono_ms", "accessed_at_ms", "measured_mono_ms", "last_enqueued_ms", "store",
    "catalogue", "clock", "topics", "ready", "sessions", "ends", "noted", "entity", "journal",
    "_journal", "_budget", "serve_budget", "clock_ms", "windows", "_windows",
}  # fmt: skip
_NOTES: Final = {
    (MessageQueue, "lock_ends"), (SessionQueue, "lock_ends"),
    (SessionLock, "held"), (SessionLock, "reserved"),
}  # fmt: skip
_CURSORS: Final = ("expired_to", "activated_to", "settled_to", "held", "skipped", "_pauses")


def due_times(state: PartitionState) -> dict[str, Any]:
    """Return all due times of a partition, by where they are kept."""
    found: dict[str, Any] = {}
    _walk(state, "", found, ())
    return found


def _walk(value: Any, path: str, found: dict[str, Any], within: tuple[int, ...]) -> None:
    if id(value) in within or (isinstance(value, Lane) and value == Lane()):
        # A lane that was only looked for is as good as none.
        return
    if isinstance(value, dict):
        for key, each in value.items():
            _walk(each, f"{path}[{key}]", found, within)
    elif isinstance(value, list | tuple | deque):
        for i, each in enumerate(value):
            _walk(each, f"{path}[{i}]", found, within)
    elif isinstance(value, SlotTimes):
        found[path] = dict(vars(value)["_times"])
        found[f"{path}: first"] = value.first()
    elif type(value).__module__.startswith("bendybus.partition_server.state"):
        within += (id(value),)
        for name in _names(value):
            if name in _IGNORED or (type(value), name) in _NOTES:
                continue
            each = getattr(value, name)
            if name.endswith("_ms") or (name in _CURSORS and not _is_deep(each)):
                found[f"{path}.{name}"] = dict(each) if isinstance(each, dict) else each
            else:
                _walk(each, f"{path}.{name}", found, within)


def _is_deep(value: Any) -> bool:
    """Whether there are times within a value."""
    if isinstance(value, dict):
        return any(map(_is_deep, value.values()))
    return type(value).__module__.startswith("bendybus.") and not isinstance(value, tuple)


def _names(value: Any) -> list[str]:
    if is_dataclass(value) and not isinstance(value, type):
        return [each.name for each in fields(value)]
    return list(vars(value)) if hasattr(value, "__dict__") else list(type(value).__slots__)
