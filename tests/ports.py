"""Loopback ports for servers that tests start, stop and start again at the same address.

A port that the kernel chose ("port 0") is one of those it gives to any connection of any process,
so it may be taken while its server is down; with tests in parallel that happens. These lie below
that range, and no two test processes of this machine get the same one.
"""

import itertools
import os
import socket
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_FIRST: Final = 10_240
_RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LAST_DEFAULT: Final = 32_767
# A socket with a name and no file, held until this process ends: the claim on a port.
_claims: list[socket.socket] = []
_offsets = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a port that no server uses, and that is this process's until it ends."""
    last = _last()
    for _ in range(last - _FIRST):
        port = _FIRST + next(_offsets) % (last - _FIRST + 1)
        if _is_free(port) and _claimed(port):
            return port
    raise AssertionError(f"no port between {_FIRST} and {last} is free")


def _last() -> int:
    try:
        begins = int(_RANGE_FILE.read_text(encoding="ascii").split()[0])
    except OSError:
        return _LAST_DEFAULT
    return begins - 1 if begins > _FIRST else _LAST_DEFAULT


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _claimed(port: int) -> bool:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0bendybus-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True
