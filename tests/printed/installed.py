"""A wheel, installed with some extras into an environment of its own, without network.

The wheel is built and installed by pip; the distributions that the extras need, and no others, are
linked from the environment of the tests. So what a page prints runs with what the page installs.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.test_tidy import ROOT


class Environment:
    """A virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.site = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(folder)}))

    def variables(self, **more: str) -> dict[str, str]:
        """Return the variables for programs in it: nothing of the environment of the tests."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        return {**kept, "PATH": path, "PYTHONSAFEPATH": "1", **more}


def install(folder: Path, extras: Iterable[str], also: Sequence[str] = ()) -> Environment:
    """Return an environment with the wheel; `also`: distributions that a page names itself."""
    wheels = folder / "wheels"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels))
    [wheel] = wheels.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    made = Environment(folder / "venv")
    pip = [sys.executable, "-m", "pip", f"--python={made.python}", "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", "--no-compile", str(wheel))
    own = metadata.PathDistribution(next(made.site.glob("bendybus-*.dist-info")))
    named = {*also}.union(*(_needed(metadata.distribution(each), set()) for each in also))
    for name in sorted(_needed(own, {*extras}) | named):
        for part in _parts(metadata.distribution(name)):
            target = made.site / part.name
            if not target.exists():
                target.symlink_to(part)
    return made


def run(*command: str) -> None:
    """Run a command to its end."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def _needed(own: metadata.Distribution, extras: set[str]) -> set[str]:
    """Return the names of all distributions that one needs with some extras."""
    found: set[str] = set()
    left = [(own, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        distribution, wanted = left.pop()
        for text in distribution.requires or ():
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in wanted or {""}]
            marker = requirement.marker
            if marker is not None and not any(map(marker.evaluate, environments)):
                continue
            key = (requirement.name.lower(), frozenset(requirement.extras))
            if key in seen:
                continue
            seen.add(key)
            if key[0] == "bendybus":
                left.append((own, key[1]))
                continue
            found.add(requirement.name)
            left.append((metadata.distribution(requirement.name), key[1]))
    return found


def _parts(distribution: metadata.Distribution) -> Iterator[Path]:
    """Yield the files and folders of a distribution that stand in site-packages itself."""
    root = Path(str(distribution.locate_file("")))
    names = {file.parts[0] for file in distribution.files or ()}
    # Scripts lie elsewhere.
    yield from (root / name for name in sorted(names - {"..", "__pycache__"}))
