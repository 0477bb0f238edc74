"""What a turn of a partition decides, counted instead of timed, so that every machine agrees.

    rows that are read from the store, and their bytes
    rows that are written, and their bytes
    looks at the clock, and steps of rules, which cost about 1 us each

A turn may take 200 ms by this table without its commit, whatever its callers make it do. The
figures are those of the reference machine, rounded up; `make soak` measures the time itself.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from bendybus.partition_server.store.records import Changes
from tests.partition_server.memory_store import MemoryStore

DECIDE_US_MAX: Final = 200_000
ROW_READ_US: Final = 4.0
ROW_WRITTEN_US: Final = 8.0
# Read, copied, and written; without the disk.
BYTE_US: Final = 0.002
LOOK_US: Final = 10.0


class MeteredStore:
    """A memory store that counts what is read from it and written to it.

    `turns`: what each turn took until its commit, in microseconds by the table.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._us = 0.0
        self._since_us = 0.0
        self.turns: list[float] = []

    def clock_ms(self) -> int:
        """Return the time of a clock that goes on with the work; a look is work, too."""
        self._us += LOOK_US
        return int(self._us / 1_000)

    def spend(self, cost_us: float) -> None:
        """Count work that is not of the store."""
        self._us += cost_us

    def begin(self) -> None:
        """Begin a turn: what was read meanwhile is not its own."""
        self._since_us = self._us

    def end(self, changes: Changes) -> float:
        """End a turn with what it writes; return what it took."""
        self._us += sum(
            _cost(getattr(changes, each.name), ROW_WRITTEN_US) for each in fields(changes)
        )
        took_us = self._us - self._since_us
        self.turns.append(took_us)
        self.begin()
        return took_us

    def commit(self, changes: Changes, *, keep: bool = True) -> None:
        """Commit; the turn ends before."""
        if keep:
            self.end(changes)
        self._store.commit(changes, keep=keep)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*values: Any, **named: Any) -> Any:
            result = found(*values, **named)
            if name != "open":
                self._us += _cost(result, ROW_READ_US)
            return result

        return counted


def _cost(found: object, row_us: float) -> float:
    """Return what rows cost: a list or a mapping of them, one, or none."""
    if isinstance(found, Mapping):
        found = list(found.values())
    rows = list(found) if isinstance(found, list | set | frozenset) else [found]
    return len(rows) * row_us + BYTE_US * sum(map(_bytes, rows))


def _bytes(row: object) -> int:
    """Return the bytes of a record: those of its fields."""
    if isinstance(row, bytes):
        return len(row)
    if is_dataclass(row):
        row = [getattr(row, each.name) for each in fields(row)]
    if isinstance(row, tuple | list):
        return sum(len(each) for each in row if isinstance(each, bytes))
    return 0
