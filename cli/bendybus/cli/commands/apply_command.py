"""`apply`: entities by manifest, on a bus, or on a cluster by kubectl, until they are Ready."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus import imports, manifests
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.bus.kubectl import Kubectl
from bendybus.cli.bus.manifests import ManifestEntities
from bendybus.cli.commands.entity_commands import DryRun, connected, lagging
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.crds.bundle import KINDS
from bendybus.crds.imports.asked import Asked

ApplyFiles = Annotated[
    list[Path],
    typer.Option("--file", "-f", help="Manifests: a YAML file, a folder of them, or - for stdin."),
]
_PATIENCE_S: Final = 10.0
_WAIT_S: Final = 120.0
GROUP: Final = "bendybus.io/"
LOOK_S: Final = 0.5
# Reasons that no waiting changes: a person decides.
_FINAL: Final = frozenset(
    {
        "FieldImmutable",
        "InvalidSpec",
        "NameTaken",
        "NamespaceNotAllowed",
        "PartitioningImmutable",
        "Paused",
        "Refused",
        "RetainedData",
    }
)


def apply(
    context: typer.Context,
    files: ApplyFiles = [],  # noqa: B006
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Instead of manifests: a file of another program, as bendybus convert reads it.",
        ),
    ] = None,
    settings: imports.Settings = None,
    parameters: imports.Parameters = None,
    only: imports.Only = "",
    wait: Annotated[
        float, typer.Option(min=0, help="On a cluster: seconds to wait for Ready; 0: do not.")
    ] = _WAIT_S,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Apply manifests to a running bus, or a cluster."""
    if files and from_ is not None:
        raise UsageError("--from: cannot be combined with --file. Apply them one after another.")
    if not files and from_ is None:
        raise UsageError("Name manifests with -f, or a file of another program with --from.")
    if from_ is None and (settings or parameters or only):
        option = "--set" if settings else "--parameters" if parameters else "--only"
        raise UsageError(f"{option} is for the file of --from. Leave it out.")
    asked = Asked(imports.values(settings or (), parameters), only)
    if context.obj.cluster is not None:
        with _manifests(files, from_, asked, context.obj.cluster) as paths:
            _apply_to_cluster(context.obj.cluster.kubectl, paths, wait, output, dry_run)
        return
    with manifests.readable(files) as paths, connected(context) as bus:
        running = bus.namespace_settings()
        bundle = (
            manifests.load_for(running, paths)
            if from_ is None
            else imports.for_running(from_, asked, running)
        )
        patience = manifests.Patience(_PATIENCE_S)
        entities = ManifestEntities(bus)
        if dry_run:
            existing = patience.call(lambda: entities.all(bundle.entities))
            outcomes = [manifests.Outcome(step) for step in manifests.plan(bundle, existing)]
        else:
            outcomes = manifests.apply(entities, bundle, patience)
    _say_applied(outcomes, output, dry_run)


@contextmanager
def _manifests(
    files: Sequence[Path], from_: Path | None, asked: Asked, choice: ClusterChoice
) -> Iterator[list[Path]]:
    """Give files for kubectl: those of the user, or one that is made of another program's."""
    if from_ is None:
        with manifests.readable(files) as paths:
            yield paths
        return
    with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
        path = Path(folder) / "converted.yaml"
        path.write_text(imports.for_cluster(from_, asked, choice), encoding="utf-8")
        yield [path]


def _say_applied(outcomes: Sequence[manifests.Outcome], output: Output, dry_run: bool) -> None:
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
    for line in apply_on_cluster(kubectl, files, dry_run=dry_run):
        (printing.note if output.structured else printing.line)(line)
    if not wait_s or dry_run:
        return
    found = wait(kubectl, files, wait_s)
    for each in found:
        if output.structured or each.ready:
            printing.result(asdict(each), str(each), output)
    check_options(found)


def _told(outcome: manifests.Outcome) -> str:
    text = f"{outcome.step.kind} {outcome.step.name!r}: {outcome.step.change}"
    if outcome.step.change is manifests.Change.KEPT:
        text += " (in none of these manifests)"
    return text + lagging(outcome.unreached)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a manifest is: Ready or not, and why."""

    kind: str
    namespace: str
    name: str
    ready: bool
    reason: str
    message: str

    def __str__(self) -> str:
        text = f"{self.kind} {self.namespace}/{self.name}: "
        return text + ("Ready" if self.ready else f"{self.reason}: {self.message.rstrip('.')}")


def apply_on_cluster(
    kubectl: Kubectl, files: Sequence[Path], *, dry_run: bool = False
) -> list[str]:
    """Pass the files to kubectl; return its output. Raises CliError with its error."""
    options = ["--dry-run=server"] if dry_run else []
    return kubectl.run("apply", *_options(files), *options).splitlines()


def wait(
    kubectl: Kubectl,
    files: Sequence[Path],
    wait_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Standing]:
    """Wait until all are Ready, one has a lasting error, or time is over; return their state."""
    over_at = monotonic() + wait_s
    while True:
        found = standings(kubectl.json("get", *_options(files)))
        stuck = any(each.reason in _FINAL for each in found)
        if stuck or all(each.ready for each in found) or monotonic() >= over_at:
            return found
        sleep(LOOK_S)


def standings(answer: Mapping[str, Any]) -> list[Standing]:
    """Return how those of our kinds are, from a list or a single object."""
    items = answer.get("items", [answer])
    return [_standing(each) for each in items if each["apiVersion"].startswith(GROUP)]


def check_options(found: Sequence[Standing]) -> None:
    """Raise CliError that names what is not Ready, and why."""
    late = [str(each) for each in found if not each.ready]
    if late:
        raise CliError("Applied, but not Ready: " + "; ".join(late) + ".")


def _standing(body: Mapping[str, Any]) -> Standing:
    metadata = body["metadata"]
    conditions = (body.get("status") or {}).get("conditions") or []
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    ready = ready or {"reason": "Unseen", "message": "no operator has reconciled it yet."}
    # A status of an older generation does not cover the change that was applied.
    current = ready.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return Standing(
        kind=body["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        ready=current and ready.get("status") == "True",
        reason=ready["reason"] if current or "status" not in ready else "Unseen",
        message=ready["message"] if current or "status" not in ready else "not reconciled yet.",
    )


def _options(files: Sequence[Path]) -> list[str]:
    for path in files:
        if not path.exists():
            raise UsageError(f"{path} does not exist. Name a manifest or a folder of them.")
    return [f"--filename={path}" for path in files]
