"""`python -m bendybus.frontend serve --partition 0=HOST:PORT …`."""

import argparse
import os
from datetime import datetime
from pathlib import Path

from bendybus.frontend import server
from bendybus.frontend.security.policy_file import PolicyFileError
from bendybus.frontend.settings import Settings
from bendybus.wire import event_loop, readiness, serving
from bendybus.wire.event_loop import EventLoopError
from bendybus.wire.readiness import CannotListen
from bendybus.wire.tls import TlsError


def _partition(text: str) -> tuple[int, str]:
    index, separator, address = text.partition("=")
    if not separator or not index.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not INDEX=HOST:PORT")
    return int(index), address


def _true_or_false(text: str) -> bool:
    found = text.strip().lower()
    if found not in ("", "true", "false"):
        raise argparse.ArgumentTypeError(
            f"it, or BENDYBUS_AMQP_IDLE_LIMITS, must be true or false (got {text!r})"
        )
    return found == "true"


def _moment_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        moment = None
    if text and (moment is None or moment.tzinfo is None):
        raise argparse.ArgumentTypeError(
            "it, or BENDYBUS_NAMESPACE_CREATED_AT, must be a time with its zone, such as "
            f"2026-01-31T12:00:00Z (got {text!r})"
        )
    return 0 if moment is None else round(moment.timestamp() * 1_000)


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m bendybus.frontend")
    serve = top.add_subparsers(dest="command", required=True).add_parser(
        "serve", help="serve clients until SIGTERM"
    )
    serve.add_argument("--listen", default="127.0.0.1:7480", help="HOST:PORT; port 0: any")
    _add_beside_grpc(serve)
    serve.add_argument("--health-listen", default="", help="HOST:PORT for health in plain text")
    serve.add_argument("--metrics-port", type=int, default=0, help="0: no metrics")
    serve.add_argument(
        "--metrics-host", default="", help="default: that of --listen in a pod, else 127.0.0.1"
    )
    serve.add_argument(
        "--partition", type=_partition, action="append", default=[], metavar="INDEX=HOST:PORT"
    )
    serve.add_argument("--tls-directory", type=Path, help="folder with tls.crt, tls.key, ca.crt")
    serve.add_argument("--bus-identity", default="", help="spiffe://bendybus/ns/NS/bus/NAME")
    serve.add_argument(
        "--access-policies", type=Path, help="JSON file; without it, any key is accepted"
    )
    # The operator sets a variable, as for listeners.
    serve.add_argument(
        "--host-name",
        dest="host_names",
        action="append",
        metavar="NAME",
        help="a name of this bus, which tokens must be for; repeatable; default: "
        "$BENDYBUS_HOST_NAMES, separated by commas, or any name",
    )
    serve.add_argument(
        "--namespace-created-at",
        dest="namespace_created_ms",
        type=_moment_ms,
        default=os.environ.get("BENDYBUS_NAMESPACE_CREATED_AT", ""),
        metavar="TIME",
        help="shown over HTTP; default: $BENDYBUS_NAMESPACE_CREATED_AT",
    )
    serve.add_argument(
        "--max-connection-age-s",
        type=float,
        default=0.0,
        help="after which clients reconnect; 0: never",
    )
    serve.add_argument("--max-connections", type=int, default=5_000, help="further ones are closed")
    serve.add_argument(
        "--drain-s", type=float, default=5.0, help="longest time for calls in flight at shutdown"
    )
    serve.add_argument("--log-level", default="info")
    serve.add_argument("--exit-with-parent", action="store_true", help="exit at end of input")
    return top


def _add_beside_grpc(serve: argparse.ArgumentParser) -> None:
    """Add the options of the listeners beside gRPC."""
    serve.add_argument("--amqp-listen", default="", help="HOST:PORT for AMQP; default: none")
    # The operator sets the variables: a version before 0.9 would refuse the options.
    serve.add_argument(
        "--amqps-listen",
        default=os.environ.get("BENDYBUS_AMQPS_LISTEN", ""),
        help="HOST:PORT for AMQP over TLS; default: $BENDYBUS_AMQPS_LISTEN",
    )
    serve.add_argument(
        "--http-listen",
        default=os.environ.get("BENDYBUS_HTTP_LISTEN", ""),
        help="HOST:PORT for administration over HTTP, and AMQP over WebSockets; default: "
        "$BENDYBUS_HTTP_LISTEN",
    )
    serve.add_argument(
        "--shared-listen",
        action="append",
        default=[],
        help="HOST:PORT that AMQP, HTTP and gRPC share, with TLS and without; repeatable",
    )
    serve.add_argument(
        "--shared-tls-directory",
        type=Path,
        help="folder with tls.crt, tls.key, ca.crt for shared ports; default: --tls-directory",
    )
    serve.add_argument(
        "--amqp-idle-limits",
        type=_true_or_false,
        nargs="?",
        const="true",
        default=os.environ.get("BENDYBUS_AMQP_IDLE_LIMITS", ""),
        metavar="true|false",
        help="detach links after 10 idle minutes, close connections after 5 minutes without a link,"
        " as Azure does; default: $BENDYBUS_AMQP_IDLE_LIMITS",
    )


def main() -> int:
    """Run the command; 0 ended well, 1 failed, 2 wrong usage."""
    parser = _parser()
    options = vars(parser.parse_args())
    del options["command"]
    options["metrics_host"] = serving.metrics_host(
        options["metrics_host"], options["listen"], os.environ
    )
    names = options["host_names"] or os.environ.get("BENDYBUS_HOST_NAMES", "").split(",")
    options["host_names"] = tuple(filter(None, map(str.strip, names)))
    options["shared_listen"] = tuple(options["shared_listen"])
    settings = Settings(partitions=dict(options.pop("partition")), **options)
    try:
        settings.validate()
    except ValueError as error:
        parser.error(str(error))
    serving.configure_logging(settings.log_level)
    if settings.exit_with_parent:
        serving.exit_with_parent()
    serving.freeze_imports()
    try:
        event_loop.run(serving.run_until_signal(lambda stop: server.serve(settings, stop)))
    except (TlsError, PolicyFileError, EventLoopError, CannotListen) as error:
        return readiness.print_failure(error)
    return 0


if __name__ == "__main__":
    serving.leave(main())
