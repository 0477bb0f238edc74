"""How tests start the command line as a process of its own."""

import sys

from tests.integration.processes import Bus

# A shell's background jobs ignore Ctrl-C, and those of nohup the end of their terminal; so do all
# processes that they start.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    "from bendybus.cli.__main__ import main; sys.exit(main())"
)


def command(bus: Bus, *arguments: str) -> list[str]:
    """Return the command line of a command on a bus, which Ctrl-C and other signals end."""
    return [
        *(sys.executable, "-c", _PROGRAM),
        *("--connection-string", bus.connection_string, *arguments),
    ]
