"""The end of a TCP connection's output, below TLS and WebSockets.

For the client the connection is lost, as where a process is killed: each SDK prepares for that. The
one for Java takes no notice of TLS's close_notify nor of the close of a WebSocket, nor of an end of
TCP that follows one: its programs would stand still until it writes again, for up to a minute.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from typing import Final

# Between two looks at what is not sent yet, and how long that may take.
_LOOK_S: Final = 0.01
_SENT_S: Final = 1.0


def end_output(transport: asyncio.Transport) -> None:
    """End the output of a transport's connection, without a word; its input goes on.

    Call it when all is written. Below TLS there is another transport, which keeps up to 64 KB that
    the system has not taken, and tells nobody: the end waits until everything is sent, for a
    bounded time.
    """
    if transport.can_write_eof():
        transport.write_eof()
        return
    _end_when_sent(transport, asyncio.get_running_loop().time() + _SENT_S, was_sent=False)


def _end_when_sent(transport: asyncio.Transport, until_s: float, *, was_sent: bool) -> None:
    if transport.is_closing():
        return
    loop = asyncio.get_running_loop()
    number = transport.get_extra_info("socket").fileno()
    is_sent = not _unsent_bytes(number)
    # Twice: with nothing left to send, the system takes what waits in the transport.
    if not (is_sent and was_sent) and loop.time() < until_s:
        loop.call_later(_LOOK_S, lambda: _end_when_sent(transport, until_s, was_sent=is_sent))
        return
    # asyncio ends the output of no TLS transport. The end is the connection's, whichever of its
    # descriptors is used.
    with socket.socket(fileno=os.dup(number)) as shared, contextlib.suppress(OSError):
        shared.shutdown(socket.SHUT_WR)


def _unsent_bytes(number: int) -> int:
    """Return how many bytes the system has taken from a socket that are not received yet."""
    try:
        found: int = struct.unpack("i", fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4)))[0]
    except OSError:
        # Some systems do not tell.
        return 0
    return found
