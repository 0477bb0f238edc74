"""`create`, `describe`, `delete`: the entities of a bus, by name."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus import bus_choice, management, setting_texts
from bendybus.cli.bus.management import Management
from bendybus.cli.commands import completion
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import entity_views, printing, sums
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.domain import subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import (
    Description,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from bendybus.domain.errors import Unauthorized
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

_ORPHANED: Final = (
    "Its manifest was deleted. Messages can be received; sends are rejected. To adopt it, annotate "
    "a manifest of this name with bendybus.io/retained-data: adopt; to purge it with its "
    "messages: bendybus delete queue {name}"
)
create_app = typer.Typer(help="Create what a bus holds, without a manifest.")
describe_app = typer.Typer(help="Show all details.")
delete_app = typer.Typer(help="Delete what a bus holds.")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, without doing it.")
]
Migrated = Annotated[
    bool,
    typer.Option(
        "--migrated",
        help="From an earlier form of Premium: it keeps its 2 partitions. Premium only.",
    ),
]
QueueName = Annotated[
    str, typer.Argument(help="Name of the queue.", autocompletion=completion.queue_names)
]

# Where messages are received from; a queue's name, or a subscription's.
SourceName = Annotated[
    str,
    typer.Argument(
        help="Name of the queue, or TOPIC/Subscriptions/NAME.",
        autocompletion=completion.source_names,
    ),
]
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
Partitioned = Annotated[
    bool, typer.Option("--partitioned", help="Spread over all partitions; cannot be changed.")
]
DetectDuplicates = Annotated[
    bool, typer.Option("--detect-duplicates", help="Use MessageId; cannot be changed.")
]
Fields = Annotated[
    list[str] | None,
    typer.Option("--set", help="FIELD=VALUE, as in a manifest: autoDeleteOnIdle=P1D."),
]


@contextmanager
def connected(context: typer.Context) -> Iterator[Management]:
    """Yield a connection to the bus of the command."""
    with (
        bus_choice.target(context.obj) as target,
        Management(target.connection_string, ca_file=target.ca_file) as bus,
    ):
        yield bus


def lagging(partitions: Sequence[int]) -> str:
    """Return the end of a line about partitions that lack the change; "" if none does."""
    if not partitions:
        return ""
    named = ", ".join(map(str, partitions))
    return f"; not yet on partition {named}, which will follow when it is available"


@create_app.command("queue")
def create_queue(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the queue.")],
    partitioned: Partitioned = False,
    detect_duplicates: DetectDuplicates = False,
    requires_session: Annotated[
        bool, typer.Option("--requires-session", help="Require sessions; cannot be changed.")
    ] = False,
    fields: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE, as in a manifest: lockDuration=PT30S."),
    ] = None,
    migrated: Migrated = False,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a queue without a manifest."""
    given = [*(fields or ()), *_chosen(partitioned, detect_duplicates)]
    given += ["requiresSession=true"] if requires_session else []
    if context.obj.cluster is not None:
        raise UsageError(
            "create queue: not supported on a cluster. Write a Queue manifest, and run "
            "bendybus apply -f FILE."
        )
    with connected(context) as bus:
        setting_texts.check_name(name)
        answer = _create(bus, name, QueueDescription(), given, dry_run, migrated=migrated)
    say_created("Queue", name, answer, output)


@create_app.command("topic")
def create_topic(
    context: typer.Context,
    name: NewName,
    partitioned: Partitioned = False,
    detect_duplicates: DetectDuplicates = False,
    fields: Fields = None,
    migrated: Migrated = False,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a topic without a manifest."""
    refuse_on_a_cluster(context, "create topic")
    given = [*(fields or ()), *_chosen(partitioned, detect_duplicates)]
    with connected(context) as bus:
        answer = _create(bus, name, TopicDescription(), given, dry_run, migrated=migrated)
    say_created("Topic", name, answer, output)


@create_app.command("subscription")
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
    path = subscription_name.compose(topic, name)
    with connected(context) as bus:
        answer = _create(bus, path, SubscriptionDescription(), fields or (), dry_run)
    say_created("Subscription", path, answer, output)


def _chosen(partitioned: bool, detect_duplicates: bool) -> Iterator[str]:
    if partitioned:
        yield "enablePartitioning=true"
    if detect_duplicates:
        yield "requiresDuplicateDetection=true"


def _create(
    bus: Management,
    name: str,
    default: Description,
    given: Sequence[str],
    dry_run: bool,
    **options: bool,
) -> Any:
    """Create an entity; return the answer, None of a dry run."""
    wanted = setting_texts.description(default, given, bus.namespace_settings())
    if dry_run:
        management.try_create(bus, wanted.kind, name)
        return None
    return bus.create(name, wanted, **options)


@describe_app.command("queue")
def describe_queue(
    context: typer.Context, name: QueueName, output: OutputOption = Output.TABLE
) -> None:
    """Show a queue: its settings, and its share on each partition."""
    with connected(context) as bus:
        queue = bus.entity(EntityKind.QUEUE, name)
        away = away_from(bus, queue) if not output.structured else []
    entity_views.describe(queue, (), output)
    if not output.structured:
        for sentence in ["", *away] if away else ():
            printing.line(sentence)
        if queue.orphaned:
            printing.line("")
            printing.line(_ORPHANED.format(name=queue.name))
    sums.check_whole([queue])


@describe_app.command("topic")
def describe_topic(
    context: typer.Context, name: TopicName, output: OutputOption = Output.TABLE
) -> None:
    """Show a topic: its settings, and its share on each partition."""
    with connected(context) as bus:
        found = bus.entity(EntityKind.TOPIC, name)
    extra = (
        ("subscriptions", found.subscription_count),
        ("SQL filters", found.sql_filter_count),
        ("other filters", found.correlation_filter_count),
    )
    entity_views.describe(found, extra, output)
    sums.check_whole([found])


@describe_app.command("subscription")
def describe_subscription(
    context: typer.Context, topic: TopicName, name: Name, output: OutputOption = Output.TABLE
) -> None:
    """Show a subscription: its settings, and its share on each partition."""
    path = subscription_name.compose(topic, name)
    with connected(context) as bus:
        found = bus.entity(EntityKind.SUBSCRIPTION, path)
    rules = entities.description_from_proto(found.description).rules
    entity_views.describe(found, (("topic", found.topic_name), ("rules", len(rules))), output)
    if not output.structured:
        printing.line("")
        entity_views.rule_table(rules)
    sums.check_whole([found])


def away_from(bus: Management, queue: pb.Queue | pb.Subscription) -> list[str]:
    """Return why partitions of an entity are unavailable, if the key may ask for it."""
    lacking = {part.partition for part in queue.runtime.partitions if not part.reachable}
    if not lacking:
        return []
    with suppress(Unauthorized):
        return management.say_unavailable(
            (p for p in bus.namespace().partitions if p.partition in lacking), {}
        )
    return []


@delete_app.command("queue")
def delete_queue(
    context: typer.Context, name: QueueName, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Delete a queue and every message in it; of an orphaned one, this is the purge."""
    with connected(context) as bus:
        queue = bus.entity(EntityKind.QUEUE, name)
        if context.obj.cluster is not None and not queue.orphaned:
            _refuse_to_undo_a_manifest(queue)
        done = "purged" if queue.orphaned else "deleted"
        ask = f"{'Purge orphaned' if queue.orphaned else 'Delete'} queue {queue.name!r} and"
        _delete(bus, queue, f"its {_held(queue)} messages", yes, dry_run, ask=ask, done=done)


@delete_app.command("topic")
def delete_topic(
    context: typer.Context, name: TopicName, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Delete a topic, its subscriptions and every message in them."""
    refuse_on_a_cluster(context, "delete topic")
    with connected(context) as bus:
        found = bus.entity(EntityKind.TOPIC, name)
        within = bus.listed(EntityKind.SUBSCRIPTION, found.name, orphaned=True)
        held = _held(found) + sum(map(_held, within))
        with_all = f"its {len(within)} subscriptions and their {held} messages"
        _delete(bus, found, with_all, yes, dry_run, ask=f"Delete topic {found.name!r},")


@delete_app.command("subscription")
def delete_subscription(
    context: typer.Context, topic: TopicName, name: Name, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Delete a subscription and every message in it."""
    refuse_on_a_cluster(context, "delete subscription")
    with connected(context) as bus:
        found = bus.entity(EntityKind.SUBSCRIPTION, subscription_name.compose(topic, name))
        _delete(bus, found, f"its {_held(found)} messages", yes, dry_run)


def _delete(
    bus: Management,
    found: Any,
    with_all: str,
    yes: bool,
    dry_run: bool,
    *,
    ask: str = "",
    done: str = "deleted",
) -> None:
    """Delete an entity; `with_all`: what goes with it, `ask`: the question up to that."""
    what = f"{entities.kind_of(found)} {entities.name_of(found)!r}"
    if dry_run:
        printing.line(f"{what}: would be {done}, with {with_all}")
        return
    confirm(f"{ask or f'Delete {what} and'} {with_all}?", yes)
    printing.line(f"{what}: {done}{lagging(missing(bus.delete(found)))}")


def _held(found: Any) -> int:
    """Return how many messages an entity holds, of every kind; locked ones are among the active."""
    counts = found.runtime.count_details
    held = counts.active_message_count + counts.dead_letter_message_count
    return int(held + counts.deferred_message_count + counts.scheduled_message_count)


def say_created(kind: str, name: str, answer: Any, output: Output) -> None:
    """Print what was made; no answer: a dry run."""
    away = missing(answer) if answer is not None else []
    facts = {"kind": kind, "name": name, "change": "created", "dry_run": answer is None}
    tail = " (dry run)" if answer is None else lagging(away)
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


def _refuse_to_undo_a_manifest(queue: pb.Queue) -> None:
    """Raise CliError for a queue that the operator would recreate."""
    if queue.origin == pb.ENTITY_ORIGIN_MANIFEST:
        raise CliError(
            f"Queue {queue.name!r} has a manifest, and the operator would recreate it. Delete the "
            "manifest: kubectl delete queues.bendybus.io NAME. Its deletionPolicy decides what "
            "happens to the messages."
        )


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation on a terminal; without one --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Confirm with --yes: there is no terminal.")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as ended:
        # The line of the question has no end.
        printing.note("")
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        agreed = False
    if not agreed:
        raise CliError("Nothing was changed.")
