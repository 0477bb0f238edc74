"""The event loop of a server, and of the client's I/O thread: uvloop's where it is installed.

Only loops of our own: an application's loop, and asyncio's policy, stay as they are. It takes
about a tenth off what a message of the plain loop costs; nothing depends on it. The extra
`speed` installs it, and BENDYBUS_EVENT_LOOP=asyncio does without it where it is installed.
"""

import asyncio
import contextlib
import functools
import gc
import importlib
import logging
import os
import platform
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

logger = logging.getLogger(__name__)
VARIABLE: Final = "BENDYBUS_EVENT_LOOP"
UVLOOP: Final = "uvloop"
ASYNCIO: Final = "asyncio"
_POLLER: Final = "PollerCompletionQueue"
# More than its socket takes.
_WAKES_MAX: Final = 4096

Factory = Callable[[], asyncio.AbstractEventLoop]


class EventLoopError(ValueError):
    """Raised when the loop that BENDYBUS_EVENT_LOOP names is unknown or not installed."""


def factory() -> Factory:
    """Return what makes a loop. Raises EventLoopError."""
    return _choose()[0]


def name() -> str:
    """Return the name and version of what `factory` returns, for logs."""
    return _choose()[1]


def _choose() -> tuple[Factory, str]:
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if wanted not in ("", UVLOOP, ASYNCIO):
        raise EventLoopError(
            f"{VARIABLE}: must be {UVLOOP} or {ASYNCIO} (got {os.environ[VARIABLE]!r})"
        )
    if wanted != ASYNCIO:
        try:
            found: Any = importlib.import_module(UVLOOP)
        except ImportError:
            if wanted:
                raise EventLoopError(
                    f"{VARIABLE}: uvloop is not installed; install the extra 'speed': "
                    "pip install '.[speed]' in Bendybus's folder."
                ) from None
        else:
            return _waking_once(found.new_event_loop), f"{UVLOOP} {found.__version__}"
    asyncios = f"{ASYNCIO} of Python {platform.python_version()}"
    return _waking_once(asyncio.new_event_loop), asyncios


def _waking_once(make: Factory) -> Factory:
    """Return a factory of the same loops, which read all of gRPC's wake-ups at once.

    gRPC's thread writes a byte for each completed operation, and grpc.aio reads one byte in each
    iteration of the loop, though it handles all operations that are completed. Where iterations
    take a millisecond, bytes pile up until the socket is full, at 278 of them. That thread then
    waits until half of them are read: for 0.2 s no call of the process goes on.
    """

    def made() -> asyncio.AbstractEventLoop:
        loop = make()
        add_reader = loop.add_reader

        def add(source: Any, callback: Callable[..., Any], *given: Any) -> None:
            if _POLLER in repr(callback) and (waker := _waker(source, callback)) is not None:
                callback = _Wakes(source, waker, callback)
            add_reader(source, callback, *given)

        loop.add_reader = add  # type: ignore[method-assign,assignment]
        return loop

    return made


def _waker(source: socket.socket, handle: Callable[..., Any]) -> socket.socket | None:
    """Return the socket that gRPC's thread writes its bytes to; None if it is not found."""
    function = handle.func if isinstance(handle, functools.partial) else handle
    sockets = [
        held
        for held in gc.get_referents(getattr(function, "__self__", None))
        if isinstance(held, socket.socket) and held is not source
    ]
    return sockets[0] if len(sockets) == 1 else None


class _Wakes:
    """Reads all bytes but one, which `handle` reads; it handles what they were written for.

    As long as there was only one, it looks at every fourth time: looking costs a few microseconds.
    Where `handle` fails, operations may be left: another loop got the last byte, or one of them
    was of a loop that is closed. The bytes then go back, or those operations would wait for the
    next one of the process.
    """

    __slots__ = ("_handle", "_skip", "_source", "_waker")

    def __init__(
        self, source: socket.socket, waker: socket.socket, handle: Callable[..., Any]
    ) -> None:
        self._source = source
        self._waker = waker
        self._handle = handle
        self._skip = 0

    def __call__(self, *given: Any) -> None:
        if self._skip:
            self._skip -= 1
            self._handle(*given)
            return
        read = b""
        try:
            waiting = len(self._source.recv(_WAKES_MAX, socket.MSG_PEEK))
            if waiting > 1:
                read = self._source.recv(waiting - 1)
            else:
                self._skip = 3
            self._handle(*given)
        except BaseException:
            if read:
                # Where the socket is full again, there are bytes enough.
                with contextlib.suppress(BlockingIOError):
                    self._waker.send(read, socket.MSG_DONTWAIT)
            raise

    def __repr__(self) -> str:
        # `keep_lost_races_out_of_logs` looks for it.
        return f"{type(self).__name__}({self._handle!r})"


def keep_lost_races_out_of_logs() -> None:
    """Let asyncio log nothing of a race that grpc.aio loses where a process has several loops.

    All its loops read one socket that says "something is done". One gets the byte; in the others
    BlockingIOError is raised, harmlessly, for each byte (github.com/grpc/grpc/issues/25364). A
    program that uses grpc.aio itself would find hundreds of tracebacks in its log.
    """
    logging.getLogger("asyncio").addFilter(_is_no_lost_race)


def _is_no_lost_race(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, BlockingIOError) and _POLLER in record.getMessage())


def run(main: Coroutine[Any, Any, None]) -> None:
    """Do what `asyncio.run` does, on such a loop; log which one it is. Raises EventLoopError."""
    try:
        make, chosen = _choose()
    except EventLoopError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=make) as runner:
        logger.info("event loop: %s", chosen, extra={"action": "event-loop"})
        runner.run(main)
