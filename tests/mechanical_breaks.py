"""Breaks that a program finds: small changes of the rules that some test should notice.

`every` lists them: a conjunct or disjunct that is dropped, `>` for `>=` and `<` for `<=` and the
reverse, a factor that is dropped. Only what functions compute is broken: constants have the table
of limits, and assertions and texts of errors are no rules. `sample` takes some of them by a seed.

equivalent_mutants.toml names those that change nothing that anybody could see, with the reason.
"""

import ast
import itertools
import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
# Room → where its rules are.
RULES: Final = {
    "domain": ("domain/bendybus/domain/**/*.py",),
    "partition_server": (
        "partition_server/bendybus/partition_server/rules/*.py",
        "partition_server/bendybus/partition_server/state/*.py",
        "partition_server/bendybus/partition_server/broker/partition.py",
    ),
    "frontend": ("frontend/bendybus/frontend/core/*.py",),
}
# Room → folders of tests that use its rules, in the order in which they are run.
_FOLDERS: Final = {
    "domain": ("domain", "partition_server", "frontend"),
    "partition_server": ("partition_server", "simulation"),
    "frontend": ("frontend", "simulation"),
}
_OTHER: Final = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
_COMPARISON: Final = re.compile(r"[<>]=?")


class Cut(NamedTuple):
    """A change of one place of a file. `at`: where `old` begins."""

    file: str
    at: int
    old: str
    new: str


def every(root: Path = ROOT) -> list[Cut]:
    """Return all breaks, file by file."""
    files = {path for globs in RULES.values() for each in globs for path in root.glob(each)}
    return [
        Cut(path.relative_to(root).as_posix(), *change)
        for path in sorted(files)
        for change in of(path.read_text(encoding="utf-8"))
    ]


def sample(count: int, seed: int, root: Path = ROOT) -> list[Cut]:
    """Return some breaks, the same for the same seed and code, without equivalent ones."""
    known = equivalents()
    found = [each for each in every(root) if (each.file, line_of(each, root)) not in known]
    return random.Random(seed).sample(found, min(count, len(found)))


def equivalents(
    path: Path = ROOT / "tests" / "equivalent_mutants.toml",
) -> dict[tuple[str, str], str]:
    """Return (file, broken line) → why nobody can see the difference."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", ())
    return {(each["file"], each["line"]): each["because"] for each in entries}


def line_of(cut: Cut, root: Path = ROOT) -> str:
    """Return the first changed line as the break leaves it."""
    text = (root / cut.file).read_text(encoding="utf-8")
    broken = text[: cut.at] + cut.new + text[cut.at + len(cut.old) :]
    start = broken.rfind("\n", 0, cut.at) + 1
    return broken[start:].partition("\n")[0].strip()


def stages_of(file: str, root: Path = ROOT) -> list[list[str]]:
    """Return what pytest is asked to run, in order: what mostly suffices comes first.

    The tests named after the module, those of its room, those of what uses the room; none that
    starts processes.
    """
    room, module = file.partition("/")[0], Path(file).stem
    own = sorted(
        path.relative_to(root).as_posix()
        for path in (root / "tests" / room).rglob(f"test_{module}*.py")
    )
    stages = [own] if own else []
    stages += [[f"tests/{folder}"] for folder in _FOLDERS[room]]
    return [[*each, "-m", "not integration"] for each in stages]


def of(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (where, old, new) for a module, in the order of its text."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def place(line: int, column: int) -> int:
        # Columns are bytes of UTF-8.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            place(node.lineno, node.col_offset),
            place(node.end_lineno, node.end_col_offset),
        )

    found: list[tuple[int, str, str]] = []
    for node in _expressions(ast.parse(text), inside=False):
        start, end = span(node)
        for new in _instead(node, [text[slice(*span(each))] for each in _parts(node)]):
            found.append((start, text[start:end], new))
        if isinstance(node, ast.Compare):
            ends = [span(each) for each in (node.left, *node.comparators)]
            for (_, before), (after, _) in itertools.pairwise(ends):
                sign = _COMPARISON.search(text, before, after)
                if sign is not None:
                    found.append((sign.start(), sign[0], _OTHER[sign[0]]))
    yield from sorted(found)


def _expressions(node: ast.AST, *, inside: bool) -> Iterator[ast.expr]:
    """Yield the expressions of functions that are rules."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr):
        return
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if inside and isinstance(node, ast.expr):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _expressions(child, inside=inside)


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return (node.left, node.right)
    return ()


def _instead(node: ast.expr, parts: Sequence[str]) -> Iterator[str]:
    """Yield the expression without each of its parts."""
    word = " and " if isinstance(getattr(node, "op", None), ast.And) else " or "
    for dropped in range(len(parts)):
        rest = [f"({part})" for number, part in enumerate(parts) if number != dropped]
        yield word.join(rest)
