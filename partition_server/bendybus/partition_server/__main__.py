"""`python -m bendybus.partition_server serve|store …`."""

import os
import sys

from bendybus.partition_server import arguments, server
from bendybus.partition_server.store.errors import StoreError
from bendybus.wire import event_loop, readiness, serving
from bendybus.wire.event_loop import EventLoopError
from bendybus.wire.readiness import CannotListen
from bendybus.wire.tls import TlsError


def main() -> int:
    """Run the command; 0 ended well, 1 failed, 2 wrong usage."""
    parser = arguments.parser()
    options = parser.parse_args()
    if options.command == "store":
        # sqlite-utils is needed only here and stays out of the server's image.
        from bendybus.partition_server.offline import store_command

        return store_command.run(options)
    try:
        settings = arguments.settings(options, os.environ)
    except ValueError as error:
        parser.error(str(error))
    serving.configure_logging(settings.log_level)
    # Threads give way to the store's thread quickly: a busy loop must not hold up its commits.
    sys.setswitchinterval(0.0005)
    if settings.exit_with_parent:
        serving.exit_with_parent()
    serving.freeze_imports()
    try:
        event_loop.run(serving.run_until_signal(lambda stop: server.serve(settings, stop)))
    except (StoreError, TlsError, EventLoopError, CannotListen) as error:
        return readiness.print_failure(error)
    return 0


if __name__ == "__main__":
    serving.leave(main())
