"""Ignores what azure-servicebus leaves behind: sockets of lost connections, and their threads.

Found in whichever test runs when the garbage collector does, the sockets would fail that one.
"""

import gc
import threading
import warnings
from typing import Final

_KEEP_ALIVE: Final = "(_keep_alive)"
# They look once a second whether they are to end.
_ENDS_S: Final = 5.0


def end_threads() -> None:
    """End the threads of receivers that could not be opened, each of which holds a connection.

    Call it when all clients are closed: the SDK itself ends those of receivers that were open.
    """
    threads = [each for each in threading.enumerate() if each.name.endswith(_KEEP_ALIVE)]
    for thread in threads:
        client = getattr(getattr(thread, "_target", None), "__self__", None)
        if client is not None:
            client._shutdown = True
    for thread in threads:
        thread.join(_ENDS_S)


def collect() -> None:
    """Collect sockets now, without the warnings that they are worth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        # What one round frees may be all that held others.
        for _ in range(2):
            gc.collect()
