# Generated from aio/calls.py by `make sync`: edit that file.
"""Calls that run on the I/O thread and block the caller's thread."""

from collections.abc import Callable, Coroutine
from typing import Final

from bendybus.client import arguments, exceptions
from bendybus.client.core.channel import AnswerT, Method, RequestT
from bendybus.client.core.connection import Connection, SharedConnection
from bendybus.client.core.io_thread import Result, ThreadWaiter
from bendybus.client.exceptions import AzureError
from bendybus.domain.errors import BusError

CLOSE_S: Final = 5.0


def call(
    connection: Connection,
    method: "Method[RequestT, AnswerT]",
    request: RequestT,
    timeout_s: float = arguments.TIMEOUT_S_DEFAULT,
    *,
    translate: Callable[[BusError], AzureError] = exceptions.from_bus_error,
) -> AnswerT:
    """Make a unary call and return its answer."""
    waiter: ThreadWaiter[AnswerT] = connection.io.thread_waiter()
    connection.io.submit(
        connection.start_call,
        waiter,
        lambda: connection.call(method, request, timeout_s),
        translate,
    )
    try:
        return waiter.wait(timeout_s)
    except BaseException:
        # An interrupted caller does not expect the call to be done later.
        connection.io.submit(connection.end_call, waiter)
        raise


def run(
    connection: Connection,
    work: Callable[[], Coroutine[object, object, Result]],
    timeout_s: float,
) -> Result:
    """Run a coroutine on the I/O thread, which ends it in time, and return its result."""
    waiter: ThreadWaiter[Result] = connection.io.thread_waiter()
    connection.io.submit(connection.start, waiter, work)
    return waiter.wait(timeout_s)


def close_receivers(shared: SharedConnection) -> None:
    """Close all receivers of a connection at the same time."""
    connection = shared.made()
    if connection is not None:
        run(connection, connection.close_receivers, CLOSE_S)


def close(shared: SharedConnection) -> None:
    """Close the connection of this process, if there is one."""
    connection = shared.take()
    if connection is not None:
        run(connection, connection.close, CLOSE_S)
