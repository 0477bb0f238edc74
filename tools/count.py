"""`make count`: files and lines of product code by room, from git; ARGS=REVISION of a commit.

Counts what people edit: what is left out is printed with its reason. Without a revision, it counts
the files of the working tree that git knows.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

_SUFFIXES: Final = (".py", ".sql", ".proto", ".toml")
_AIDS: Final = frozenset({"bench", "charts", "docs", "examples", "images", "tools"})
_LEFT_OUT: Final[dict[str, Callable[[PurePath], bool]]] = {
    "tests": lambda path: path.parts[0] == "tests",
    ", ".join(sorted(_AIDS)): lambda path: path.parts[0] in _AIDS,
    "stubs generated from .proto files": lambda path: "_pb2" in path.name,
    "synchronous client, generated from aio": lambda path: (
        path.parts[:4] == ("client", "bendybus", "client", "sync")
    ),
}


def files(revision: str) -> Iterator[tuple[PurePath, int]]:
    """Yield (path, lines) of every file of code that git knows; "": of the working tree."""
    # Of `git grep`, a line of each file: its number of lines.
    where = [revision] if revision else []
    command = ["git", "grep", "-c", "", *where, "--", *(f"*{each}" for each in _SUFFIXES)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in found.splitlines():
        path, _, number = line.removeprefix(f"{revision}:").rpartition(":")
        yield PurePath(path), int(number)


def main() -> None:
    """Print the table."""
    revision = sys.argv[1] if len(sys.argv) > 1 else ""
    numbers: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path, count in files(revision):
        reasons = (reason for reason, applies in _LEFT_OUT.items() if applies(path))
        room = next(reasons, "") or path.parts[0]
        numbers[room] += 1
        lines[room] += count
    rooms = sorted(numbers.keys() - _LEFT_OUT.keys())
    for room in rooms:
        print(f"{room:42}{numbers[room]:6} files{lines[room]:8} lines")
    total = sum(map(numbers.__getitem__, rooms)), sum(map(lines.__getitem__, rooms))
    print(f"{'all rooms':42}{total[0]:6} files{total[1]:8} lines\n")
    for reason in _LEFT_OUT:
        print(f"{f'left out: {reason}':60}{numbers[reason]:6} files{lines[reason]:8} lines")


if __name__ == "__main__":
    main()
