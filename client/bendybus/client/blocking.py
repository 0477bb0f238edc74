"""How a thread waits for the I/O thread."""

from collections.abc import Callable, Coroutine
from typing import Any

from bendybus.client import exceptions
from bendybus.client.core.connection import TIMEOUT_S_DEFAULT, Connection, Link, Stubs
from bendybus.client.core.entity_handle import MARGIN_S
from bendybus.client.core.io_thread import ThreadWaiter
from bendybus.client.exceptions import ServiceBusError
from bendybus.domain.errors import BusError


def call(
    connection: Connection,
    method: Callable[[Stubs], Any],
    request: Any,
    timeout_s: float = TIMEOUT_S_DEFAULT,
    *,
    translate: Callable[[BusError], ServiceBusError] = exceptions.from_bus_error,
) -> Any:
    """Make a unary call and return its answer."""
    return run(
        connection,
        lambda: connection.call(method, request, timeout_s),
        timeout_s,
        translate=translate,
    )


def run(
    connection: Connection,
    work: Callable[[], Coroutine[Any, Any, Any]],
    timeout_s: float,
    *,
    translate: Callable[[BusError], ServiceBusError] = exceptions.from_bus_error,
) -> Any:
    """Run a coroutine on the I/O thread and return its result."""
    waiter = ThreadWaiter()
    connection.io.submit(connection.start, waiter, work, translate)
    return waiter.wait(timeout_s + MARGIN_S)


def close_receivers(link: Link) -> None:
    """Close all receivers of a link at the same time."""
    connection = link.made()
    if connection is not None:
        run(connection, connection.close_receivers, MARGIN_S)


def close(link: Link) -> None:
    """Close the connection of a link, if there is one."""
    connection = link.take()
    if connection is not None:
        run(connection, connection.close, MARGIN_S)
