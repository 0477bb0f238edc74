"""KEDA on the cluster under test: built from its Go module, with the manifests that it has."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.cluster import TOOLS, Body, Cluster, CommandFailed, eventually, run

MODULE: Final = "github.com/kedacore/keda/v2"
VERSION: Final = "v2.21.0"
NAMESPACE: Final = "keda"
CACHE: Final = Path(
    os.environ.get("BENDYBUS_CLUSTER_CACHE", Path.home() / ".cache" / "bendybus-cluster")
)
# By program: its package, and the manifests that it needs. It is linked for a quarter of an hour
# on two cores, once for a machine.
PROGRAMS: Final = {"keda": "./cmd/operator", "keda-adapter": "./cmd/adapter"}
BUILD_S: Final = 3_000.0
MANIFESTS: Final = (
    "manager/manager.yaml",
    "manager/service.yaml",
    "metrics-server/deployment.yaml",
    "metrics-server/service.yaml",
    "metrics-server/api_service.yaml",
    "metrics-server/role.yaml",
    "metrics-server/role_binding.yaml",
)
_TRUST: Final = "bus-authority"


def source() -> Path:
    """Return the folder of the module; downloaded."""
    # Outside of any module of ours.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    return Path(json.loads(done.stdout)["Dir"])


def programs() -> Path:
    """Return the folder of KEDA's programs; built if they are not there."""
    kept = CACHE / f"keda-{VERSION}"
    if all((kept / name).exists() for name in PROGRAMS):
        return kept
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "keda"
        shutil.copytree(source(), tree)
        run(["chmod", "-R", "u+w", tree])
        for name, package in PROGRAMS.items():
            subprocess.run(
                ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(kept / name), package],
                cwd=tree,
                env={**os.environ, "CGO_ENABLED": "0"},
                timeout=BUILD_S,
                check=True,
            )
    return kept


def image() -> str:
    """Return the image with KEDA's programs; built and loaded."""
    made = f"localhost/keda:{VERSION}"
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        files.mkdir()
        # The image's user reads it, too.
        Path(folder).chmod(0o755)
        for name in PROGRAMS:
            shutil.copy(programs() / name, files / name)
        command: list[str | Path] = [TOOLS / "image", "--dir", f"{files}:/usr/local/share/keda"]
        run([*command, "--load", made, Path(folder) / "image.tar"], timeout_s=600)
    return made


def install(cluster: Cluster, authority: bytes) -> None:
    """Install KEDA, which trusts an authority, and wait until it serves metrics."""
    config = source() / "config"
    cluster.kubectl("apply", "--server-side", "-f", str(config / "crd" / "bases"), timeout_s=180)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    trust = {"ca.crt": base64.b64encode(authority).decode()}
    cluster.apply(
        _object("v1", "ServiceAccount", "keda-operator"),
        {**_object("v1", "Secret", _TRUST), "data": trust},
        {
            **_object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "keda-operator"),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "keda-operator", "namespace": NAMESPACE}
            ],
        },
    )
    name = image()
    for file in MANIFESTS:
        documents = yaml.safe_load_all((config / file).read_text(encoding="utf-8"))
        cluster.apply(*(_adapted(each, name) for each in documents if each))
    for deployment in ("keda-operator", "keda-metrics-apiserver"):
        cluster.kubectl(
            *("rollout", "status", "-n", NAMESPACE, f"deployment/{deployment}"),
            "--timeout=180s",
            timeout_s=200,
        )
    eventually(
        lambda: "external.metrics.k8s.io" in cluster.kubectl("api-versions"),
        within_s=120,
        what="KEDA serves metrics",
    )


def remove(cluster: Cluster) -> None:
    """Remove what other tests would notice."""
    for kind, name in (("apiservice", "v1beta1.external.metrics.k8s.io"), ("namespace", NAMESPACE)):
        cluster.kubectl("delete", kind, name, "--wait=false", "--ignore-not-found")


def said(cluster: Cluster) -> str:
    """Return the last lines of KEDA's log."""
    try:
        return cluster.kubectl("logs", "-n", NAMESPACE, "deployment/keda-operator", "--tail=40")
    except CommandFailed as error:
        return str(error)


def _object(version: str, kind: str, name: str) -> Body:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
    }


def _adapted(document: Body, image: str) -> Body:
    """Return a manifest of KEDA for the image that was built here."""
    if document["kind"] != "Deployment":
        return document
    pod: Any = document["spec"]["template"]["spec"]
    [container] = pod["containers"]
    program = Path(container["command"][0]).name
    container |= {
        "image": image,
        "imagePullPolicy": "Never",
        "command": [f"/usr/local/share/keda/{program}"],
        "securityContext": {"runAsUser": 10001},
    }
    container.pop("resources", None)
    pod["volumes"].append({"name": _TRUST, "secret": {"secretName": _TRUST}})
    container["volumeMounts"].append({"name": _TRUST, "mountPath": "/custom/ca"})
    return document
