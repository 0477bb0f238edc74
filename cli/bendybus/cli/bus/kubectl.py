"""`kubectl`, as commands use it: the user's own program, contexts and credentials.

The seam to a cluster. What kubectl says on stderr becomes one sentence of ours: what, where, what
to do. What it prints may hold keys, so it is never part of an error.
"""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from bendybus.cli.errors import CliError, NotFound, Unreachable

PROGRAM: Final = "kubectl"
TIMEOUT_S: Final = 30.0
_AWAY: Final = (
    "was refused",
    "Unable to connect to the server",
    "i/o timeout",
    "no route to host",
    "context deadline exceeded",
    "server is currently unable to handle",
)


class Absent(NotFound):
    """Raised when the cluster has no such object."""


class UnknownKind(NotFound):
    """Raised when the cluster lacks the CRDs: Bendybus is not installed."""


class Forbidden(CliError):
    """Raised when the user may not do that there."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a context and a namespace; "" leaves either to kubectl."""

    context: str = ""
    namespace: str = ""

    @property
    def where(self) -> str:
        """Return a description of the cluster."""
        return f"context {self.context!r}" if self.context else "the current context"

    def command(self, *arguments: str) -> list[str]:
        """Return the command line. Raises CliError without kubectl."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise CliError(
                "kubectl is not on the PATH. Install it, or name the bus itself with "
                "--connection-string."
            )
        options = [f"--context={self.context}"] if self.context else []
        options += [f"--namespace={self.namespace}"] if self.namespace else []
        return [program, *options, *arguments]

    def run(self, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Return what kubectl prints. Raises CliError."""
        try:
            done = subprocess.run(
                self.command(*arguments),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise self._away(f"kubectl did not answer within {timeout_s:.0f} s") from error
        if done.returncode:
            raise self.explained(done.stderr)
        return done.stdout

    def json(self, *arguments: str) -> dict[str, Any]:
        """Return what kubectl prints as JSON."""
        found: dict[str, Any] = json.loads(self.run(*arguments, "--output=json"))
        return found

    def namespace_name(self) -> str:
        """Return the namespace that commands are about."""
        if self.namespace:
            return self.namespace
        path = "--output=jsonpath={..namespace}"
        return self.run("config", "view", "--minify", path).strip() or "default"

    def explained(self, said: str) -> CliError:
        """Return an error for what kubectl said."""
        last = _last_line(said)
        if ("does not exist" in last and "context" in last) or "context was not found" in last:
            return NotFound(
                f"kubectl knows no {self.where}. kubectl config get-contexts lists them."
            )
        if "current-context is not set" in last:
            return NotFound("kubectl has no current context. Name one with --context NAME.")
        if "doesn't have a resource type" in last:
            return UnknownKind(
                f"Bendybus is not installed in the cluster of {self.where}. helm install bendybus "
                "charts/bendybus does that."
            )
        if "(Forbidden)" in last:
            return Forbidden(f"You may not do that in {self.where}: {_sentence(last)}")
        if "(NotFound)" in last:
            return Absent(_sentence(last))
        if any(part in last for part in _AWAY):
            return self._away(last)
        return CliError(
            _sentence(last) or f"kubectl failed in {self.where}, without an error message."
        )

    def _away(self, why: str) -> CliError:
        return Unreachable(
            f"The cluster of {self.where} does not answer ({why.rstrip('.')}). Is it up, and is "
            "KUBECONFIG the right one?"
        )


def _last_line(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _sentence(line: str) -> str:
    """Return kubectl's error without its prefix."""
    fact = re.sub(r"^(Error from server \(\w+\)|[Ee]rror): ", "", line)
    return fact if fact.endswith((".", "?")) or not fact else f"{fact}."
