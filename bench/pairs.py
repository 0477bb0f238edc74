"""`python -m bench.pairs ../other`: this checkout beside another one, in alternating runs.

The machine's speed drifts more within an hour than most changes are worth, so a change is judged by
the median of the ratios of runs that follow each other, and by the least of each side, since other
programs of the machine only ever add to it. Which of the two begins changes with each pair. Both
checkouts need their own virtual environment (`make install`).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.measuring import SECTIONS
from bench.row import Row

HERE: Final = Path(__file__).parent.parent
# One run of all sections takes some 10 minutes.
RUN_S: Final = 900.0
WIDTH: Final = 120

Rows = Mapping[tuple[str, str], Row]


def main() -> int:
    """Run the pairs and print the ratios after each."""
    chosen = _arguments()
    other: Path = chosen.other.resolve()
    if not (other / ".venv/bin/python").exists():
        print(f"{chosen.other} has no .venv: run make install there.", file=sys.stderr)
        return 2
    pairs: list[tuple[Rows, Rows]] = []
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=WIDTH)
    for number in range(chosen.pairs):
        order = (other, HERE) if number % 2 == 0 else (HERE, other)
        rows = {checkout: measure(checkout, chosen.only, chosen.quick) for checkout in order}
        pairs.append((rows[other], rows[HERE]))
        console.print(table(pairs))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--pairs", type=int, default=7, help="how many (default: 7)")
    parser.add_argument(
        "--only",
        action="append",
        choices=SECTIONS,
        help="sections to run (default: bendybus)",
    )
    parser.add_argument("--quick", action="store_true", help="less work in each run")
    return parser.parse_args()


def measure(checkout: Path, sections: Iterable[str] | None, quick: bool) -> Rows:
    """Return the rows of one run of a checkout's own bench."""
    with tempfile.TemporaryDirectory(prefix="bendybus-pairs-") as folder:
        path = Path(folder) / "figures.json"
        command = [str(checkout / ".venv/bin/python"), "-m", "bench", f"--json={path}"]
        command += ["--quick"] if quick else []
        command += [f"--only={section}" for section in sections or ["bendybus"]]
        subprocess.run(command, cwd=checkout, check=True, timeout=RUN_S, stdout=subprocess.DEVNULL)
        found = json.loads(path.read_text(encoding="utf-8"))["rows"]
    rows = [Row(**{name: row[name] for name in Row.__slots__ if name in row}) for row in found]
    return {(row.system, row.what): row for row in rows if row.values}


def table(pairs: list[tuple[Rows, Rows]]) -> Table:
    """Return, for each row that both checkouts have, medians of both and of the ratios."""
    made = Table(title=f"CPU µs a message, {len(pairs)} pairs", title_justify="left")
    for column in ("what", "other", "this", "CPU ratio (range)", "of least", "by process", "rate"):
        made.add_column(column, justify="left" if column == "what" else "right")
    common = set.intersection(*(set(rows) for pair in pairs for rows in pair))
    for key in (key for key in pairs[0][1] if key in common):
        rows = [(other[key], this[key]) for other, this in pairs]
        cpus = [(total(other), total(this)) for other, this in rows]
        rates = [this.median / other.median for other, this in rows if other.median]
        rate = f"{statistics.median(rates):.2f}" if rates else "–"
        if not all(other and this for other, this in cpus):
            made.add_row(pairs[0][1][key].title, "–", "–", "–", "–", "–", rate)
            continue
        ratios = [this / other for other, this in cpus]
        made.add_row(
            pairs[0][1][key].title,
            f"{statistics.median(other for other, _ in cpus):.1f}",
            f"{statistics.median(this for _, this in cpus):.1f}",
            f"{statistics.median(ratios):.3f} ({min(ratios):.2f}–{max(ratios):.2f})",
            f"{min(this for _, this in cpus) / min(other for other, _ in cpus):.3f}",
            by_process(rows),
            rate,
        )
    return made


def by_process(rows: list[tuple[Row, Row]]) -> str:
    """Return the median ratio of each role's processor time."""
    found = {}
    for role in rows[0][1].cpu_us:
        pairs = [(sum(other.cpu_us.get(role, [])), sum(this.cpu_us[role])) for other, this in rows]
        if all(before for before, _ in pairs):
            found[role] = statistics.median(after / before for before, after in pairs)
    return ", ".join(f"{role} {ratio:.2f}" for role, ratio in found.items())


def total(row: Row) -> float:
    """Return the processor time of all processes for one message, in microseconds."""
    return sum(usage for usages in row.cpu_us.values() for usage in usages)


if __name__ == "__main__":
    sys.exit(main())
