"""Units that wait to be sent, by what units of a frame have in common; entities take turns."""

from collections import deque
from collections.abc import Callable

from bendybus.client.core.send_frame import Unit

# The entity, the time-out and whether the unit may be split: equal within a frame.
_Key = tuple[str, float, bool]


class SendQueue:
    """A row of waiting units for each key, in the order of the turns. On the I/O thread only."""

    def __init__(self) -> None:
        self._rows: dict[_Key, deque[Unit]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, unit: Unit) -> None:
        """Add a unit at the end of its row."""
        key = (unit.entity_path, unit.timeout_s, unit.split)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = deque()
        row.append(unit)

    def first_row(self) -> deque[Unit]:
        """Return the row whose turn it is."""
        return next(iter(self._rows.values()))

    def take(self, messages_max: int, bytes_max: int) -> tuple[list[Unit], list[Unit]]:
        """Remove units for a frame; return them, and those whose callers were cancelled."""
        key, row = next(iter(self._rows.items()))
        units: list[Unit] = []
        cancelled: list[Unit] = []
        count = size = 0
        while row:
            unit = row[0]
            if unit.waiter.abandoned:
                cancelled.append(row.popleft())
                continue
            columns = unit.columns
            added = len(columns.messages)
            size += columns.size_bytes
            if units and (count + added > messages_max or size > bytes_max):
                break
            unit.position = count
            count += added
            units.append(row.popleft())
        # The turn of this row comes again after all others.
        del self._rows[key]
        if row:
            self._rows[key] = row
        return units, cancelled

    def remove_if(self, condition: Callable[[Unit], bool]) -> list[Unit]:
        """Remove and return the units for which `condition` is true; called once for each."""
        removed: list[Unit] = []
        for key, row in list(self._rows.items()):
            kept: deque[Unit] = deque()
            for unit in row:
                (removed if condition(unit) else kept).append(unit)
            if len(kept) == len(row):
                continue
            if kept:
                self._rows[key] = kept
            else:
                del self._rows[key]
        return removed
