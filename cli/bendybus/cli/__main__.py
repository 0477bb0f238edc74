"""`bendybus`: the entry point. Imports only what loads quickly."""

import os
import sys
from collections.abc import Sequence
from typing import Final

# As `errors.INTERRUPTED`, which is not there yet while that is imported.
_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `bendybus` with `arguments` and return its exit code."""
    # gRPC logs each failed handshake; the CLI prints its own error.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        # Late, and here: it takes most of a second, in which Ctrl-C must not print a traceback.
        from bendybus.cli.commands import run_command

        return run_command.run(arguments)
    except KeyboardInterrupt:
        print("bendybus: Interrupted.", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
