"""Memory and processor time of a process, from /proc. Zeros if unknown."""

import os
from dataclasses import dataclass
from pathlib import Path

_UTIME = 11
_STIME = 12


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process uses."""

    rss_bytes: int = 0
    cpu_s: float = 0.0


def read(pid: int) -> Usage:
    """Return the usage of a process; nothing when it is gone."""
    if not pid:
        return Usage()
    try:
        folder = Path("/proc") / str(pid)
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        # The name in parentheses may hold spaces; the fields after it do not.
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return Usage()
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    return Usage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))
