"""`apply`: entities by manifest; `describe`, `delete`: the queues of a bus, by name."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.cli.bus import (
    apply_manifests,
    bus_choice,
    dry_runs,
    manifests,
    setting_texts,
    unavailable_partitions,
)
from bendybus.cli.bus.management import Management
from bendybus.cli.bus.manifest_entities import ManifestEntities
from bendybus.cli.cluster import apply_and_wait
from bendybus.cli.cluster.kubectl import Kubectl
from bendybus.cli.commands import completion, process_commands
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing, queue_views
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.tables import Column
from bendybus.crds.bundle import KINDS
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import Unauthorized
from bendybus.domain.lifecycle import EntityState
from bendybus.v1 import management_pb2 as pb

_PATIENCE_S: Final = 10.0
_WAIT_S: Final = 120.0
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


@contextmanager
def connected(context: typer.Context) -> Iterator[Management]:
    """Yield a connection to the bus of the command."""
    with (
        bus_choice.target(context.obj) as target,
        Management(target.connection_string, ca_file=target.ca_file) as bus,
    ):
        yield bus


def apply(
    context: typer.Context,
    files: process_commands.Files,
    wait: Annotated[
        float, typer.Option(min=0, help="On a cluster: seconds to wait for Ready; 0: do not.")
    ] = _WAIT_S,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Apply manifests to a running bus, or a cluster."""
    with manifests.readable(files) as paths:
        if context.obj.cluster is not None:
            _apply_to_cluster(context.obj.cluster.kubectl, paths, wait, output, dry_run)
            return
        with connected(context) as bus:
            bundle = manifests.load_for(bus.namespace_settings(), paths)
            patience = apply_manifests.Patience(_PATIENCE_S)
            entities = ManifestEntities(bus)
            if dry_run:
                existing = patience.call(lambda: entities.all(bundle.entities))
                outcomes = [
                    apply_manifests.Outcome(step) for step in apply_manifests.plan(bundle, existing)
                ]
            else:
                outcomes = apply_manifests.apply(entities, bundle, patience)
    _say_applied(outcomes, output, dry_run)


def _say_applied(
    outcomes: Sequence[apply_manifests.Outcome], output: Output, dry_run: bool
) -> None:
    for outcome in outcomes:
        facts = {
            "kind": KINDS[outcome.step.kind],
            "name": outcome.step.name,
            "change": outcome.step.change.value,
            "unreached_partitions": list(outcome.unreached),
            "dry_run": dry_run,
        }
        printing.result(facts, _told(outcome) + (" (dry run)" if dry_run else ""), output)


def _apply_to_cluster(
    kubectl: Kubectl, files: Sequence[Path], wait_s: float, output: Output, dry_run: bool
) -> None:
    for line in apply_and_wait.apply(kubectl, files, dry_run=dry_run):
        (printing.note if output.structured else printing.line)(line)
    if not wait_s or dry_run:
        return
    found = apply_and_wait.wait(kubectl, files, wait_s)
    for each in found:
        if output.structured or each.ready:
            printing.result(asdict(each), str(each), output)
    apply_and_wait.check(found)


def _told(outcome: apply_manifests.Outcome) -> str:
    text = f"{outcome.step.kind} {outcome.step.name!r}: {outcome.step.change}"
    if outcome.step.change is apply_manifests.Change.KEPT:
        text += " (in none of these manifests)"
    return text + lagging(outcome.unreached)


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
    partitioned: Annotated[
        bool, typer.Option("--partitioned", help="Spread over all partitions; cannot be changed.")
    ] = False,
    detect_duplicates: Annotated[
        bool, typer.Option("--detect-duplicates", help="Use MessageId; cannot be changed.")
    ] = False,
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
    given = list(fields or ())
    given += ["enablePartitioning=true"] if partitioned else []
    given += ["requiresDuplicateDetection=true"] if detect_duplicates else []
    given += ["requiresSession=true"] if requires_session else []
    if context.obj.cluster is not None:
        raise UsageError(
            "create queue: not supported on a cluster. Write a Queue manifest, and run "
            "bendybus apply -f FILE."
        )
    with connected(context) as bus:
        setting_texts.check_name(name)
        wanted = setting_texts.description(QueueDescription(), given, bus.namespace_settings())
        missing = []
        if dry_run:
            dry_runs.create_queue_or_topic(bus, name)
        else:
            answer = bus.create_by_hand(name, wanted, migrated=migrated)
            missing = [each.partition for each in answer.outcomes if not each.done]
    facts = {"kind": "Queue", "name": name, "change": "created", "dry_run": dry_run}
    tail = " (dry run)" if dry_run else lagging(missing)
    sentence = f"queue {name!r}: created{tail}"
    printing.result({**facts, "unreached_partitions": missing}, sentence, output)


@describe_app.command("queue")
def describe_queue(
    context: typer.Context,
    name: QueueName,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a queue: its settings, and its share on each partition."""
    with connected(context) as bus:
        queue = bus.queue(name)
        away = _away(bus, queue) if not output.structured else []
    facts = queue_views.as_json(queue)
    if output.structured:
        printing.structured(facts, output)
        return
    rows: list[tuple[str, object]] = [
        ("name", queue.name),
        ("origin", facts["origin"]),
        *([("state", EntityState.ORPHANED.value)] if queue.orphaned else []),
        ("partitions", queue.partition_count),
        ("homePartition", facts["homePartition"]),
        ("availability", facts["availabilityStatus"]),
        ("size", printing.size(queue.runtime.size_in_bytes)),
        *facts["spec"].items(),
    ]
    printing.table(("FIELD", Column("VALUE", wrap=20)), rows)
    printing.line("")
    columns = ("PARTITION", "REACHABLE", "ACTIVE", "DEADLETTER", "SCHEDULED", "DEFERRED", "SIZE")
    printing.table(columns, (queue_views.share(each) for each in queue.runtime.partitions))
    for sentence in ["", *away] if away else ():
        printing.line(sentence)
    if queue.orphaned:
        printing.line("")
        printing.line(_ORPHANED.format(name=queue.name))


def _away(bus: Management, queue: pb.Queue) -> list[str]:
    """Return why partitions of a queue are unavailable, if the key may ask for it."""
    lacking = {part.partition for part in queue.runtime.partitions if not part.reachable}
    if not lacking:
        return []
    with suppress(Unauthorized):
        return unavailable_partitions.told(
            (p for p in bus.namespace().partitions if p.partition in lacking), {}
        )
    return []


@delete_app.command("queue")
def delete_queue(
    context: typer.Context,
    name: QueueName,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a queue and every message in it; of an orphaned one, this is the purge."""
    with connected(context) as bus:
        queue = bus.queue(name)
        if context.obj.cluster is not None and not queue.orphaned:
            _refuse_to_undo_a_manifest(queue)
        counts = queue.runtime.count_details
        # Of every kind: what is not said here goes unseen. Locked ones are among the active.
        held = counts.active_message_count + counts.dead_letter_message_count
        held += counts.deferred_message_count + counts.scheduled_message_count
        if dry_run:
            done = "purged" if queue.orphaned else "deleted"
            printing.line(f"queue {queue.name!r}: would be {done}, with its {held} messages")
            return
        what = "Purge orphaned queue" if queue.orphaned else "Delete queue"
        confirm(f"{what} {queue.name!r} and its {held} messages?", yes)
        answer = bus.delete(queue)
    missing = [each.partition for each in answer.outcomes if not each.done]
    done = "purged" if queue.orphaned else "deleted"
    printing.line(f"queue {queue.name!r}: {done}{lagging(missing)}")


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
