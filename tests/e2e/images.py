"""Images for the cluster under test: this checkout, the last tag, and ones that tests set up.

With `BENDYBUS_E2E_IMAGE` the first is taken as given (a cluster whose nodes cannot be loaded); the
others need the Docker-less build of `shared/cluster`.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.cluster import ROOT, TOOLS, Cluster, CommandFailed, run

GIVEN: Final = os.environ.get("BENDYBUS_E2E_IMAGE", "")
SPARK_GIVEN: Final = os.environ.get("BENDYBUS_E2E_SPARK_IMAGE", "")
SPARK_FILES: Final = ROOT / "images" / "bendybus-spark" / "app"
HOSTILE_FILES: Final = Path(__file__).with_name("hostile")
_GO_FILE: Final = "operations.bin"
GO_PROGRAM: Final = f"/usr/local/share/bendybus/{_GO_FILE}"
FAKETIME: Final = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def current(cluster: Cluster) -> str:
    """Return the name of the image of this checkout; built and loaded."""
    if GIVEN:
        return GIVEN
    return _build(cluster, ROOT, "bendybus", [])


def spark(cluster: Cluster) -> str:
    """Return the name of the Spark image of this checkout; built and loaded."""
    if SPARK_GIVEN:
        return SPARK_GIVEN
    pins = ROOT / "requirements" / "image-spark.txt"
    options = ["--with-jre", "--requirements", str(pins)]
    options += ["--entrypoint", '["python3", "-m", "bendybus.spark.container"]']
    return _build(cluster, ROOT, "bendybus-spark", options, SPARK_FILES)


def sdk(cluster: Cluster) -> str:
    """Return an image with official SDKs beside what the image of this checkout has.

    That for Python, and GO_PROGRAM: the operations of tests/sdks/go.
    """
    pins = ROOT / "requirements" / "image-sdk.txt"
    with tempfile.TemporaryDirectory() as folder:
        # The image's user reads it, too.
        Path(folder).chmod(0o755)
        subprocess.run(
            [*("go", "build", "-trimpath", "-buildvcs=false"), "-o", f"{folder}/{_GO_FILE}", "."],
            cwd=ROOT / "tests" / "sdks" / "go",
            env={**os.environ, "CGO_ENABLED": "0"},
            check=True,
        )
        options = ["--requirements", str(pins)]
        return _build(cluster, ROOT, "bendybus-sdk", options, Path(folder))


def skewed(cluster: Cluster) -> str:
    """Return an image whose processes take their clock from the file /var/lib/bendybus/clock."""
    options = ["--deb", "faketime", "--env", f"LD_PRELOAD={FAKETIME}"]
    options += ["--env", "FAKETIME_TIMESTAMP_FILE=/var/lib/bendybus/clock"]
    options += ["--env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "--env", "FAKETIME_NO_CACHE=1"]
    return _build(cluster, ROOT, "bendybus-skewed", options)


def hostile(cluster: Cluster) -> str:
    """Return an image whose partitions answer with what fills memory, see hostile/."""
    options = ["--env", "PYTHONPATH=/usr/local/share/bendybus"]
    return _build(cluster, ROOT, "bendybus-hostile", options, HOSTILE_FILES)


def last_release() -> str:
    """Return the newest release before this commit: its tag, or its commit in a clone without."""
    with contextlib.suppress(CommandFailed):
        return run(["git", "-C", ROOT, "describe", "--tags", "--abbrev=0", "HEAD^"]).strip()
    found = run(["git", "-C", ROOT, "log", "-1", "--grep=^release: ", "--format=%H", "HEAD^"])
    found = found.strip()
    if not found:
        raise CommandFailed(
            "the upgrade starts from the last release, and this clone has neither its tag nor its "
            "commit: git fetch --tags --unshallow"
        )
    return found


def of_release(cluster: Cluster, commit: str) -> str:
    """Return the image of a release, by its tag or commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
        return _build(cluster, tree, "bendybus-previous", [])


def _build(
    cluster: Cluster, source: Path, name: str, options: list[str], files: Path | None = None
) -> str:
    """Build and load an image; its tag is that of its content, so that pods notice a new one.

    `files`: a folder whose files are in /usr/local/share/bendybus.
    """
    if cluster.nodes is None:
        raise CommandFailed(f"{name} cannot be loaded here: set BENDYBUS_E2E_IMAGE")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out / "dist")],
            cwd=source,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
            check=True,
            capture_output=True,
        )
        (wheel,) = (out / "dist").glob("*.whl")
        requirements = source / "requirements" / "image.txt"
        parts = wheel.read_bytes() + requirements.read_bytes() + " ".join(options).encode()
        if files is not None:
            parts += b"".join(path.read_bytes() for path in sorted(files.glob("*.*")))
            options = [*options, "--dir", f"{files}:/usr/local/share/bendybus"]
        image = f"localhost/{name}:{hashlib.sha256(parts).hexdigest()[:12]}"
        command: list[str | Path] = [TOOLS / "image", "--requirements", requirements]
        command += ["--wheel", wheel, "--deb", "libstdc++6", *options]
        run([*command, "--load", image, out / "image.tar"], timeout_s=600)
        return image
