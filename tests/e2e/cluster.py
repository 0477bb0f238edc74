"""A Kubernetes cluster under test: the one KUBECONFIG names, or one started for the run.

Nodes can be stopped, cut and frozen only on a cluster of `shared/cluster`; tests that need it say
so by asking for `cluster.nodes`.
"""

import contextlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

T = TypeVar("T")
ROOT: Final = Path(__file__).parents[2]
TOOLS: Final = Path(os.environ.get("BENDYBUS_CLUSTER_TOOLS", ROOT.parent / "shared" / "cluster"))
STATE: Final = Path(
    os.environ.get("BENDYBUS_CLUSTER_STATE", Path.home() / ".local" / "state" / "bendybus-cluster")
)
Body = dict[str, Any]
# While all operators were killed, or their node: until others answer.
WEBHOOK_AWAY_S: Final = 30.0


class CommandFailed(Exception):
    """Raised when a command did not succeed; its text is what the command said."""


def run(
    arguments: Sequence[str | Path],
    *,
    stdin: str | None = None,
    timeout_s: float = 120,
    env: dict[str, str] | None = None,
) -> str:
    """Run a command and return what it printed. Raises CommandFailed."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=env,
        check=False,
    )
    if done.returncode:
        command = " ".join(map(str, arguments))
        raise CommandFailed(f"{command}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def eventually(look: Callable[[], T | None], *, within_s: float, what: str) -> T:
    """Return the first true answer of `look`; it may fail meanwhile. Fails after `within_s`."""
    end = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            found = look()
            if found:
                return found
            last = found
        except (CommandFailed, subprocess.TimeoutExpired, AssertionError) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {within_s:.0f} s: {what}; last: {last}")
        time.sleep(0.25)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Power switches of a cluster of `shared/cluster`."""

    tools: Path

    def names(self) -> list[str]:
        """Return the names of the nodes."""
        return [f"node{index}" for index in (1, 2)]

    def do(self, verb: str, node: str) -> None:
        """Stop, start, cut, mend, freeze or thaw a node."""
        run([self.tools / "node", verb, node], timeout_s=60)

    def execute(self, node: str, *command: str) -> str:
        """Run a command inside a node."""
        return run([self.tools / "node", "exec", node, *command], timeout_s=60)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster. `nodes`: None where nobody can touch the nodes."""

    env: dict[str, str]
    nodes: Nodes | None

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 90) -> str:
        """Run kubectl. Raises CommandFailed with what it said."""
        return run(["kubectl", *arguments], stdin=stdin, timeout_s=timeout_s, env=self.env)

    def helm(self, *arguments: str, timeout_s: float = 180) -> str:
        """Run helm."""
        return run(["helm", *arguments], timeout_s=timeout_s, env=self.env)

    def helm_template(
        self, chart: Path, namespace: str, values: Mapping[str, Any], part: str
    ) -> str:
        """Return what a template of a chart becomes."""
        return run(
            ["helm", "template", "bendybus", chart, "--namespace", namespace, "--values=-",
             "--kube-version=1.34.0", f"--show-only={part}"],
            env=self.env,
            stdin=json.dumps(values),
        )  # fmt: skip

    def apply(self, *documents: Body) -> str:
        """Apply manifests as a user does, and again when no operator answers for a moment."""
        text = yaml.safe_dump_all(documents)
        end = time.monotonic() + WEBHOOK_AWAY_S
        while True:
            try:
                return self.kubectl("apply", "-f", "-", stdin=text)
            except CommandFailed as error:
                if "failed calling webhook" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def get(self, kind: str, name: str, namespace: str) -> Body:
        """Return an object. Raises CommandFailed if there is none."""
        answer: Body = json.loads(
            self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--request-timeout=5s")
        )
        return answer

    def exists(self, kind: str, name: str, namespace: str) -> bool:
        """Whether there is such an object."""
        found = self.kubectl("get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "name")
        return bool(found.strip())

    def list(self, kind: str, namespace: str, labels: str = "") -> list[Body]:
        """Return objects of a kind."""
        selector = ["-l", labels] if labels else []
        answer = json.loads(self.kubectl("get", kind, "-n", namespace, "-o", "json", *selector))
        items: list[Body] = answer["items"]
        return items

    def ready(self, kind: str, name: str, namespace: str) -> Body:
        """Return the Ready condition of a manifest; empty while there is none."""
        status = self.get(kind, name, namespace).get("status") or {}
        for condition in status.get("conditions") or []:
            if condition["type"] == "Ready":
                return dict(condition)
        return {}

    def await_ready(self, kind: str, name: str, namespace: str, *, within_s: float = 90) -> Body:
        """Return the Ready condition once it is True."""
        return self.await_reason(kind, name, namespace, "Available", within_s=within_s)

    def await_reason(
        self, kind: str, name: str, namespace: str, reason: str, *, within_s: float = 30
    ) -> Body:
        """Return the Ready condition once it gives this reason."""

        def look() -> Body | None:
            found = self.ready(kind, name, namespace)
            assert found.get("reason") == reason, found
            return found

        return eventually(look, within_s=within_s, what=f"{kind} {name} is {reason}")


@contextlib.contextmanager
def provided() -> Iterator[Cluster]:
    """Give the cluster that KUBECONFIG names; without one, start one and take it down again."""
    environment = dict(os.environ)
    if "KUBECONFIG" in environment:
        ours = Path(environment["KUBECONFIG"]) == STATE / "kubeconfig"
        yield Cluster(environment, Nodes(TOOLS) if ours else None)
        return
    if not (TOOLS / "up").exists():
        raise CommandFailed(
            f"there is no cluster: set KUBECONFIG, or have the tools of shared/cluster at {TOOLS}"
        )
    run([TOOLS / "build"], timeout_s=1500)
    said = run([TOOLS / "up", "--nodes", "2"], timeout_s=180)
    # `export KUBECONFIG=… PATH=…:$PATH`, for a shell.
    for word in shlex.split(said):
        name, separator, value = word.partition("=")
        if separator and name in ("KUBECONFIG", "PATH"):
            environment[name] = value.replace("$PATH", environment["PATH"])
    before = os.environ["PATH"]
    # For what looks for kubectl and helm by itself: the command line, the chart's rendering.
    os.environ["PATH"] = environment["PATH"]
    try:
        yield Cluster(environment, Nodes(TOOLS))
    finally:
        os.environ["PATH"] = before
        run([TOOLS / "down"], timeout_s=60)
