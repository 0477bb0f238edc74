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
    trim = _trimmer()
    if trim is None or not _STATM.exists():
        return
    least = _pages()
    while True:
        await asyncio.sleep(EVERY_S)
        if _pages() > least + GROWN_PAGES:
            # Not on the loop: it takes some milliseconds for each 100 MB.
            await asyncio.to_thread(trim, 0)
        least = min(least, _pages())


def trim() -> None:
    """Give back now what can be."""
    found = _trimmer()
    if found is not None:
        found(0)


def resident_bytes() -> int | None:
    """Return how much of this process is in memory; None where the system does not tell."""
    return _pages() * resource.getpagesize() if _STATM.exists() else None


def _trimmer() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


def _pages() -> int:
    """Return the pages of this process that are in memory."""
    return int(_STATM.read_text("ascii").split()[1])
