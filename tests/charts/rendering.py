"""Helm and kubectl on the chart: rendered objects, refusals, what an API server says."""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

CHART: Final = Path(__file__).parents[2] / "charts" / "bendybus"
NAMESPACE: Final = "bus-system"
KUBERNETES: Final = "1.34.0"
NEEDED: Final = "BENDYBUS_HELM_NEEDED"

Body = dict[str, Any]


def need_helm() -> None:
    """Skip a test where there is no helm; fail it where BENDYBUS_HELM_NEEDED is set."""
    if shutil.which("helm") is not None:
        return
    if os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set, and there is no helm on the PATH.")
    pytest.skip("no helm on the PATH: the chart is not rendered here")


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm and return what came of it."""
    need_helm()
    return subprocess.run(
        ["helm", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def template(values: Mapping[str, Any] | None = None, *options: str) -> str:
    """Return the rendered chart as text. Raises ValueError with Helm's refusal."""
    return _template(yaml.safe_dump(dict(values or {})), options)


@functools.cache
def _template(values: str, options: tuple[str, ...]) -> str:
    need_helm()
    done = subprocess.run(
        ["helm", "template", "bendybus", str(CHART), f"--namespace={NAMESPACE}",
         f"--kube-version={KUBERNETES}", "--values=-", *options],
        input=values, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def render(values: Mapping[str, Any] | None = None, *options: str) -> list[Body]:
    """Return the rendered objects."""
    return [body for body in yaml.safe_load_all(template(values, *options)) if body]


def of_kind(bodies: Iterable[Body], kind: str) -> list[Body]:
    """Return the objects of a kind."""
    return [body for body in bodies if body["kind"] == kind]


def only(bodies: Iterable[Body], kind: str) -> Body:
    """Return the one object of a kind."""
    (found,) = of_kind(bodies, kind)
    return found


def server_side_dry_run(
    values: Mapping[str, Any],
    *,
    namespace: str,
    environment: Mapping[str, str],
    without: Iterable[str] = (),
) -> list[str]:
    """Have the API server of KUBECONFIG judge the chart, as e2e tests do; return kubectl's lines.

    It changes nothing. `without`: kinds whose CRDs the cluster lacks. The namespaces must exist.
    Raises ValueError with the first refusal.
    """
    left_out = set(without)
    found = render(values, f"--namespace={namespace}")
    bodies = [body for body in found if body["kind"] not in left_out]
    done = subprocess.run(
        ["kubectl", "apply", "--server-side", "--force-conflicts", "--dry-run=server",
         "--field-manager=helm", "--filename=-"],
        input=yaml.safe_dump_all(bodies), capture_output=True, text=True, timeout=120, check=False,
        env=dict(environment),
    )  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout.splitlines()
