"""`create`, `describe`, `delete` of topics and subscriptions, and what `get` shows of them."""

from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus import dry_runs, setting_texts, topics
from bendybus.cli.bus.management import Management
from bendybus.cli.commands import completion, entity_commands
from bendybus.cli.commands.entity_commands import DryRun, Yes
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing, queue_views, rule_views, topic_views
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.tables import Column
from bendybus.domain import subscription_name
from bendybus.domain.entity_settings import SubscriptionDescription, TopicDescription
from bendybus.domain.lifecycle import EntityState
from bendybus.wire import entities

TOPIC_WORDS: Final = ("topic", "topics")
SUBSCRIPTION_WORDS: Final = ("subscription", "subscriptions", "sub", "subs")
TopicName = Annotated[
    str, typer.Argument(help="Name of the topic.", autocompletion=completion.topic_names)
]
Name = Annotated[
    str,
    typer.Argument(
        help="Name of the subscription within its topic.",
        autocompletion=completion.subscription_names,
    ),
]
# Of what does not exist yet.
NewName = Annotated[str, typer.Argument(help="Name of the topic.")]
NewSubscription = Annotated[str, typer.Argument(help="Name of the subscription within its topic.")]
Fields = Annotated[
    list[str] | None,
    typer.Option("--set", help="FIELD=VALUE, as in a manifest: autoDeleteOnIdle=P1D."),
]
_SHARES: Final = (
    "PARTITION", "REACHABLE", "ACTIVE", "DEADLETTER", "SCHEDULED", "DEFERRED", "SIZE",
)  # fmt: skip


@entity_commands.create_app.command("topic")
def create_topic(
    context: typer.Context,
    name: NewName,
    partitioned: Annotated[
        bool, typer.Option("--partitioned", help="Spread over all partitions; cannot be changed.")
    ] = False,
    detect_duplicates: Annotated[
        bool, typer.Option("--detect-duplicates", help="Use MessageId; cannot be changed.")
    ] = False,
    fields: Fields = None,
    migrated: entity_commands.Migrated = False,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a topic without a manifest."""
    given = list(fields or ())
    given += ["enablePartitioning=true"] if partitioned else []
    given += ["requiresDuplicateDetection=true"] if detect_duplicates else []
    refuse_on_a_cluster(context, "create topic")
    with entity_commands.connected(context) as bus:
        wanted = setting_texts.description(TopicDescription(), given, bus.namespace_settings())
        answer = None
        if dry_run:
            dry_runs.create_queue_or_topic(bus, name)
        else:
            answer = topics.create_topic(bus, name, wanted, migrated=migrated)
    say_created("Topic", name, answer, output)


@entity_commands.create_app.command("subscription")
def create_subscription(
    context: typer.Context,
    topic: TopicName,
    name: NewSubscription,
    fields: Fields = None,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a subscription of a topic without a manifest."""
    refuse_on_a_cluster(context, "create subscription")
    with entity_commands.connected(context) as bus:
        wanted = setting_texts.description(
            SubscriptionDescription(), list(fields or ()), bus.namespace_settings()
        )
        answer = None
        if dry_run:
            dry_runs.create_subscription(bus, topic, name)
        else:
            answer = topics.create_subscription(bus, topic, name, wanted)
    say_created("Subscription", subscription_name.compose(topic, name), answer, output)


@entity_commands.describe_app.command("topic")
def describe_topic(
    context: typer.Context, name: TopicName, output: OutputOption = Output.TABLE
) -> None:
    """Show a topic: its settings, and its share on each partition."""
    with entity_commands.connected(context) as bus:
        found = topics.topic(bus, name)
    facts = topic_views.topic_as_json(found)
    extra: list[tuple[str, object]] = [
        ("subscriptions", found.subscription_count),
        ("SQL filters", found.sql_filter_count),
        ("other filters", found.correlation_filter_count),
    ]
    _describe(found, facts, extra, output)


@entity_commands.describe_app.command("subscription")
def describe_subscription(
    context: typer.Context, topic: TopicName, name: Name, output: OutputOption = Output.TABLE
) -> None:
    """Show a subscription: its settings, and its share on each partition."""
    with entity_commands.connected(context) as bus:
        found = topics.subscription(bus, topic, name)
    facts = topic_views.subscription_as_json(found)
    rules = entities.description_from_proto(found.description).rules
    extra: list[tuple[str, object]] = [("topic", found.topic_name), ("rules", len(rules))]
    _describe(found, facts, extra, output)
    if not output.structured:
        printing.line("")
        rule_views.table(rules)


@entity_commands.delete_app.command("topic")
def delete_topic(
    context: typer.Context, name: TopicName, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Delete a topic, its subscriptions and every message in them."""
    refuse_on_a_cluster(context, "delete topic")
    with entity_commands.connected(context) as bus:
        found = topics.topic(bus, name)
        within = topics.subscriptions(bus, found.name, orphaned=True)
        held = _held(found) + sum(map(_held, within))
        what = f"topic {found.name!r}"
        with_all = f"its {len(within)} subscriptions and their {held} messages"
        if dry_run:
            printing.line(f"{what}: would be deleted, with {with_all}")
            return
        entity_commands.confirm(f"Delete {what}, {with_all}?", yes)
        answer = topics.delete_topic(bus, found)
    printing.line(f"{what}: deleted{entity_commands.lagging(missing(answer))}")


@entity_commands.delete_app.command("subscription")
def delete_subscription(
    context: typer.Context, topic: TopicName, name: Name, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Delete a subscription and every message in it."""
    refuse_on_a_cluster(context, "delete subscription")
    with entity_commands.connected(context) as bus:
        found = topics.subscription(bus, topic, name)
        own = subscription_name.compose(found.topic_name, found.name)
        what = f"subscription {own!r}"
        if dry_run:
            printing.line(f"{what}: would be deleted, with its {_held(found)} messages")
            return
        entity_commands.confirm(f"Delete {what} and its {_held(found)} messages?", yes)
        answer = topics.delete_subscription(bus, found)
    printing.line(f"{what}: deleted{entity_commands.lagging(missing(answer))}")


def show(
    bus: Management, *, what: str, name: str, within: str, output: Output, orphaned: bool
) -> None:
    """Print what `get` is asked for: `what` is a word for topics or for subscriptions."""
    if what in TOPIC_WORDS:
        if within:
            raise UsageError(f"get topic takes one name (got {within!r}, too).")
        found = [topics.topic(bus, name)] if name else topics.topics(bus, orphaned=orphaned)
        topic_views.show_topics(found, output)
        return
    if within:
        shown = [topics.subscription(bus, name, within)]
    else:
        of = topics.subscriptions if name else topics.subscriptions_of_listed
        listed = [name] if name else [each.name for each in topics.topics(bus, orphaned=True)]
        shown = [each for topic in listed for each in of(bus, topic, orphaned=orphaned)]
    topic_views.show_subscriptions(shown, output)


def _describe(
    found: Any, facts: dict[str, Any], extra: list[tuple[str, object]], output: Output
) -> None:
    if output.structured:
        printing.structured(facts, output)
        return
    rows: list[tuple[str, object]] = [
        ("name", found.name),
        *extra,
        ("origin", facts["origin"]),
        *([("state", EntityState.ORPHANED.value)] if found.orphaned else []),
        ("partitions", found.partition_count),
        ("homePartition", facts["homePartition"]),
        ("availability", facts["availabilityStatus"]),
        ("size", printing.size(found.runtime.size_in_bytes)),
        *((name, value) for name, value in facts["spec"].items() if name != "rules"),
    ]
    printing.table(("FIELD", Column("VALUE", wrap=20)), rows)
    printing.line("")
    printing.table(_SHARES, (queue_views.share(each) for each in found.runtime.partitions))


def _held(found: Any) -> int:
    """Return how many messages an entity holds; locked ones are among the active."""
    counts = found.runtime.count_details
    return int(
        counts.active_message_count
        + counts.dead_letter_message_count
        + counts.deferred_message_count
        + counts.scheduled_message_count
    )


def say_created(kind: str, name: str, answer: Any, output: Output) -> None:
    """Print what was made; no answer: a dry run."""
    away = missing(answer) if answer is not None else []
    facts = {"kind": kind, "name": name, "change": "created", "dry_run": answer is None}
    tail = " (dry run)" if answer is None else entity_commands.lagging(away)
    sentence = f"{kind.lower()} {name!r}: created{tail}"
    printing.result({**facts, "unreached_partitions": away}, sentence, output)


def missing(answer: Any) -> list[int]:
    """Return the partitions that a change has not reached."""
    return [each.partition for each in answer.outcomes if not each.done]


def refuse_on_a_cluster(context: typer.Context, command: str) -> None:
    """Raise UsageError for a command that needs the port for clients."""
    if context.obj.cluster is not None:
        raise UsageError(
            f"{command}: not supported on a cluster yet. Connect with --connection-string."
        )
