"""`make bench`: runs every section, prints the tables, writes the figures as JSON."""

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from bench import marks, report
from bench.measuring import SECTIONS
from bench.row import Row

RESULTS: Final = Path(__file__).with_name("results")
# A section that hangs is ended; one that works takes half of this at most on any machine.
SECTION_S: Final = 900.0
STOP_S: Final = 20.0
WIDTH: Final = 150

screen = Console(highlight=False)


def main() -> int:
    """Measure; 1 if a section broke. A mark that is not met is a figure, not an error."""
    chosen = _arguments()
    console = screen if screen.is_terminal else Console(highlight=False, width=WIDTH)
    began, moment = time.monotonic(), datetime.now(UTC)
    sections: dict[str, list[Row]] = {name: [] for name in chosen.only or SECTIONS}
    options = ["--quick"] if chosen.quick else []
    options += [f"--amqp-seconds={chosen.amqp_seconds}"] if chosen.amqp_seconds else []
    broken = {name: why for name, rows in sections.items() if (why := _run(name, options, rows))}
    rows = list(chain.from_iterable(sections.values()))
    found = marks.judge(rows)
    console.print(report.figures(rows))
    console.print(report.verdicts(found))
    machine = _machine(moment)
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()))
    path = chosen.json or RESULTS / f"{moment:%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "machine": machine,
        "quick": chosen.quick,
        "rows": [
            {"section": name, **row.to_json()} for name, rows in sections.items() for row in rows
        ],
        "marks": [verdict.to_json() for verdict in found],
        "broken": list(broken),
    }
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    console.print(f"Took {time.monotonic() - began:.0f} s. Figures: {os.path.relpath(path)}")
    for name, why in broken.items():
        console.print(f"[red]Section {name} {why}.[/]")
    return 1 if broken else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less work, once: under a minute")
    parser.add_argument("--json", type=Path, help="where the figures go (bench/results/…)")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="some sections only")
    parser.add_argument(
        "--amqp-seconds", type=float, help="how long amqp sends, and receives (120; --quick: 8)"
    )
    return parser.parse_args()


def _run(name: str, options: Sequence[str], rows: list[Row], limit_s: float = SECTION_S) -> str:
    """Run a section in a process of its own and take its rows. Why it broke; "": it did not."""
    command = [sys.executable, "-m", "bench.measuring", name, *options]
    screen.print(f"bench: {name}")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    late = threading.Event()

    def end() -> None:
        late.set()
        process.terminate()

    watchdog = threading.Timer(limit_s, end)
    watchdog.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            row = Row.from_json(json.loads(line))
            rows.append(row)
            figure = report.figure_of(row) if row.values else row.note
            screen.print(f"  {escape(row.title)}: {escape(figure)}")
        code = process.wait(STOP_S)
        if late.is_set():
            return f"was ended after {limit_s:.0f} s: it has fewer figures than it should"
        return f"broke (exit code {code}); its error is above" if code else ""
    finally:
        watchdog.cancel()
        if process.stdout is not None:
            process.stdout.close()
        if process.poll() is None:
            # Its own way out ends what it started.
            process.terminate()
            process.wait(STOP_S)


def _machine(moment: datetime) -> dict[str, Any]:
    return {
        "measured": f"{moment:%Y-%m-%d}",
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()),
        "Linux": platform.release(),
        "Python": platform.python_version(),
    }


def _processor(lines: Sequence[str]) -> str:
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
