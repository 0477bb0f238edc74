"""Completion of queue names in a shell. Fails silently and quickly."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer

from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.management import Management
from bendybus.cli.cluster.connection import ClusterChoice
from bendybus.cli.errors import CliError
from bendybus.domain.errors import BusError

_DEADLINE_S: Final = 2.0


def queue_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queues of the bus that the command line names, as far as it is typed."""
    parent = ctx.find_root().params
    try:
        with (
            bus_choice.target(_choice(parent)) as target,
            Management(
                target.connection_string, ca_file=target.ca_file, deadline_s=_DEADLINE_S
            ) as bus,
        ):
            names = [queue.name for queue in bus.queues(runtime=False)]
    except (BusError, CliError, OSError):
        return []
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def queues_or_a_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what `get` takes."""
    word = ["queues"] if "queues".startswith(incomplete) else []
    return word + queue_names(ctx, incomplete)


def _choice(options: Mapping[str, Any]) -> Choice:
    data, file = options.get("data"), options.get("ca_file")
    named = [str(options.get(name) or "") for name in ("kube_context", "namespace", "bus")]
    return Choice(
        options.get("connection_string") or "",
        Path(data).absolute() if data else None,
        dict(os.environ),
        Path(file) if file else None,
        ClusterChoice(*named) if options.get("kube") or any(named) else None,
    )
