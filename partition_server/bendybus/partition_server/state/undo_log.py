"""What was before a change, so that a stage that is taken back leaves no trace in memory.

Everything that is due at some time (ends of locks, keys and leases, schedules, expiry, forwarding,
pauses after faults), what is remembered of producers, and places for delayed messages are changed
through the log of their partition: what makes a change notes the value before it, or that there was
none. So no rule has to say how that is undone, and none can forget it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class UndoLog:
    """The changes since the stage that is being decided began, in order."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._changes)

    def begin(self) -> None:
        """Begin a stage: what changed before it is committed, or was not decided by one."""
        self._changes.clear()

    def note(self, put: Callable[..., object], *before: Any) -> None:
        """Note a change, STRICTLY BEFORE it is made: `put(*before)` undoes it, and notes nothing
        that has to last.
        """
        self._changes.append((put, before))

    def take_back_to(self, length: int) -> None:
        """Undo the changes after the first `length`."""
        changes = self._changes[length:]
        for put, before in reversed(changes):
            put(*before)
        # Also what was noted while they were undone.
        del self._changes[length:]


class UndoDict(dict[Key, Value]):
    """A dictionary whose changes are in a log; changed by item, and by `pop`, only."""

    __slots__ = ("_undo",)

    def __init__(self, undo: UndoLog) -> None:
        super().__init__()
        self._undo = undo

    def __setitem__(self, key: Key, value: Value) -> None:
        self._note(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Key) -> None:
        self._note(key)
        super().__delitem__(key)

    def pop(self, key: Key, default: Any = None) -> Any:
        """Remove a key, if it is there; return its value or `default`."""
        self._note(key)
        return super().pop(key, default)

    def _note(self, key: Key) -> None:
        if key in self:
            self._undo.note(super().__setitem__, key, self[key])
        else:
            self._undo.note(super().pop, key, None)
