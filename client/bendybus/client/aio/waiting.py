"""How a coroutine waits for the I/O thread."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bendybus.client import exceptions
from bendybus.client.core.connection import TIMEOUT_S_DEFAULT, Connection, Link, Stubs
from bendybus.client.core.io_thread import IoThread, LoopWaiter
from bendybus.client.exceptions import ServiceBusError
from bendybus.domain.errors import BusError


def waiter(io: IoThread, lost: Callable[[Any], None] | None = None) -> LoopWaiter:
    """Return a waiter of the running loop."""
    return LoopWaiter(io.outbox(asyncio.get_running_loop()), lost)


async def call(
    connection: Connection,
    method: Callable[[Stubs], Any],
    request: Any,
    timeout_s: float = TIMEOUT_S_DEFAULT,
    *,
    translate: Callable[[BusError], ServiceBusError] = exceptions.from_bus_error,
) -> Any:
    """Make a unary call and return its answer."""
    return await run(
        connection, lambda: connection.call(method, request, timeout_s), translate=translate
    )


async def run(
    connection: Connection,
    work: Callable[[], Coroutine[Any, Any, Any]],
    *,
    translate: Callable[[BusError], ServiceBusError] = exceptions.from_bus_error,
) -> Any:
    """Run a coroutine on the I/O thread, which keeps the time, and return its result."""
    found = waiter(connection.io)
    connection.io.submit(connection.start, found, work, translate)
    return await found.wait()


async def close_receivers(link: Link) -> None:
    """Close all receivers of a link at the same time."""
    connection = link.made()
    if connection is not None:
        await run(connection, connection.close_receivers)


async def close(link: Link) -> None:
    """Close the connection of a link, if there is one."""
    connection = link.take()
    if connection is not None:
        await run(connection, connection.close)
