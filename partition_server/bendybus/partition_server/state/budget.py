"""How much one turn may do: rows, bytes and time.

Work that can be divided asks after each row whether the budget is spent, and goes on in the next
turn. One row is always done, so that everything gets on; its bytes are bounded by the largest
message that an entity allows.
"""

from collections.abc import Callable
from typing import Final

from bendybus.domain import limits

TURN_ROWS: Final = 1_000
TURN_BYTES: Final = 8 * limits.MB
TURN_MS: Final = 50
# What all queues deliver in one turn; the rest follows in the next, with other work between them.
SERVE_ROWS: Final = 20_000
SERVE_BYTES: Final = 16 * limits.MB
# Numbers of messages that were looked at meanwhile and cannot be received: 20 ms at worst.
SERVE_PASSED: Final = 6_000


class Budget:
    """What is left of a turn; `clock_ms` is a monotonic clock that goes on during the turn."""

    __slots__ = ("_clock_ms", "_until_ms", "bytes_left", "rows_left")

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.rows_left = TURN_ROWS
        self.bytes_left = TURN_BYTES
        self._clock_ms = clock_ms
        self._until_ms = clock_ms() + TURN_MS

    def spend(self, size_bytes: int = 0, *, rows: int = 1) -> None:
        """Count rows that were looked at, and the bytes that were read, written or freed."""
        self.rows_left -= rows
        self.bytes_left -= size_bytes

    def spent(self) -> bool:
        """Whether the rest must wait for the next turn."""
        return self.rows_left <= 0 or self.bytes_left <= 0 or self._clock_ms() >= self._until_ms

    def matching_spent(self) -> bool:
        """Whether messages that have not met the rules of their topic go on in the next turn.

        Whatever they were read with: those are read again there.
        """
        return self._clock_ms() >= self._until_ms


class ServeBudget:
    """Counts the messages that all queues deliver in a turn, and those that they pass over."""

    __slots__ = ("passed", "rows", "size_bytes")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a turn."""
        self.rows = self.size_bytes = self.passed = 0

    def spent(self) -> bool:
        """Whether the rest must wait for the next turn."""
        return (
            self.rows >= SERVE_ROWS or self.size_bytes >= SERVE_BYTES or self.passed >= SERVE_PASSED
        )
