"""`apply` on a cluster: kubectl applies, then waits for Ready, and reports what is not."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bendybus.cli.cluster.kubectl import Kubectl
from bendybus.cli.errors import CliError, UsageError

GROUP: Final = "bendybus.io/"
LOOK_S: Final = 0.5
# Reasons that no waiting changes: a person decides.
FINAL: Final = frozenset(
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


def apply(kubectl: Kubectl, files: Sequence[Path], *, dry_run: bool = False) -> list[str]:
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
        stuck = any(each.reason in FINAL for each in found)
        if stuck or all(each.ready for each in found) or monotonic() >= over_at:
            return found
        sleep(LOOK_S)


def standings(answer: Mapping[str, Any]) -> list[Standing]:
    """Return how those of our kinds are, from a list or a single object."""
    items = answer.get("items", [answer])
    return [_standing(each) for each in items if each["apiVersion"].startswith(GROUP)]


def check(found: Sequence[Standing]) -> None:
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
