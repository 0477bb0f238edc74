"""An AMQP server without a broker: it accepts every message at once and stores nothing.

Usage: -m bench.amqp.memory_server. It shows what Azure's SDK, the engine and the event loop of the
front end cost on their own: the baseline for the SDK's sends to Bendybus. Exits when its standard
input ends.
"""

import asyncio
import sys
import threading
from collections import deque
from typing import Final, cast

from bendybus.amqp import events, sections
from bendybus.amqp.connection import Connection, ConnectionSettings
from bendybus.amqp.links import IncomingLink, OutgoingLink
from bendybus.amqp.performatives import Accepted
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Int
from bendybus.wire import event_loop

CBS: Final = "$cbs"
CREDIT: Final = 1_000
MESSAGE_BYTES_MAX: Final = 1024 * 1024
_SETTINGS: Final = ConnectionSettings(container_id="memory", mechanisms=("ANONYMOUS",))


class MemoryServer(asyncio.Protocol):
    """One connection. Any token is good, and any address is a queue."""

    def __init__(self) -> None:
        self._engine = Connection(_SETTINGS)
        self._transport: asyncio.Transport | None = None
        # To $cbs: where replies go, and those that wait for credit.
        self._replies: OutgoingLink | None = None
        self._waiting: deque[bytes] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # uvloop's are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes; answer all that they hold in one write."""
        assert self._transport is not None
        found = self._engine.receive(data)
        while found:
            for event in found:
                self._take(event)
            # The engine stops at an Authenticating event until that is answered.
            found = self._engine.receive(b"")
        self._transport.write(self._engine.output())
        if self._engine.is_closed:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the engine go."""
        self._engine.lost()

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.Delivered):
            self._delivered(event)
        elif isinstance(event, events.Attached):
            self._attached(event)
        elif isinstance(event, events.Authenticating):
            self._engine.authenticate(True)
        elif isinstance(event, events.CreditChanged):
            self._send_replies()

    def _attached(self, event: events.Attached) -> None:
        link = event.link
        if isinstance(link, OutgoingLink):
            self._replies = link
            link.accept()
            return
        assert isinstance(link, IncomingLink)
        link.context = getattr(event.attach.target, "address", None)
        link.accept(max_message_size=MESSAGE_BYTES_MAX)
        link.grant(CREDIT)

    def _delivered(self, event: events.Delivered) -> None:
        link = event.link
        if not event.settled:
            link.session.settle(event.delivery_id, Accepted())
        if link.credit < CREDIT // 2:
            link.grant(CREDIT)
        if link.context == CBS:
            self._waiting.append(accepted_token(event.payload))
            self._send_replies()

    def _send_replies(self) -> None:
        link = self._replies
        while self._waiting and link is not None and link.credit:
            link.send(b"reply", self._waiting.popleft(), settled=True)


def accepted_token(request: bytes) -> bytes:
    """Return the reply to a request that puts a token."""
    asked = sections.decode(request).properties or Properties()
    return sections.encode(
        Message(
            properties=Properties(correlation_id=asked.message_id),
            application_properties={"status-code": Int(202), "status-description": "Accepted"},
            value=None,
            has_value=True,
        )
    )


async def listen() -> tuple[asyncio.Server, int]:
    """Listen on a free loopback port; return it, too."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(MemoryServer, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    return server, port


async def main() -> None:
    """Serve until the parent ends this process."""
    server, port = await listen()
    print(port, flush=True)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def watch() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch, daemon=True).start()
    await ended.wait()
    server.close()


if __name__ == "__main__":
    event_loop.run(main())
