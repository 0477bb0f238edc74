"""Room on the volume of one partition's file: when to refuse sends, what to give back."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from bendybus.partition_server.broker import inbox
from bendybus.partition_server.store.errors import StoreFull
from bendybus.partition_server.store.file_format import WAL_PAGES_MAX
from bendybus.partition_server.store.sqlite_store import SqliteStore

CHECK_EVERY_S: Final = 1.0
# While messages are stored: after so much time, or so much that was written, whichever is first.
# A look costs a fifth of a turn that stores one message.
STORING_EVERY_S: Final = 0.05
STORING_BYTES: Final = 1024 * 1024
# After a full disk without a reserve, sweeps wait for so long.
FULL_S: Final = 1.0
# The log may still grow by this, and a checkpoint lets the file grow by as much again.
LOG_BYTES_MAX: Final = WAL_PAGES_MAX * 4096 + inbox.TAKE_BYTES
# Unused space goes back to the volume a little at a time: often while nothing is sent, for what is
# sent would use it again, and seldom otherwise.
SHRINK_BYTES_MIN: Final = 16 * 1024 * 1024
SHRINK_PAGES: Final = 500
SHRINK_EVERY_S: Final = 0.05
SHRINK_SENDING_EVERY_S: Final = 1.0


class DiskSpace:
    """Watches the volume, in the partition's thread."""

    def __init__(
        self,
        store: SqliteStore,
        free_min_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._free_min_bytes = free_min_bytes
        self._full_until_s = 0.0
        self._checked_s = 0.0
        # The bytes that the store had written then.
        self._written_bytes = 0
        # When space was last given back; shrinking goes on until little is unused.
        self._shrunk_s = 0.0
        self.shrinking = False

    def full(self) -> bool:
        """Whether a commit found no room a moment ago, and no reserve was left."""
        return self._clock() < self._full_until_s

    def ran_out(self) -> bool:
        """Give up the reserve because a commit found no room; return whether there was one."""
        given = self._store.guard.give_up_reserve()
        self._full_until_s = 0.0 if given else self._clock() + FULL_S
        self.check_soon()
        return given

    def check_soon(self) -> None:
        """Let the next check look at the volume."""
        self._checked_s = 0.0

    def check(self, refused: str, *, sending: bool) -> str:
        """Return why sends are refused, "" if they are not; looks now and then.

        `refused`: what it returned before. `sending`: messages are to be stored.
        """
        now_s = self._clock()
        every_s = STORING_EVERY_S if sending else CHECK_EVERY_S
        if now_s - self._checked_s >= every_s or (sending and self._wrote_much()):
            self._checked_s = now_s
            self._written_bytes = self._store.written_bytes()
            refused = self._look(refused)
        if self.shrinking:
            self._shrink(SHRINK_SENDING_EVERY_S if sending else SHRINK_EVERY_S)
        return refused

    def _wrote_much(self) -> bool:
        # Another file, after an error, begins at 0 again.
        return abs(self._store.written_bytes() - self._written_bytes) >= STORING_BYTES

    def _look(self, refused: str) -> str:
        unused = self._store.unused_bytes()
        # The room that the log and its next checkpoint may still take counts as used, and so do
        # the bytes that may be written until the next look.
        ahead = max(0, 2 * LOG_BYTES_MAX - self._store.wal_bytes()) + STORING_BYTES
        mark = self._free_min_bytes
        free = self._store.guard.free_bytes() + unused - ahead
        if free < mark:
            refused = (
                f"the volume has {max(free, 0) // 1024} KB left of the {mark // 1024} KB that "
                "it keeps free"
            )
        elif free > mark + mark // 4 or not refused:
            refused = ""
            self._store.guard.restore_reserve()
        self.shrinking = self.shrinking or unused > SHRINK_BYTES_MIN
        return refused

    def _shrink(self, every_s: float) -> None:
        """Give a little of the unused space back to the volume."""
        if self._clock() - self._shrunk_s < every_s:
            return
        self._shrunk_s = self._clock()
        with contextlib.suppress(StoreFull):
            if self._store.unused_bytes() > SHRINK_BYTES_MIN:
                self._store.shrink(SHRINK_PAGES)
            else:
                self._store.cut()
                self.shrinking = False
