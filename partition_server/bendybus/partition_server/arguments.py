"""The command line of a partition server: one option per setting."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bendybus.domain.limits import Tier
from bendybus.partition_server.settings import Settings
from bendybus.wire import serving


def parser() -> argparse.ArgumentParser:
    """Return the parser of `serve` and of `store inspect|check|export`."""
    top = argparse.ArgumentParser(prog="python -m bendybus.partition_server")
    commands = top.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve partitions until SIGTERM")
    serve.add_argument("--data", type=Path, required=True, help="folder of the partitions' files")
    serve.add_argument("--namespace-name", default="default")
    serve.add_argument("--namespace-uid", required=True, help="ties files to their namespace")
    serve.add_argument("--tier", type=Tier, choices=list(Tier), default=Tier.STANDARD)
    serve.add_argument("--partition-count", type=int, default=16)
    serve.add_argument("--partitions", type=_indexes, required=True, help="such as 0 or 0,4,8")
    serve.add_argument(
        "--peer",
        type=_peer,
        action="append",
        metavar="INDEX=HOST:PORT",
        help="address of a partition that messages are forwarded to; repeatable",
    )
    serve.add_argument("--listen", default="127.0.0.1:7490", help="HOST:PORT; port 0: any")
    serve.add_argument("--health-listen", default="", help="HOST:PORT for health in plain text")
    serve.add_argument("--metrics-port", type=int, default=0, help="0: no metrics")
    serve.add_argument(
        "--metrics-host", default="", help="default: that of --listen in a pod, else 127.0.0.1"
    )
    serve.add_argument("--free-space-min-bytes", type=int)
    serve.add_argument("--reserve-bytes", type=int)
    serve.add_argument("--clock-hold-ms", type=int)
    serve.add_argument("--forward-refused-ms", type=int)
    serve.add_argument("--tls-directory", type=Path, help="folder with tls.crt, tls.key, ca.crt")
    serve.add_argument("--bus-identity", help="spiffe://bendybus/ns/NS/bus/NAME: who may call")
    serve.add_argument("--drain-s", type=float, help="longest time for calls in flight at shutdown")
    serve.add_argument("--log-level", default="info")
    serve.add_argument("--exit-with-parent", action="store_true", help="exit at end of input")
    store = commands.add_parser("store", help="look into a partition's file")
    actions = store.add_subparsers(dest="action", required=True)
    for name, text in (
        ("inspect", "tables, counts and figures of a file"),
        ("check", "integrity of a file, and of its figures against its messages"),
        ("export", "messages as JSON lines"),
        ("copy", "a backup of a file, also of one in use"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("file", type=Path, help="partition-NN.db")
        if name == "export":
            action.add_argument("--entity", default="", help="only this queue")
        if name == "copy":
            action.add_argument("to", help="a new file, or - for standard output")
        elif name != "export":
            action.add_argument("--json", action="store_true", help="JSON instead of a table")
    return top


def settings(arguments: argparse.Namespace, env: Mapping[str, str]) -> Settings:
    """Return the settings: command line over environment over defaults. Raises ValueError."""
    given: dict[str, Any] = {
        name: value
        for name, value in vars(arguments).items()
        if name in Settings.__dataclass_fields__ and value is not None
    }
    given |= {"peer": dict(arguments.peer)} if arguments.peer else {}
    made, texts = Settings(data=arguments.data), Settings.from_env(env)
    from_env: dict[str, Any] = {
        name: type(getattr(made, name))(text)
        for name, text in texts.items()
        if name in Settings.__dataclass_fields__
        and isinstance(getattr(made, name), int | float | str)
    }
    if texts.get("peer"):
        from_env["peer"] = _peers(texts["peer"])
    made = replace(made, **{**from_env, **given})
    chosen = arguments.metrics_host or texts.get("metrics_host", "")
    host = serving.metrics_host(chosen, made.listen, env)
    made = replace(made, metrics_host=host)
    made.validate()
    return made


def _peer(text: str) -> tuple[int, str]:
    index, separator, address = text.partition("=")
    if not separator or not index.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not INDEX=HOST:PORT")
    return int(index), address


def _peers(text: str) -> dict[int, str]:
    try:
        return dict(map(_peer, text.split(",")))
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"BENDYBUS_PARTITION_PEER: {error}.") from error


def _indexes(text: str) -> Sequence[int]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 0,4,8") from exc
