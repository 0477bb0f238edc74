"""Which bus a command addresses: the first of these that is set.

    1. the command line: --connection-string, --data, or --kube and its like
    2. the environment: BENDYBUS_CONNECTION_STRING
    3. the context in use (`bendybus context use NAME`)
    4. the bus that runs on this machine (run.json)

And whom it trusts: --ca-file, then BENDYBUS_CA_FILE, then the context's; on a cluster, what the
bus's Secret says. Commands about this machine's own processes know no context.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bendybus.cli import endpoint
from bendybus.cli.bus import contexts
from bendybus.cli.cluster import connection
from bendybus.cli.cluster.connection import ClusterChoice
from bendybus.cli.errors import Unreachable, UsageError
from bendybus.cli.local import data_directory

VARIABLE: Final = "BENDYBUS_CONNECTION_STRING"
CA_FILE_VARIABLE: Final = "BENDYBUS_CA_FILE"
_START: Final = "Start one with bendybus up, or name one with --connection-string."
_ELSEWHERE: Final = "For a bus that was started with --data DIR: bendybus --data DIR …"


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user said, before any command."""

    connection_string: str
    data: Path | None
    environment: Mapping[str, str]
    ca_file: Path | None = None
    cluster: ClusterChoice | None = None
    # Whether it is the context in use that named the bus.
    by_context: bool = False

    @property
    def names_a_bus(self) -> bool:
        """Whether the command line or the environment names one."""
        named = self.connection_string or self.data or self.environment.get(VARIABLE)
        return bool(named) or self.cluster is not None


@dataclass(frozen=True, slots=True)
class Target:
    """A bus that can be connected to."""

    connection_string: str
    ca_file: Path | None

    @property
    def address(self) -> str:
        """Return its endpoint. Raises UsageError for an invalid connection string."""
        return endpoint.parse(self.connection_string).address

    @property
    def use_tls(self) -> bool:
        """Return whether it is talked to over TLS."""
        return not endpoint.parse(self.connection_string).plain

    def __repr__(self) -> str:
        return "Target(…)"


def with_context(choice: Choice) -> Choice:
    """Return the choice with the context in use, where nothing else names a bus."""
    context = None if choice.names_a_bus else contexts.read(choice.environment).in_use()
    if context is None:
        return choice
    on_cluster = context.kube or context.kube_context or context.namespace or context.bus
    file = ca_file(choice) or (Path(context.ca_file) if context.ca_file else None)
    return replace(
        choice,
        connection_string=context.connection_string,
        ca_file=file,
        cluster=ClusterChoice(context.kube_context, context.namespace, context.bus)
        if on_cluster
        else None,
        by_context=True,
    )


@contextmanager
def target(choice: Choice) -> Iterator[Target]:
    """Yield the bus; a port-forward to a cluster stays open for the block. Raises CliError."""
    if choice.cluster is None or choice.connection_string:
        yield Target(connection_string(choice), ca_file(choice))
        return
    with connection.reached(choice.cluster, choice.environment) as (where, trusted):
        yield Target(where, ca_file(choice) if choice.ca_file else trusted)


def refuse_cluster(choice: Choice, what: str, instead: str) -> None:
    """Raise UsageError if a cluster was named for what only a bus on this machine has."""
    if choice.cluster is not None and not choice.by_context:
        raise UsageError(f"{what} is for a bus on this machine. On a cluster: {instead}")


def connection_string(choice: Choice) -> str:
    """Return the connection string of the bus. Raises Unreachable when there is none."""
    named = choice.connection_string or (
        "" if choice.data else choice.environment.get(VARIABLE, "")
    )
    return named or str(local_bus(choice)["connection_string"])


def ca_file(choice: Choice) -> Path | None:
    """Return the file of the authorities to trust; None: those that everybody trusts."""
    named = choice.environment.get(CA_FILE_VARIABLE)
    return choice.ca_file or (Path(named) if named else None)


def local_bus(choice: Choice) -> dict[str, Any]:
    """Return run.json of the local bus. Raises Unreachable unless there is exactly one."""
    if choice.data is not None:
        facts = data_directory.read_run(choice.data)
        if facts is None:
            raise Unreachable(f"No bus runs on {choice.data}. {_START}")
        return facts
    root = data_directory.root(choice.environment)
    found = data_directory.running(root)
    if not found:
        raise Unreachable(f"No bus runs in {root}. {_START} {_ELSEWHERE}")
    if len(found) > 1:
        folders = ", ".join(str(facts["data"]) for facts in found)
        raise Unreachable(
            f"Several buses run on this machine: {folders}. Choose one with --data DIR."
        )
    return found[0]
