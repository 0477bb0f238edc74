"""The event loop of a server, and of the client's I/O thread: uvloop's where it is installed.

Only loops of our own: an application's loop, and asyncio's policy, stay as they are. It takes
about a tenth off what a message of the plain loop costs; nothing depends on it. The extra
`speed` installs it, and BENDYBUS_EVENT_LOOP=asyncio does without it where it is installed.
"""

import asyncio
import importlib
import logging
import os
import platform
from collections.abc import Callable, Coroutine
from typing import Any, Final

logger = logging.getLogger(__name__)
VARIABLE: Final = "BENDYBUS_EVENT_LOOP"
UVLOOP: Final = "uvloop"
ASYNCIO: Final = "asyncio"
_POLLER: Final = "PollerCompletionQueue"

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
            return found.new_event_loop, f"{UVLOOP} {found.__version__}"
    return asyncio.new_event_loop, f"{ASYNCIO} of Python {platform.python_version()}"


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
