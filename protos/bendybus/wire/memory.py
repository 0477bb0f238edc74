"""Memory that a process has freed goes back to the system.

glibc keeps what lies between blocks in use: after a burst of large requests a process stayed at
200 MB more than it held. Does nothing where there is another C library.
"""

import asyncio
import ctypes
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

EVERY_S: Final = 5.0
# Grown by less than this since it was smallest, a process is left as it is.
GROWN_PAGES: Final = 8_192
_STATM: Final = Path("/proc/self/statm")


async def give_back() -> None:
    """Look every few seconds whether there is much to give back, until cancelled."""
    trim, least = _trimmer(), _pages()
    if trim is None or least is None:
        return
    while True:
        await asyncio.sleep(EVERY_S)
        pages = _pages()
        if pages is not None and pages > least + GROWN_PAGES:
            # Not on the loop: it takes some milliseconds for each 100 MB.
            await asyncio.to_thread(trim, 0)
            pages = _pages()
        least = least if pages is None else min(least, pages)


def trim() -> None:
    """Give back now what can be."""
    found = _trimmer()
    if found is not None:
        found(0)


def resident_bytes() -> int | None:
    """Return how much of this process is in memory; None if that cannot be read."""
    pages = _pages()
    return None if pages is None else pages * resource.getpagesize()


def _trimmer() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


def _pages() -> int | None:
    """Return the pages of this process that are in memory.

    None where the system does not tell, and while this process may open no further file.
    """
    try:
        return int(_STATM.read_text("ascii").split()[1])
    except OSError:
        return None
