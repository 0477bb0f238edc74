"""The layout that makes one distribution of many rooms."""

import contextlib
import importlib
import pkgutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS: list[str] = PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]
PACKAGES = [
    f"bendybus.{path.name}"
    for room in ROOMS
    for path in sorted((ROOT / room / "bendybus").glob("*"))
    if (path / "__init__.py").exists()
]


def test_no_room_closes_the_namespace() -> None:
    closed = [
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("*/bendybus/__init__.py"), ROOT / "operator" / "__init__.py")
        if path.exists()
    ]

    assert closed == [], "an __init__.py here would hide all other rooms"


def test_the_standard_library_keeps_its_operator() -> None:
    found = importlib.import_module("operator")

    assert found.__name__ == "operator"
    assert hasattr(found, "itemgetter")


class NoSpark(Exception):
    """Raised when a module needs what only `make spark-install` installs."""


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("pyspark", "pyarrow"):
            raise NoSpark from missing
        raise


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_of_every_room_can_be_imported(package: str) -> None:
    found = importlib.import_module(package)

    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(*[NoSpark] if package == "bendybus.spark" else []):
                _import(module.name)


def test_the_wheel_holds_every_module_and_no_test(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    wheel = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        str(path.relative_to(ROOT / room))
        for room in ROOMS
        for path in (ROOT / room / "bendybus").rglob("*.py")
    }

    assert sources <= names
    assert {"bendybus/cli/py.typed", "bendybus/domain/py.typed"} <= names
    # At the top level, where Spark looks for formats.
    assert "pyspark_bendybus.py" in names
    assert not [name for name in names if name.startswith(("tests", "docs", "examples"))]
    assert f"bendybus-{PROJECT['project']['version']}.dist-info/licenses/LICENSE" in names


def _extras_of(file: str) -> list[list[str]]:
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    if file == "dev.txt":
        return [wanted for name, wanted in extras.items() if name != "spark"]
    # With these, `make bench-spark` runs `bendybus up` beside Spark.
    return [extras["spark"], extras["broker"], extras["server"]]


@pytest.mark.parametrize("file", ["dev.txt", "spark.txt"])
def test_every_dependency_is_pinned_with_a_hash(file: str) -> None:
    lines = (ROOT / "requirements" / file).read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0] for line in lines if "==" in line}
    hashed = [line for line in lines if "--hash=sha256:" in line]
    wanted = {
        requirement.replace("[", " ").replace("=", " ").replace(">", " ").split()[0].lower()
        for group in (PROJECT["project"]["dependencies"], *_extras_of(file))
        for requirement in group
    }

    assert wanted - {"bendybus"} <= pinned
    assert len(hashed) >= len(pinned)
