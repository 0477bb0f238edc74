"""Messages that were abandoned with a delay, in the SQLite file."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import apsw

from bendybus.partition_server.store import statements
from bendybus.partition_server.store.records import Changes, Delay

Runs = Callable[[Iterable[int]], Iterator[tuple[int, int]]]
PREFIX: Final = "delay_"


class SqliteDelays:
    """Keeps when each may be received; what is deleted or moved is forgotten with its message."""

    def __init__(self, sql: dict[str, str], read: Callable[[str], list[tuple[Any, ...]]]) -> None:
        """`read` executes a statement of `sql`, by name."""
        sql |= {PREFIX + name: text for name, text in statements.load("delays.sql").items()}
        self._sql = sql
        self._read = read
        # Whether there has been one since the file was opened: if not, a commit looks for none.
        self.waiting = False

    def all(self) -> list[Delay]:
        """Return the messages that wait; read when the file is opened."""
        found = [Delay(*row) for row in self._read("delay_read")]
        self.waiting = bool(found)
        return found

    def commit(self, db: apsw.Connection, changes: Changes, runs: Runs) -> None:
        """Write what a commit holds back and lets go."""
        self.waiting = True
        moved = [move.id for move in changes.moves]
        for span in runs([*changes.deletes, *moved, *changes.delays_ended]):
            db.execute(self._sql["delay_forget"], span)
        for delay in changes.delays:
            db.execute(self._sql["delay_write"], delay)
