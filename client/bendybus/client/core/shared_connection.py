"""The connection that a client shares with its senders and receivers: one per process."""

import asyncio

from bendybus.client.core import io_thread
from bendybus.client.core.connection import Connection
from bendybus.client.core.settings import Settings


class SharedConnection:
    """Gives a client, its senders and its receivers the connection of this process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connection: Connection | None = None
        # Set by asynchronous clients: their credentials are awaited on the application's loop.
        self.of_loop = False

    def get(self) -> Connection:
        """Return the connection of this process; a forked child gets a new one."""
        found, io = self._connection, io_thread.current()
        if found is None or found.io is not io:
            with io_thread.making():
                found = self._connection
                if found is None or found.io is not io:
                    loop = asyncio.get_running_loop() if self.of_loop else None
                    found = self._connection = Connection(self.settings, io, loop)
        return found

    def made(self) -> Connection | None:
        """Return the connection if this process has opened one."""
        found = self._connection
        return found if found is not None and found.io is io_thread.current() else None

    def take(self) -> Connection | None:
        """Remove and return the connection, if this process has opened one."""
        found, self._connection = self._connection, None
        return found if found is not None and found.io is io_thread.current() else None
