"""`get`: queues, topics and subscriptions of a bus with their counts."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus.management import Management
from bendybus.cli.commands import completion, rule_commands
from bendybus.cli.commands.entity_commands import connected
from bendybus.cli.errors import UsageError
from bendybus.cli.output import entity_views, printing, sums
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.domain import subscription_name
from bendybus.domain.entity_kind import EntityKind

_WORDS: Final = {
    EntityKind.QUEUE: ("queue", "queues", "q", "bq"),
    EntityKind.TOPIC: ("topic", "topics"),
    EntityKind.SUBSCRIPTION: ("subscription", "subscriptions", "sub", "subs"),
}


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
    word = what.lower()
    shown: Callable[[Management], Sequence[Any]]
    if word in rule_commands.WORDS:
        shown = partial(_show_rules, topic=name, subscription=within, output=output)
    else:
        kind = next((kind for kind, words in _WORDS.items() if word in words), EntityKind.QUEUE)
        name = _name(kind, what, name, within)
        shown = partial(_show, kind, name, within, output=output, orphaned=everything)
    with connected(context) as bus:
        while True:
            if watch and not output.structured:
                printing.clear()
            found = shown(bus)
            if not watch:
                sums.check_whole(found)
                return
            if sentence := sums.lacking(found):
                printing.note(sentence)
            time.sleep(interval)


def _show_rules(bus: Management, *, topic: str, subscription: str, output: Output) -> list[Any]:
    """Print rules, which every partition has; no figure of them can lack one."""
    rule_commands.show(bus, topic=topic, subscription=subscription, output=output)
    return []


def _name(kind: EntityKind, what: str, name: str, within: str) -> str:
    """Return the name that is asked for. Raises UsageError for more names than a kind has."""
    if within and kind is EntityKind.TOPIC:
        raise UsageError(f"get topic takes one name (got {within!r}, too).")
    if kind is not EntityKind.QUEUE:
        return name
    if within:
        raise UsageError(f"get takes one name of a queue (got {within!r}, too).")
    if what.lower() in _WORDS[kind]:
        return name
    if name:
        raise UsageError(f"Give one name: get {what}, or get queue {what} (got {name!r}, too).")
    return what


def _show(
    kind: EntityKind, name: str, within: str, bus: Management, *, output: Output, orphaned: bool
) -> Sequence[Any]:
    """Print entities, and return them."""
    if kind is EntityKind.SUBSCRIPTION and within:
        found = [bus.entity(kind, subscription_name.compose(name, within))]
    elif kind is EntityKind.SUBSCRIPTION and not name:
        topics = bus.listed(EntityKind.TOPIC, runtime=False, orphaned=True)
        of_each = (bus.subscriptions_of_listed(each.name, orphaned=orphaned) for each in topics)
        found = [each for of_topic in of_each for each in of_topic]
    elif kind is EntityKind.SUBSCRIPTION or not name:
        found = bus.listed(kind, name, orphaned=orphaned)
    else:
        found = [bus.entity(kind, name)]
    entity_views.show(kind, found, output)
    return found
