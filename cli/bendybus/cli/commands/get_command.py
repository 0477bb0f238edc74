"""`get`: queues, topics and subscriptions of a bus with their counts."""

import time
from functools import partial
from typing import Annotated, Final

import typer

from bendybus.cli.bus.management import Management
from bendybus.cli.commands import completion, rule_commands, topic_commands
from bendybus.cli.commands.entity_commands import connected
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing, queue_views
from bendybus.cli.output.printing import Output, OutputOption

_QUEUE_WORDS: Final = ("queue", "queues", "q", "bq")


def get(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            help="queues, topics, subscriptions or rules, or the name of a queue.",
            autocompletion=completion.kinds_or_a_queue,
        ),
    ] = "queues",
    name: Annotated[
        str,
        typer.Argument(
            metavar="[name]",
            help="get queue NAME is get NAME; get topic NAME; get subscriptions [TOPIC].",
            autocompletion=completion.names_of_a_kind,
        ),
    ] = "",
    within: Annotated[
        str,
        typer.Argument(
            metavar="[subscription]",
            help="get subscription TOPIC NAME; get rules TOPIC NAME.",
            autocompletion=completion.subscription_names,
        ),
    ] = "",
    output: OutputOption = Output.TABLE,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Include queues whose manifests were deleted.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between repetitions, with --watch.")
    ] = 2.0,
) -> None:
    """List the queues, topics or subscriptions of a bus with their counts, or rules."""
    if what.lower() in (*topic_commands.TOPIC_WORDS, *topic_commands.SUBSCRIPTION_WORDS):
        shown = partial(
            topic_commands.show,
            what=what.lower(),
            name=name,
            within=within,
            output=output,
            orphaned=everything,
        )
    elif what.lower() in rule_commands.WORDS:
        shown = partial(rule_commands.show, topic=name, subscription=within, output=output)
    else:
        shown = partial(_show_queues, what=what, name=name, output=output, orphaned=everything)
        if within:
            raise UsageError(f"get takes one name of a queue (got {within!r}, too).")
        if name and what.lower() not in _QUEUE_WORDS:
            raise UsageError(f"Give one name: get {what}, or get queue {what} (got {name!r}, too).")
    with connected(context) as bus:
        while True:
            if watch and not output.structured:
                printing.clear()
            shown(bus)
            if not watch:
                return
            time.sleep(interval)


def _show_queues(bus: Management, *, what: str, name: str, output: Output, orphaned: bool) -> None:
    what = name or what
    if name or what.lower() not in _QUEUE_WORDS:
        queues = [bus.queue(what)]
    else:
        queues = bus.queues(runtime=True, orphaned=orphaned)
    queue_views.show(queues, output)
