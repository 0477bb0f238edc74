"""Inserting messages and bodies into the SQLite file: hundreds in one step."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import apsw

from bendybus.partition_server.store.records import Row

# Rows of one INSERT step; smaller remainders go in powers of two, so few statements are prepared.
_STEP_ROWS: Final = (256, 128, 64, 32, 16, 8, 4, 2, 1)
_PLAIN: Final = Row._fields.index("changed_properties")
_PLAIN_TAIL: Final = (None, None, None, None, 0, 0, 0)
# Of a copy of a published message, only the number is beside what a plain one has.
_NUMBER: Final = Row._fields.index("enqueued_sequence_number")
_COPY_TAIL: Final = (None, None, None, None)


class Appends:
    """The statements that insert messages."""

    def __init__(self, sql: dict[str, str]) -> None:
        self._one = sql["append_message"]
        self._plain = in_steps_of(sql["append_messages"], _PLAIN)
        self._copies = in_steps_of(sql["append_copies"], _PLAIN + 1)

    def write(self, db: apsw.Connection, rows: list[Row]) -> None:
        """Insert rows."""
        # One step for hundreds of rows: a step a row would give up the GIL at each of them.
        plain = [row[:_PLAIN] for row in rows if row[_PLAIN:] == _PLAIN_TAIL]
        if len(plain) < len(rows):
            copies: list[tuple[Any, ...]] = []
            for row in rows:
                if row[_PLAIN:] == _PLAIN_TAIL:
                    continue
                if row[_PLAIN:_NUMBER] == _COPY_TAIL and not (row.extra_bytes or row.hops):
                    copies.append((*row[:_PLAIN], row.enqueued_sequence_number))
                else:
                    db.execute(self._one, row)
            in_steps(db, self._copies, copies)
        in_steps(db, self._plain, plain)


def in_steps_of(sql: str, columns: int) -> dict[int, str]:
    """Return the statements that insert each number of rows; `sql` ends before the values."""
    return {
        rows: sql + ",".join(["(" + ",".join("?" * columns) + ")"] * rows) for rows in _STEP_ROWS
    }


def in_steps(db: apsw.Connection, sql: dict[int, str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows with the statements of `in_steps_of`."""
    at = 0
    for step in _STEP_ROWS:
        while len(rows) - at >= step:
            db.execute(sql[step], tuple(chain.from_iterable(rows[at : at + step])))
            at += step
