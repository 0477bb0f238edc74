"""`bendybus`: the way in. Nothing is imported here but what is quick."""

import os
import sys
from collections.abc import Sequence
from typing import Final

# As `errors.INTERRUPTED`, which is not there yet while that is imported.
_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `bendybus` with `arguments` and return its exit code."""
    # gRPC writes a line of its own for each handshake that fails; the sentence is ours to say.
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
