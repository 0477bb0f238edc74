"""`update`: settings of entities that no manifest owns."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bendybus.cli.bus import setting_texts
from bendybus.cli.commands import entity_commands
from bendybus.cli.commands.entity_commands import DryRun, Name, QueueName, TopicName, connected
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import entity_views, printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.crds.bundle import KINDS
from bendybus.domain import descriptions, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

update_app = typer.Typer(help="Change settings of what a bus holds.")
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="FIELD=VALUE, as in a manifest: lockDuration=PT30S; repeat it."),
]


@update_app.command("queue")
def update_queue(
    context: typer.Context,
    name: QueueName,
    fields: Changes = None,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings of a queue that has no manifest."""
    _update(context, EntityKind.QUEUE, name, fields or (), dry_run, output)


@update_app.command("topic")
def update_topic(
    context: typer.Context,
    name: TopicName,
    fields: Changes = None,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings of a topic that has no manifest."""
    _update(context, EntityKind.TOPIC, name, fields or (), dry_run, output)


@update_app.command("subscription")
def update_subscription(
    context: typer.Context,
    topic: TopicName,
    name: Name,
    fields: Changes = None,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings of a subscription that has no manifest."""
    path = subscription_name.compose(topic, name)
    _update(context, EntityKind.SUBSCRIPTION, path, fields or (), dry_run, output)


def _update(
    context: typer.Context,
    kind: EntityKind,
    name: str,
    fields: Sequence[str],
    dry_run: bool,
    output: Output,
) -> None:
    """Change settings, and print each with its value before. Raises CliError, BusError."""
    if not fields:
        raise UsageError("--set FIELD=VALUE: name at least one setting to change.")
    with connected(context) as bus:
        found = bus.entity(kind, name, runtime=False)
        if found.origin == pb.ENTITY_ORIGIN_MANIFEST:
            raise CliError(
                f"{kind} {name!r} has a manifest: change that, and run bendybus apply -f FILE."
            )
        current = entities.description_from_proto(found.description)
        changes = setting_texts.changes(kind, fields)
        wanted = setting_texts.description(current, fields, bus.namespace_settings())
        descriptions.check_unchanged(name, current, wanted)
        before, after = (entity_views.settings(each) for each in (current, wanted))
        changed = [each for each in after if after[each] != before.get(each)]
        answer = None if dry_run or not changed else bus.update(found, changes)
    away = entity_commands.missing(answer) if answer is not None else []
    facts: dict[str, Any] = {
        "kind": KINDS[kind],
        "name": name,
        "change": "updated" if changed else "unchanged",
        "dry_run": dry_run,
        "settings": {each: {"from": before.get(each), "to": after[each]} for each in changed},
        "unreached_partitions": away,
    }
    printing.result(facts, _sentence(kind, name, facts, away), output)


def _sentence(kind: EntityKind, name: str, facts: dict[str, Any], away: Sequence[int]) -> str:
    moves = [
        f"{setting} is {_shown(each['to'])}, was {_shown(each['from'])}"
        for setting, each in facts["settings"].items()
    ]
    did = "; ".join([facts["change"], *moves])
    tail = " (dry run)" if facts["dry_run"] else entity_commands.lagging(away)
    return f"{kind} {name!r}: {did}{tail}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value not in (None, "") else "none"
