"""`python -m tools.walk [--idle=60] [--list=WALK]`: the walks of the bus, and their budgets.

Prints each walk's files and functions by room, and beside them the lines executed in them, call
depth and hand-overs between threads; the exit code is 1 if one is beyond its budget. `--list`
prints the functions of one walk, by process, in the order of their first calls.
"""

import argparse
import functools
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from tools.walk import budgets, measure
from tools.walk.measure import Walk

_WIDTH: Final = 132


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__)
    parser.add_argument("--idle", type=float, default=measure.IDLE_S, metavar="SECONDS")
    parser.add_argument("--list", choices=measure.WALKS, metavar="WALK", dest="listed")
    given = parser.parse_args(arguments)
    # Wide enough for both tables, also where the output is a file.
    screen = Console(highlight=False, width=_WIDTH)
    say = functools.partial(print, file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bendybus-walk-") as folder:
        found = budgets.measured(Path(folder), idle_s=given.idle, say=say)
    screen.print(_table(found))
    screen.print(_rooms(found))
    for walk in found:
        if walk.name == given.listed:
            _list(walk)
    beyond = budgets.beyond(found)
    for sentence in beyond:
        screen.print(f"walk: {sentence}", soft_wrap=True)
    return 1 if beyond else 0


def _table(found: Sequence[Walk]) -> Table:
    table = Table(box=box.SIMPLE, title="Walks beyond idling, 2 partitions", title_justify="left")
    table.add_column("walk")
    columns = ("files", "functions", "client", "front end", "partitions")
    for column in (*columns, "lines", "depth", "hand-overs"):
        table.add_column(column, justify="right")
    for walk in found:
        by_process = (len(walk.functions[role]) for role in ("client", "front end", "partitions"))
        figures = [walk.file_count, walk.function_count, *by_process]
        figures += [round(walk.lines), walk.depth]
        table.add_row(walk.name, *map(str, figures), f"{walk.hand_overs:.1f}")
    return table


def _rooms(found: Sequence[Walk]) -> Table:
    table = Table(box=box.SIMPLE, title="Files/functions by folder", title_justify="left")
    table.add_column("folder", no_wrap=True)
    counted: list[tuple[Counter[str], Counter[str]]] = []
    for walk in found:
        table.add_column(walk.name, justify="right")
        functions = {each for role in walk.functions.values() for each in role}
        files = {file for file, _ in functions}
        counted.append(
            (
                Counter(file.rpartition("/")[0] for file in files),
                Counter(file.rpartition("/")[0] for file, _ in functions),
            )
        )
    for folder in sorted({folder for files, _ in counted for folder in files}):
        cells = (f"{files[folder]}/{calls[folder]}" for files, calls in counted)
        table.add_row(folder, *("" if cell == "0/0" else cell for cell in cells))
    return table


def _list(walk: Walk) -> None:
    for role, functions in walk.functions.items():
        print(f"{walk.name}, {role}:")
        for file, name in functions:
            print(f"  {file}  {name}")


if __name__ == "__main__":
    raise SystemExit(main())
