"""Where commands wait for the partition's thread: bounded, and filled into commits in turn.

Sends wait per entity and are taken round robin, so that one busy entity does not keep others
waiting; everything else (settling, asks, reads) goes first, because it is small and makes room.
"""

import threading
from collections import deque
from typing import Final

from bendybus.partition_server.state.commands import Append, Command

URGENT_MAX: Final = 100_000
SEND_FRAMES_MAX: Final = 10_000
SEND_BYTES_MAX: Final = 64 * 1024 * 1024
# One commit: bounded in commands, messages and bytes.
TAKE_URGENT: Final = 2_000
TAKE_MESSAGES: Final = 20_000
TAKE_BYTES: Final = 8 * 1024 * 1024


class Inbox:
    """A queue from the event loop to the partition's thread."""

    def __init__(self) -> None:
        self._ready = threading.Condition(threading.Lock())
        self._urgent: deque[Command] = deque()
        self._sends: dict[str, deque[tuple[Append, int]]] = {}
        self._frames = 0
        self._bytes = 0
        self._woken = False

    def put(self, command: Command) -> bool:
        """Add a command; return False, and do nothing, when the inbox is full."""
        with self._ready:
            if isinstance(command, Append):
                size_bytes = sum(map(len, command.batch.payloads))
                full = self._frames >= SEND_FRAMES_MAX or (
                    self._frames and self._bytes + size_bytes > SEND_BYTES_MAX
                )
                if full:
                    return False
                self._frames += 1
                self._bytes += size_bytes
                line = self._sends.setdefault(command.entity.uid, deque())
                line.append((command, size_bytes))
            else:
                if len(self._urgent) >= URGENT_MAX:
                    return False
                self._urgent.append(command)
            self._ready.notify()
        return True

    def wake(self) -> None:
        """Make `take` return even if nothing waits."""
        with self._ready:
            self._woken = True
            self._ready.notify()

    def take(self, timeout_s: float) -> list[Command]:
        """Return what goes into the next commit; empty after `timeout_s` without anything."""
        with self._ready:
            if not (self._urgent or self._sends or self._woken) and timeout_s > 0:
                self._ready.wait(timeout_s)
            self._woken = False
            taken: list[Command] = []
            while self._urgent and len(taken) < TAKE_URGENT:
                taken.append(self._urgent.popleft())
            taken += self._take_sends()
            return taken

    def _take_sends(self) -> list[Command]:
        taken: list[Command] = []
        messages = size_bytes = 0
        while self._sends and messages < TAKE_MESSAGES and size_bytes < TAKE_BYTES:
            for uid in list(self._sends):
                line = self._sends.pop(uid)
                command, command_bytes = line.popleft()
                taken.append(command)
                messages += len(command.batch.payloads)
                size_bytes += command_bytes
                self._frames -= 1
                self._bytes -= command_bytes
                if line:
                    # At the end of the row: the next commit begins with another entity.
                    self._sends[uid] = line
                if messages >= TAKE_MESSAGES or size_bytes >= TAKE_BYTES:
                    break
        return taken
