"""Loopback ports for servers that tests start, stop and start again at the same address.

A port that the kernel chose ("port 0") is one of those it gives to any connection of any process,
so it may be taken while its server is down; with tests in parallel that happens. These lie below
that range and below the ports that `bendybus up` chooses by itself, since a bus that starts beside
a test does not see what the test claimed. No two test processes of this machine get the same one.
"""

import itertools
import os
import random
import socket

from bendybus.cli.local import programs
from bendybus.cli.local.programs import HOST as HOST

FIRST, LAST = 4_096, programs.PORT_MIN - 1
_offsets = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a port that no server uses, and that is this process's until it ends."""
    for _ in range(LAST - FIRST):
        port = FIRST + next(_offsets) % (LAST - FIRST + 1)
        if programs.is_free_port(port) and _claimed(port):
            return port
    raise AssertionError(f"no port between {FIRST} and {LAST} is free")


def _claimed(port: int) -> bool:
    # A socket with a name and no file; its descriptor stays open until this process ends.
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0bendybus-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def loopback_address(*ports: int) -> str:
    """Return a loopback address on whose ports no program listens, for servers of known ports.

    Raises OSError if such ports cannot be used here.
    """
    for last in (False,) * 19 + (True,):
        found = ".".join(["127", *(str(random.randrange(1, 255)) for _ in range(3))])
        try:
            for port in ports:
                with socket.create_server((found, port)):
                    pass
        except OSError:
            if last:
                raise
        else:
            return found
    raise AssertionError
