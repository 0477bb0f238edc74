"""`token`: a shared access signature, for programs that speak HTTP without a client library."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from bendybus.cli import endpoint
from bendybus.cli.bus import bus_choice
from bendybus.cli.commands import completion
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.domain import bounds, shared_access
from bendybus.domain.errors import BusError

_YEAR_S = 366 * 86_400


def token(
    context: typer.Context,
    entity: Annotated[
        str,
        typer.Argument(
            help="Queue, topic or subscription that it is for; none: the whole bus.",
            autocompletion=completion.destination_names,
        ),
    ] = "",
    ttl: Annotated[
        str, typer.Option(help="How long it is good: seconds, or ISO-8601 (PT30M).")
    ] = "PT1H",
    output: OutputOption = Output.TABLE,
) -> None:
    """Print a token for the header Authorization, signed with the key of the connection string."""
    # Takes longer to load than most commands.
    from bendybus.cli.output import json_lines

    try:
        bounds.check_path(entity)
        lasts_s = json_lines.duration("--ttl", ttl).total_seconds()
    except (BusError, ValueError) as error:
        raise UsageError(f"{error}".rstrip(".") + ".") from error
    if not 1 <= lasts_s <= _YEAR_S:
        raise UsageError(f"--ttl: must be 1 second to 366 days (got {ttl!r:.100}).")
    with bus_choice.target(context.obj) as bus:
        found = endpoint.parse(bus.connection_string)
    if not found.key:
        raise UsageError(
            "The connection string has no SharedAccessKey to sign with; a signature in it is a "
            "token already."
        )
    if not found.key_name:
        raise UsageError("The connection string has no SharedAccessKeyName, which tokens carry.")
    uri = f"sb://{found.address}/{entity.strip('/')}"
    ends_s = int(time.time() + lasts_s)
    signed = shared_access.sign(uri, found.key_name, found.key, ends_s)
    expires = datetime.fromtimestamp(ends_s, UTC).isoformat()
    printing.result({"token": signed, "expires": expires}, signed, output)
