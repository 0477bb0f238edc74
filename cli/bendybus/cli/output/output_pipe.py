"""Output in a pipe: has its reader taken it, or gone away?

    written ──► in the pipe, up to 64 KB ──► read
                     └── the reader ends: what is in there is lost

A command that completes what it has printed waits for the reader first. Source: pipe(7); FIONREAD
counts at both ends of a pipe on Linux only, elsewhere nothing is waited for.
"""

import array
import os
import select
import stat
import sys
import time
from typing import Final, TextIO

_PAUSE_S: Final = 0.0002
_LINUX: Final = sys.platform == "linux"


def is_pipe(stream: TextIO) -> bool:
    """Whether a stream is a pipe whose reader can be waited for."""
    try:
        return _LINUX and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def is_taken(stream: TextIO, until_s: float) -> bool:
    """Wait until the reader has taken all that was written; False: it has not by `until_s`.

    `until_s` is on the monotonic clock. Raises BrokenPipeError if the reader went away before that.
    """
    descriptor = stream.fileno()
    gone = select.poll()
    gone.register(descriptor, 0)
    while True:
        ended = bool(gone.poll(0))
        if not _left(descriptor):
            return True
        if ended:
            raise BrokenPipeError
        if time.monotonic() >= until_s:
            return False
        time.sleep(_PAUSE_S)


def _left(descriptor: int) -> int:
    """Return how many bytes of a pipe are not read."""
    # Windows has none of them; see `is_pipe`.
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
