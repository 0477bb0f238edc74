"""`make chaos`: run seeds, print a line each and every violation with its history."""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos import amqp_load, running

SHOWN_MAX = 5


def main() -> int:
    """Return 1 if any rule was broken."""
    parser = argparse.ArgumentParser(prog="make chaos ARGS=…", description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="faults of each run last so long"
    )
    parser.add_argument(
        "--amqp-senders",
        type=int,
        default=amqp_load.SENDERS,
        help="connections over AMQP of each front end that await one send at a time",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        help="the source of the version before: half of what starts is of it, at random",
    )
    parser.add_argument("--keep", type=Path, help="a folder for the histories of runs that fail")
    chosen = parser.parse_args()
    # Reconnects are what this is about; they are not news.
    logging.getLogger("bendybus").setLevel(logging.CRITICAL)
    rules: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    broken = []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        with tempfile.TemporaryDirectory(prefix="bendybus-chaos-") as folder:
            report, history = running.run(
                seed, Path(folder), chosen.seconds, chosen.amqp_senders, chosen.beside
            )
        print(running.summary(report), flush=True)
        outcomes.update(report.outcomes)
        judged.update(report.judged)
        rules.update(each.rule for each in report.violations)
        if report.violations:
            broken.append(seed)
            if chosen.keep:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                history.write(chosen.keep / f"seed-{seed}.jsonl")
        for each in report.violations[:SHOWN_MAX]:
            print(f"  {each.rule}: {each.body} #{each.number} {each.text}")
            for line in history.excerpt(each.body, each.number):
                print(f"    {line}")
    print(f"{chosen.seeds} seeds, {sum(outcomes.values())} calls; broken: {broken or 'none'}")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(outcomes.items())))
    print("judged: " + ", ".join(f"{rule} {count}" for rule, count in sorted(judged.items())))
    print("violations: " + (", ".join(f"{r} {n}" for r, n in rules.items()) or "none"))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
