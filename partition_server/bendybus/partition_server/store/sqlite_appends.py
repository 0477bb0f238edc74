"""Inserting messages and bodies into the SQLite file: hundreds in one step."""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import apsw

from bendybus.partition_server.store.records import Copies, Row, Values

# Rows of one INSERT step; smaller remainders go in powers of two, so few statements are prepared.
_STEP_ROWS: Final = (256, 128, 64, 32, 16, 8, 4, 2, 1)
_PLAIN: Final = Row._fields.index("changed_properties")
_PLAIN_TAIL: Final = (None, None, None, None, 0, 0, 0)


class Appends:
    """The statements that insert messages."""

    def __init__(self, sql: dict[str, str]) -> None:
        self._sql = sql
        self._plain = in_steps_of(sql["append_messages"], _PLAIN)
        self._all = in_steps_of(sql["append_rows"], len(Row._fields))
        self._staged = in_steps_of(sql["stage_copies"], len(Row._fields))

    def opened(self, db: apsw.Connection) -> None:
        """Make the table of the connection that copies are made from."""
        db.execute(self._sql["make_staged"])

    def copy(self, db: apsw.Connection, copies: Sequence[Copies]) -> None:
        """Insert copies: each run is handed over once, and SQLite puts it into all its queues."""
        alone: list[Row] = []
        for rows, places in _together(copies):
            if len(places) == 1:
                alone += rows
                continue
            by_time: defaultdict[int, list[int]] = defaultdict(list)
            for id_, enqueued_ms in places:
                by_time[enqueued_ms].append(id_ - rows[0].id)
            in_steps(db, self._staged, rows)
            for enqueued_ms, shifts in by_time.items():
                places_of = apsw.carray(array("q", shifts))
                db.execute(self._sql["append_staged"], (enqueued_ms, places_of))
            db.execute(self._sql["clear_staged"])
        if alone:
            self.write(db, alone)

    def write(self, db: apsw.Connection, rows: list[Row]) -> None:
        """Insert rows."""
        # One step for hundreds of rows: a step a row would give up the GIL at each of them.
        plain = [row[:_PLAIN] for row in rows if row[_PLAIN:] == _PLAIN_TAIL]
        if len(plain) < len(rows):
            in_steps(db, self._all, [row for row in rows if row[_PLAIN:] != _PLAIN_TAIL])
        in_steps(db, self._plain, plain)


def _together(copies: Sequence[Copies]) -> Iterator[tuple[list[Row], list[tuple[int, int]]]]:
    """Yield rows as they are in their first queue, and where the first of them is in each.

    Runs that follow each other in the same queues are one.
    """
    rows: list[Row] = []
    places: list[tuple[int, int]] = []
    expected: list[tuple[int, int]] = []
    for run in copies:
        if run.places != expected:
            if rows:
                yield rows, places
            rows, places = [], run.places
        rows += run.stored(*run.places[0])
        expected = [(id_ + len(run), enqueued_ms) for id_, enqueued_ms in run.places]
    if rows:
        yield rows, places


def in_steps_of(sql: str, columns: int) -> dict[int, str]:
    """Return the statements that insert each number of rows; `sql` ends before the values."""
    return {
        rows: sql + ",".join(["(" + ",".join("?" * columns) + ")"] * rows) for rows in _STEP_ROWS
    }


def in_steps(db: apsw.Connection, sql: dict[int, str], rows: Sequence[Values]) -> None:
    """Insert rows with the statements of `in_steps_of`."""
    count = len(rows)
    while count not in sql:
        if not count:
            return
        step = min(_STEP_ROWS[0], 1 << count.bit_length() - 1)
        db.execute(sql[step], tuple(chain.from_iterable(rows[:step])))
        rows, count = rows[step:], count - step
    db.execute(sql[count], tuple(chain.from_iterable(rows)))
