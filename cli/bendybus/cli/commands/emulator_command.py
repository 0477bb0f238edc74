"""`emulator`: a bus in the place of the official emulator's container.

It has the ports, the path of Config.json, the environment variables and the ready line of that
container, so that compose files and Testcontainers work with another image name. The bus is the
one of `up`.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from bendybus.cli import endpoint
from bendybus.cli.bus import bus_choice, emulator_configs
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.manifests import Outcome
from bendybus.cli.commands import process_commands
from bendybus.cli.commands.process_commands import Listening, Sizes
from bendybus.cli.errors import UsageError
from bendybus.cli.local import data_directory
from bendybus.cli.local.programs import PORT_MAX
from bendybus.cli.output import printing
from bendybus.crds.bundle import Bundle

HTTP_PORT: Final = 5300
# What the modules of Testcontainers wait for in the log, where they do not ask for /health.
READY_LINE: Final = "Emulator Service is Successfully Up!"
# The key that the emulator's documentation has; here any key is accepted.
KEY: Final = "SAS_KEY_VALUE"
_HTTP_PORT_VARIABLE: Final = "EMULATOR_HTTP_PORT"
_NO_DATABASE: Final = "messages are stored in the data folder, without a database server."
_IGNORED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ACCEPT_EULA": "there is no agreement to accept; the licence is Apache-2.0.",
        "SQL_SERVER": _NO_DATABASE,
        "MSSQL_SA_PASSWORD": _NO_DATABASE,
        "SQL_WAIT_INTERVAL": _NO_DATABASE,
    }
)


def emulator(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Config.json; default: that of the container, "
            f"{emulator_configs.CONTAINER_PATH}, if there is one.",
        ),
    ] = None,
    premium: Annotated[
        int, typer.Option(metavar="N", help="Number of partitions: 1, 2, 4, 8 or 16.")
    ] = emulator_configs.PARTITIONS_DEFAULT,
    data: process_commands.DataFolder = None,
    host: process_commands.Host = "0.0.0.0",
    port: Annotated[int, typer.Option(help="gRPC port (0: any free port).")] = 7480,
    amqp_port: Annotated[int, typer.Option(metavar="PORT", help="AMQP port.")] = endpoint.AMQP_PORT,
    http_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help=f"HTTP port; default: ${_HTTP_PORT_VARIABLE}, or {HTTP_PORT}."
        ),
    ] = None,
) -> None:
    """Run a bus as the official emulator's container does: its ports, file and variables."""
    # The first process of a container ignores SIGTERM until it has a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    choice: Choice = context.obj
    bus_choice.refuse_cluster(choice, "emulator", "helm install, then kubectl apply -f FILE.")
    emulator_configs.check_premium(premium)
    if http_port is None:
        http_port = http_port_of(choice.environment)
    for sentence in ignored(choice.environment):
        printing.note(sentence)

    def say_ready(facts: dict[str, Any], bundle: Bundle, outcomes: Sequence[Outcome]) -> None:
        process_commands.say_kept(outcomes)
        printing.note(f"Connection string: {connection_string(facts['amqp_endpoints'][0])}")
        for address in facts["http_endpoints"]:
            printing.note(f"For administration clients: {connection_string(address)}")
            printing.note(f"Health: http://{address}/health")
        printing.note(f"CA certificate for administration clients: {facts['ca_file']}")
        printing.note(process_commands.ready_sentence(facts, bundle, host))
        printing.line(READY_LINE)

    bundle = _bundle(config, premium)
    process_commands.serve(
        bundle,
        choice,
        data=data or choice.data or _data(choice.environment, bundle.namespace.name),
        listening=Listening(port, amqp_port, http_port, host, late=True),
        sizes=Sizes(),
        say_ready=say_ready,
    )


def http_port_of(environment: Mapping[str, str]) -> int:
    """Return the HTTP port that the environment asks for. Raises UsageError."""
    text = environment.get(_HTTP_PORT_VARIABLE, "").strip()
    number = text.isascii() and text.isdigit() and len(text) <= len(str(PORT_MAX))
    if text and not (number and int(text) <= PORT_MAX):
        raise UsageError(f"{_HTTP_PORT_VARIABLE}: must be a port (got {text!r}).")
    return int(text) if text else HTTP_PORT


def ignored(environment: Mapping[str, str]) -> Iterator[str]:
    """Give a sentence for each variable of the emulator that has no effect; never its value."""
    for name, reason in _IGNORED.items():
        if name in environment:
            yield f"{name} has no effect: {reason}"


def connection_string(address: str) -> str:
    """Return the connection string as the emulator's documentation writes it."""
    host, _, port = address.rpartition(":")
    place = "localhost" if host == "127.0.0.1" else host
    at = place if int(port) == endpoint.AMQP_PORT else f"{place}:{port}"
    return (
        f"Endpoint=sb://{at};SharedAccessKeyName=RootManageSharedAccessKey;"
        f"SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
    )


def _data(environment: Mapping[str, str], name: str) -> Path:
    """Return the folder of the data: that of `up`, or one that ends with the container."""
    root = data_directory.root(environment)
    try:
        (root / name).mkdir(parents=True, exist_ok=True)
        writable = os.access(root / name, os.W_OK)
    except OSError:
        writable = False
    if writable:
        return root / name
    instead = Path(tempfile.gettempdir()) / "bendybus" / name
    printing.note(
        f"{root} is not writable: data is in {instead}, which ends with the container. To keep "
        f"messages, mount a volume at {root} that user {os.getuid()} can write."
    )
    return instead


def _bundle(config: Path | None, premium: int) -> Bundle:
    """Return the bus of the file; without one, an empty bus."""
    path = config or emulator_configs.CONTAINER_PATH
    if config is None and not path.exists():
        printing.note(f"There is no {path}: the bus begins without queues and topics.")
        return emulator_configs.empty(premium)
    conversion = emulator_configs.read(path, partition_count=premium)
    emulator_configs.say_report(conversion)
    return conversion.bundle
