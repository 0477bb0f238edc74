"""A receive of the application that waits for messages. On the I/O thread only."""

import asyncio

from bendybus.client import exceptions
from bendybus.client.core.waiters import Waiter
from bendybus.domain.errors import BusError, ServiceTimeout


class PendingReceive:
    """A receive in progress. Its waiter gets a list of slices, empty if none came in time."""

    __slots__ = (
        "ask_id",
        "checking",
        "deadline_s",
        "empty",
        "error",
        "failures",
        "max_messages",
        "timer",
        "wait_s",
        "waited",
        "waiter",
    )

    def __init__(self, max_messages: int, wait_s: float, waiter: Waiter) -> None:
        self.max_messages = max_messages
        self.wait_s = wait_s
        self.waiter = waiter
        self.deadline_s = 0.0
        self.failures = 0
        # The bus answered last that there is nothing; or why it could not say.
        self.empty = False
        self.error: BusError | None = None
        # Its wait is over, and it waits for the answers of asks that were made ahead.
        self.checking = False
        # Whether its end was put off, for answers to be read.
        self.waited = False
        # 0: not asked for.
        self.ask_id = 0
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: BusError) -> None:
        """Answer with an error of the client."""
        self.waiter.fail(exceptions.from_bus_error(error))

    def end(self) -> None:
        """Answer at the end of the wait: without messages, or with why the bus did not answer."""
        if self.empty:
            self.waiter.resolve([])
        else:
            self.fail(
                self.error
                or ServiceTimeout(
                    "The bus did not answer in time: it is unknown whether there are messages."
                )
            )
