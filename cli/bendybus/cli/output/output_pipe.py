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

# Between two looks at the pipe; doubled while its reader takes its time.
_PAUSE_S: Final = 0.0002
_PAUSE_S_MAX: Final = 0.05
_LINUX: Final = sys.platform == "linux"


def is_pipe(stream: TextIO) -> bool:
    """Whether a stream is a pipe whose reader can be waited for."""
    try:
        return _LINUX and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def wait_until_taken(stream: TextIO) -> None:
    """Wait until the reader has taken all that was written, however long that is.

    Raises BrokenPipeError if the reader went away before that.
    """
    descriptor = stream.fileno()
    gone = select.poll()
    gone.register(descriptor, 0)
    pause_s = _PAUSE_S
    while True:
        ended = bool(gone.poll(0))
        if not _left(descriptor):
            return
        if ended:
            raise BrokenPipeError
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)


def _left(descriptor: int) -> int:
    """Return how many bytes of a pipe are not read."""
    # Windows has none of them; see `is_pipe`.
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
