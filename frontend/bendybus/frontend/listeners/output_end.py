"""The end of a TCP connection's output, below TLS and WebSockets.

For the client the connection is lost, as where a process is killed: each SDK prepares for that. The
one for Java takes no notice of TLS's close_notify nor of the close of a WebSocket, nor of an end of
TCP that follows one: its programs would stand still until it writes again, for up to a minute.
"""

import asyncio
import contextlib
import os
import socket


def end_output(transport: asyncio.Transport) -> None:
    """End the output of a transport's connection, without a word; its input goes on.

    STRICTLY AFTER all is written: what still waits in the transport is lost.
    """
    if transport.can_write_eof():
        transport.write_eof()
        return
    # asyncio ends the output of no TLS transport. The end is the connection's, whichever of its
    # descriptors is used.
    own = os.dup(transport.get_extra_info("socket").fileno())
    with socket.socket(fileno=own) as shared, contextlib.suppress(OSError):
        shared.shutdown(socket.SHUT_WR)
