"""Loopback ports for the processes of a local bus.

A port of the range from which the kernel takes ports for connections may be taken by any
connection between the moment it is chosen and the moment a server listens, and again while a
server restarts at the same address. Chosen ports lie below that range, and none is chosen twice.
"""

import random
import socket
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
FIRST: Final = 10_240
_RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
# What Linux sets, and below what macOS and Windows set.
_LAST_DEFAULT: Final = 32_767
_TRIES: Final = 200
_chosen: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a server can listen at a port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a connection that is just closing does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free() -> int:
    """Return a port that is free now and was not returned before."""
    highest = last()
    for _ in range(_TRIES):
        port = random.randint(FIRST, highest)
        if port not in _chosen and is_free(port):
            _chosen.add(port)
            return port
    # Nearly all are taken or forbidden: the kernel may still know one.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def near(port: int, offset: int) -> int:
    """Return port + offset if that is free and was not returned before, else any free one."""
    wanted = port + offset
    if port and wanted <= PORT_MAX and wanted not in _chosen and is_free(wanted):
        _chosen.add(wanted)
        return wanted
    return free()


def last() -> int:
    """Return the highest port below those that the kernel gives to connections."""
    try:
        begins = int(_RANGE_FILE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _LAST_DEFAULT
    return begins - 1 if begins > FIRST + 1_000 else _LAST_DEFAULT
