"""`apply`: entities by manifest."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.cli.bus import apply_manifests, manifests
from bendybus.cli.bus.manifest_entities import ManifestEntities
from bendybus.cli.cluster import apply_and_wait
from bendybus.cli.cluster.kubectl import Kubectl
from bendybus.cli.commands import process_commands
from bendybus.cli.commands.entity_commands import DryRun, connected, lagging
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.crds.bundle import KINDS

_PATIENCE_S: Final = 10.0
_WAIT_S: Final = 120.0


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
