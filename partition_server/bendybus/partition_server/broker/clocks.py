"""The clocks of this process and machine; the rules get what they show as an argument."""

import contextlib
import time
from pathlib import Path

from bendybus.partition_server.state.commands import Now


def read_clocks() -> Now:
    """Return both clocks."""
    return Now(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)


def read_machine() -> str:
    """Return what names this boot of the machine, as its monotonic clock is; "" if unknown."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return ""
