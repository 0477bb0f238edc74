"""`context …`: named buses, so that no command needs to be told which one."""

import os
from typing import Annotated, Any

import typer

from bendybus.cli import endpoint
from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice, Context, Contexts
from bendybus.cli.commands import completion
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.tables import Column

context_app = typer.Typer(help="Named buses, and the one that commands use.")
ContextName = Annotated[
    str, typer.Argument(help="Name of the context.", autocompletion=completion.context_names)
]
NewContext = Annotated[str, typer.Argument(help="Name of the context.")]


@context_app.command("list")
def context_list(output: OutputOption = Output.TABLE) -> None:
    """List the contexts; keys are not shown."""
    found = bus_choice.read_contexts(os.environ)
    rows = [(name, name == found.current, _where(each)) for name, each in found.named.items()]
    if output.structured:
        for name, in_use, where in rows:
            printing.structured({"name": name, "in_use": in_use, "bus": where}, output)
        return
    printing.table((Column("NAME", text=True), "IN-USE", Column("BUS", cut=24, text=True)), rows)


@context_app.command("use")
def context_use(
    name: Annotated[
        str,
        typer.Argument(help="Name of the context.", autocompletion=completion.context_names),
    ] = "",
    none: Annotated[bool, typer.Option("--none", help="Use no context.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Use a context for all commands that name no bus themselves."""
    if bool(name) == none:
        raise UsageError("context use: must have a NAME or --none.")
    bus_choice.change_contexts(os.environ, lambda found: found.use(name))
    facts = {"name": name or None, "in_use": bool(name)}
    printing.result(facts, f"context {name!r}: in use" if name else "no context is in use", output)
    if os.environ.get(bus_choice.VARIABLE):
        printing.note(f"{bus_choice.VARIABLE} is set, and comes before the context.")


@context_app.command("add")
def context_add(
    context: typer.Context,
    name: NewContext,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add the bus of --connection-string (or its variable), or of --kube, as a context."""
    made = _context_of(context.obj)

    def added(found: Contexts) -> Contexts:
        return found.add(name, made).use(name if use else found.current)

    bus_choice.change_contexts(os.environ, added)
    facts = {"name": name, "in_use": use, "bus": _where(made)}
    in_use = ", and is in use" if use else f"; bendybus context use {name} uses it"
    printing.result(facts, f"context {name!r}: added{in_use}", output)


@context_app.command("remove")
def context_remove(name: ContextName, output: OutputOption = Output.TABLE) -> None:
    """Remove a context; the bus itself stays as it is."""
    bus_choice.change_contexts(os.environ, lambda found: found.remove(name))
    facts: dict[str, Any] = {"name": name, "removed": True}
    printing.result(facts, f"context {name!r}: removed", output)


def _context_of(choice: Choice) -> Context:
    """Return the bus that the command line or the environment names. Raises UsageError."""
    file = bus_choice.ca_file(choice)
    trusted = str(file.absolute()) if file else ""
    if choice.cluster is not None:
        cluster = choice.cluster
        return Context("", trusted, True, cluster.context, cluster.namespace, cluster.bus)
    if choice.data is not None:
        raise UsageError("context add: --data is not supported; --connection-string is.")
    if not choice.names_a_bus:
        raise UsageError(
            "context add: which bus? Set --connection-string or "
            f"{bus_choice.VARIABLE}, or --kube with --context, --namespace, --bus."
        )
    where = bus_choice.connection_string(choice)
    endpoint.parse(where)
    return Context(where, trusted)


def _where(context: Context) -> str:
    """Return what a context is about, without its key."""
    if context.connection_string:
        return endpoint.parse(context.connection_string).address
    parts = {
        "context": context.kube_context or "kubectl's current one",
        "namespace": context.namespace,
        "bus": context.bus,
    }
    return "cluster: " + ", ".join(f"{name} {value}" for name, value in parts.items() if value)
