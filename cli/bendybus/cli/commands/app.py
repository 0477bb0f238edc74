"""The index of all commands: what `bendybus --help` lists, and the options before any command."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.commands import (
    apply_command,
    context_commands,
    convert_command,
    emulator_command,
    entity_commands,
    get_command,
    log_command,
    message_commands,
    process_commands,
    program_commands,
    send_command,
    session_commands,
    token_command,
    top_command,
    update_commands,
)
from bendybus.cli.errors import UsageError

_EPILOG = (
    "These options may also follow the command. Exit codes: 0 done, 1 failed, 2 wrong "
    "usage, 3 not found, 4 no bus answers, 5 shown without a partition that did not "
    "answer. Errors are one sentence on stderr."
)
_LOCAL = "On this machine"
_ENTITIES = "Queues, topics, subscriptions, rules"
_MESSAGES = "Messages"


class CommandGroup(typer.core.TyperGroup):
    """Parses and runs; a value that is refused is said in our sentence, wherever it stands."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options before the command."""
        with _in_our_words():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Parse what follows, and run the command."""
        with _in_our_words():
            return super().invoke(ctx)


app = typer.Typer(
    name="bendybus",
    cls=CommandGroup,
    help="A partitioned service bus: run one on this machine, and work with any.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def say_version(wanted: bool) -> None:
    """Print the version and end, without a command."""
    if wanted:
        typer.echo(f"bendybus {metadata.version('bendybus')}")
        raise typer.Exit


@app.callback()
def choose(
    context: typer.Context,
    connection_string: Annotated[
        str,
        typer.Option(
            help=f"Which bus; default ${bus_choice.VARIABLE}, the context in use, the local one."
        ),
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(
            parser=bus_choice.data_folder,
            metavar="PATH",
            help="Folder of a local bus, where several run.",
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help=f"Authorities to trust (TLS); default ${bus_choice.CA_FILE_VARIABLE}.",
        ),
    ] = None,
    kube: Annotated[
        bool, typer.Option("--kube", help="A bus on a cluster: kubectl's current context.")
    ] = False,
    kube_context: Annotated[
        str, typer.Option("--context", help="A bus on the cluster of this context of kubectl.")
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Kubernetes namespace of the bus.")
    ] = "",
    bus: Annotated[
        str, typer.Option(help="Name of the BusNamespace, where the namespace has several.")
    ] = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=say_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Keep which bus is meant."""
    folder = data.absolute() if data else None
    on_cluster = kube or kube_context or namespace or bus
    if on_cluster and (connection_string or data):
        raise UsageError("Name a bus on a cluster, or --connection-string, or --data; not two.")
    chosen = ClusterChoice(kube_context, namespace, bus) if on_cluster else None
    choice = Choice(connection_string, folder, dict(os.environ), ca_file, chosen)
    # Contexts themselves can be repaired when their file is broken.
    alone = context.invoked_subcommand == "context"
    context.obj = choice if alone else bus_choice.with_context(choice)


app.command("up", rich_help_panel=_LOCAL)(process_commands.up)


app.command("emulator", rich_help_panel=_LOCAL)(emulator_command.emulator)


app.command("convert", rich_help_panel=_LOCAL)(convert_command.convert)


app.command("ps", rich_help_panel=_LOCAL)(process_commands.ps)


app.command("logs", rich_help_panel=_LOCAL)(log_command.logs)


app.add_typer(process_commands.partition_app, name="partition", rich_help_panel=_LOCAL)


app.add_typer(program_commands.store_app, name="store", rich_help_panel=_LOCAL)


app.add_typer(context_commands.context_app, name="context", rich_help_panel=_ENTITIES)


app.command("apply", rich_help_panel=_ENTITIES)(apply_command.apply)


app.command("get", rich_help_panel=_ENTITIES)(get_command.get)


app.command("top", rich_help_panel=_ENTITIES)(top_command.top)


app.add_typer(entity_commands.create_app, name="create", rich_help_panel=_ENTITIES)


app.add_typer(update_commands.update_app, name="update", rich_help_panel=_ENTITIES)


app.add_typer(entity_commands.describe_app, name="describe", rich_help_panel=_ENTITIES)


app.add_typer(entity_commands.delete_app, name="delete", rich_help_panel=_ENTITIES)


app.command("send", rich_help_panel=_MESSAGES)(send_command.send)


app.command("receive", rich_help_panel=_MESSAGES)(message_commands.receive)


app.command("peek", rich_help_panel=_MESSAGES)(message_commands.peek)


app.command("purge", rich_help_panel=_MESSAGES)(message_commands.purge)


app.add_typer(message_commands.deadletter_app, name="deadletter", rich_help_panel=_MESSAGES)


app.add_typer(session_commands.session_app, name="session", rich_help_panel=_MESSAGES)


app.command("token", rich_help_panel=_MESSAGES)(token_command.token)


app.command(
    "pipeline",
    rich_help_panel=_MESSAGES,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)(program_commands.pipeline)


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        found = getattr(error.__cause__, "errors", None)
        if found is not None:
            error.message = _sentence(found()[0])
        raise


def _sentence(detail: Any) -> str:
    # Late: the library that it names takes longer than most commands.
    from bendybus.crds import field_errors

    reason = detail.get("ctx", {}).get("error")
    # What a check of the parser says is a sentence already, such as which values there are.
    return f"{reason}" if reason is not None else field_errors.sentence(detail)
