"""Lines of an input as they come: whole ones, and that there are no more for the moment.

    file, pipe or keyboard ──► lines, each as it stands there ──► batches
                           └── a pause, or a second ──► what waits is sent

A line ends with a line feed, and with the carriage return before it, if there is one; nothing else
is changed. Bytes are read as they come, since a program that writes to a pipe seldom (`tail -f`)
must not wait until a buffer is full.
"""

import os
import select
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

# Without input for so long, what waits is sent.
PAUSE_S: Final = 0.1
# Nor does it wait for longer than this where the input never pauses.
WAITS_S: Final = 1.0
_CHUNK_BYTES: Final = 64 * 1024


class InputLines:
    """The lines of a file; iterated over once."""

    def __init__(
        self,
        file: BinaryIO,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._pause_s = pause_s
        self._clock = clock
        self._rest = bytearray()

    @property
    def unfinished(self) -> int:
        """How many bytes came after the last whole line."""
        return len(self._rest)

    def __iter__(self) -> Iterator[bytes | None]:
        """Yield lines without their ends; None: no more came for a moment, or it is time."""
        paused, since_s = True, self._clock()
        while True:
            if not paused and (self._clock() >= since_s + WAITS_S or not self._has_more()):
                paused = True
                yield None
            chunk = self._chunk()
            if not chunk:
                break
            if paused:
                paused, since_s = False, self._clock()
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0], self._rest = bytes(self._rest) + lines[0], bytearray()
            # Appended to: a long line is not copied for each of its chunks.
            self._rest += rest
            for line in lines:
                yield bytes(line).removesuffix(b"\r")
        if self._rest:
            last, self._rest = bytes(self._rest), bytearray()
            yield last

    def _chunk(self) -> bytes:
        try:
            descriptor = self._file.fileno()
        except OSError:
            return self._file.read(_CHUNK_BYTES)
        while True:
            try:
                return os.read(descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                # Whoever shares the pipe wants not to wait for it; this does.
                select.select([descriptor], [], [])

    def _has_more(self) -> bool:
        try:
            ready, _, _ = select.select([self._file], [], [], self._pause_s)
        except OSError:
            # It is no file of the system.
            return True
        return bool(ready)
