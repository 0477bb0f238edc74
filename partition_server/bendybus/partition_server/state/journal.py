"""The journal of a partition: what the stage that is being decided changes, in order.

A rule that changes something appends an entry:

    journal.note(undo, *before)     before it makes a change: `undo(*before)` takes that back
    journal.later(redo, *what)      instead of making it: `redo(*what)` does when it is committed

The state changes at once where later commands of the stage have to see it: figures, locks, due
times, what is remembered of producers. It changes after the COMMIT where others read it: windows,
hot heads, answers, asks. An entry covers a group of messages or an object that is touched, never a
row.

    unwind(length)      a mark is a length: what came after it is undone, the last entry first
    commit()            the stage is committed: every redo, in order

A refused unit, a rule that raises and a commit that fails all unwind; nothing else undoes. So
`note` comes right before the change: a rule may raise in between. `NOT_UNDONE` has what stays.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Entry = tuple[
    Callable[..., object] | None,
    tuple[Any, ...],
    Callable[..., object] | None,
    tuple[object, ...],
]

# What has no meaning of its own, or is over whatever is decided: attributes, and why.
NOT_UNDONE: Final = {
    "handles_use": "it is of the command that is being handled",
    "lock_generation": "numbers of locks are only ever different",
    "last_used_mono_ms": "a refused call is a use, too",
    "accessed_at_ms": "the same",
    "serve_budget": "time and work that were spent",
    "_budget": "the same",
    "delivered": "the receiver has the message by then",
    "streams": "streams that ended, and their asks, are over",
    "asks": "the same",
    "watchers": "the same",
    "matchings": "which rules a message met does not depend on what is stored",
    "_known": "the same of the copies that rules make, which are arranged once",
    "_known_size": "the same",
}


class Journal:
    """The entries of one stage, in order."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self) -> None:
        """Begin a stage: what changed before it is committed, or was not decided by one."""
        self._entries.clear()

    def note(self, undo: Callable[..., object], *before: object) -> int:
        """Note a change before it is made: `undo(*before)` takes it back. Return the length."""
        self._entries.append((undo, before, None, ()))
        return len(self._entries)

    def later(self, redo: Callable[..., object], *what: object) -> None:
        """Let `redo(*what)` make a change when the stage is committed."""
        self._entries.append((None, (), redo, what))

    def enter(
        self,
        undo: Callable[..., object],
        before: tuple[object, ...],
        redo: Callable[..., object],
        what: tuple[object, ...],
    ) -> int:
        """Note a change that is made in two parts: at once, and at the commit."""
        self._entries.append((undo, before, redo, what))
        return len(self._entries)

    def before(self, length: int) -> tuple[Any, ...]:
        """Return what was noted first after the journal had this length."""
        return self._entries[length][1]

    def unwind(self, length: int) -> None:
        """Undo what was noted after the first `length` entries."""
        undone = self._entries[length:]
        for undo, before, _, _ in reversed(undone):
            if undo is not None:
                undo(*before)
        # Also what was noted while they were undone.
        del self._entries[length:]

    def commit(self) -> None:
        """Make the changes that wait for the commit."""
        for _, _, redo, what in self._entries:
            if redo is not None:
                redo(*what)
        self._entries.clear()


class JournalDict(dict[Key, Value]):
    """A dictionary whose changes are in a journal; changed by item, and by `pop`, only."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

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
            self._journal.note(super().__setitem__, key, self[key])
        else:
            self._journal.note(super().pop, key, None)
