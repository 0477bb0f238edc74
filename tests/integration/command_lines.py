"""How tests start the command line as a process of its own."""

import sys

from tests.integration.processes import Bus

# A shell's background jobs, and so all that they start, are told to ignore Ctrl-C.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from bendybus.cli.__main__ import main; sys.exit(main())"
)


def command(bus: Bus, *arguments: str) -> list[str]:
    """Return the command line of a command on a bus, which Ctrl-C interrupts."""
    return [
        *(sys.executable, "-c", _PROGRAM),
        *("--connection-string", bus.connection_string, *arguments),
    ]
