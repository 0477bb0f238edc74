"""The habits of this code that a program can check."""

import ast
import fnmatch
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Of the product: a concept stays in one file. Tests are many and short.
FILE_LINES_MAX = 650
TEST_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# Put together from pieces, so that this file does not find itself.
LEFTOVER = re.compile(r"\b(" + "FIX" + "ME|TO" + "DO|XX" + r"X)\b")
# The home of the image's user is the same everywhere.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?!home/app\b)(" + "work|root|home|opt|mnt" + r")/[\w.-]+")
REGISTRY = re.compile(
    r"\b[\w.-]*("
    + "|".join(("pypi" + r"\.", "python" + "hosted", "npm" + "js", "arti" + "factory"))
    + r")[\w./-]*"
)
# Until an index has the package: it is installed from its folder, or from a wheel.
FROM_AN_INDEX = re.compile(r"pip install ['\"]?bendy" + r"bus\b(?!-)")
# A reader sees these first: a new file here is a decision, and no output of a run belongs here.
ROOT_FILES = {
    ".dockerignore", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md",
    "LICENSE", "Makefile", "README.md", "pyproject.toml",
}  # fmt: skip
TEXT = (".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".txt", ".in", ".proto", ".sql", ".sh", "")


def tracked() -> list[Path]:
    """Return the files of the project; without git, what .gitignore does not name."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True, timeout=30,
        ).stdout.splitlines()  # fmt: skip
        found = [ROOT / name for name in listed]
    except (OSError, subprocess.CalledProcessError):
        found = not_ignored(ROOT)
    return sorted(path for path in found if path.is_file())


def not_ignored(root: Path) -> list[Path]:
    """Return what is below `root` and is not named by the patterns of its .gitignore."""
    patterns = [".git", ".git/", *(root / ".gitignore").read_text(encoding="utf-8").split()]
    found = []
    for folder, folders, files in os.walk(root):
        here = Path(folder).relative_to(root)

        def ignored(name: str, end: str, here: Path = here) -> bool:
            # A pattern that ends with / is about folders only.
            names = (name + end, str(here / name) + end)
            return any(fnmatch.fnmatch(each, pattern) for pattern in patterns for each in names)

        folders[:] = [name for name in folders if not (ignored(name, "/") or ignored(name, ""))]
        found += [Path(folder, name) for name in files if not ignored(name, "")]
    return found


def sources() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and "_pb2" not in path.name]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True, slots=True)
class Outline:
    """What the tests ask of a module: parsed once, its tree is not kept."""

    docstring: str
    functions: list[tuple[str, int]]
    imports: list[tuple[int, int, list[str]]]


@cache
def outline(path: Path) -> Outline:
    """Return functions as (place, lines), imports as (line, level, modules)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = Outline(ast.get_docstring(tree) or "", [], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{name_of(path)}:{node.lineno} {node.name}"
            found.functions.append((place, (node.end_lineno or 0) - node.lineno + 1))
        elif isinstance(node, ast.Import):
            found.imports.append((node.lineno, 0, [alias.name for alias in node.names]))
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module] if node.module else []
            found.imports.append((node.lineno, node.level, modules))
    return found


def test_the_root_holds_what_a_reader_looks_for_there() -> None:
    assert {path.name for path in tracked() if path.parent == ROOT} == ROOT_FILES


def test_no_file_is_longer_than_a_reader_bears() -> None:
    long = {
        name_of(path): lines
        for path in sources()
        if (lines := len(path.read_text(encoding="utf-8").splitlines()))
        > (TEST_LINES_MAX if name_of(path).startswith("tests/") else FILE_LINES_MAX)
    }

    assert long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        place
        for path in sources()
        for place, lines in outline(path).functions
        if lines > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_every_module_says_what_it_is() -> None:
    silent = [name_of(path) for path in sources() if not outline(path).docstring]

    assert silent == []


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{name_of(path)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFTOVER.search(line)
    ]

    assert left == []


def test_without_git_what_it_would_ignore_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(".hypothesis/\n*.db\nbench/results/\n.venv-*/\nbuild/\n")
    for name in (
        "a.py", "results/b.py", "x.db", ".hypothesis/c", "bench/results/d", ".venv-1/e", ".git/f",
        "build/g", "images/build",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    found = sorted(str(path.relative_to(tmp_path)) for path in not_ignored(tmp_path))

    assert found == [".gitignore", "a.py", "images/build", "results/b.py"]


def test_rooms_import_absolutely() -> None:
    relative = [
        f"{name_of(path)}:{line}"
        for path in sources()
        for line, level, _ in outline(path).imports
        if level
    ]

    assert relative == []


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, REGISTRY, FROM_AN_INDEX], ids=["path", "registry", "index"]
)
def test_no_file_knows_a_machine_or_a_registry(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name_of(path)}:{number}: {match.group()}"
        for path in tracked()
        if path.suffix in TEXT and path.name != "LICENSE"
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
        )
        if (match := pattern.search(line))
    ]

    assert found == []
