"""Output in a pipe: has its reader taken it, or gone away?

    written ──► in the pipe, up to 64 KB ──► read
                     └── the reader ends: what is in there is lost

A command that completes what it has printed waits for the reader first. A UNIX socket is a pipe,
too: programs of Node.js are at the other end of one. Source: pipe(7), unix(7); FIONREAD counts at
both ends of a pipe on Linux only, as SIOCOUTQ does for sockets; elsewhere nothing is waited for.
"""

import array
import os
import select
import socket
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
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
        return _LINUX and (stat.S_ISFIFO(mode) or _is_unix_socket(descriptor))
    except (OSError, ValueError):
        return False


def wait_until_taken(stream: TextIO) -> None:
    """Wait until the reader has taken all that was written, however long that is.

    Raises BrokenPipeError if the reader went away before that.
    """
    pause_s = _PAUSE_S
    while not is_taken(stream):
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)


def is_taken(stream: TextIO) -> bool:
    """Whether the reader has taken all that was written.

    Raises BrokenPipeError if the reader went away before that.
    """
    descriptor = stream.fileno()
    gone = select.poll()
    gone.register(descriptor, 0)
    socket_ = _is_unix_socket(descriptor)
    ended = bool(gone.poll(0))
    left = _left(descriptor, termios_name="TIOCOUTQ" if socket_ else "FIONREAD")
    # Unread bytes of a socket vanish with its reader, so its reader must still be there.
    if (left and ended) or (socket_ and gone.poll(0)):
        raise BrokenPipeError
    return not left


def _is_unix_socket(descriptor: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as shared:
        return shared.family == socket.AF_UNIX


def _left(descriptor: int, *, termios_name: str) -> int:
    """Return how many bytes of a pipe are not read; of a socket, with what the kernel adds."""
    # Windows has none of them; see `is_pipe`.
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(descriptor, getattr(termios, termios_name), count)
    return count[0]
