"""`make sdk-restarts`: programs on the SDKs for Python and .NET while servers restart gracefully.

Front ends are replaced, as a Deployment does it, and partitions restart, as a StatefulSet does it:
which one and when comes from a seed. The programs must see no error, and nothing may be lost.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from azure.servicebus import ServiceBusClient as SdkClient

from tests import sdk_leftovers
from tests.sdks.dotnet_driver import Driver
from tests.sdks.loops import DotnetLoops, Loops, PythonLoops
from tests.sdks.replaced_bus import ReplacedBus

KINDS: Final = ("front end", "partition")
PARTITIONS: Final = 3
BEFORE_S: Final = 5.0
AFTER_S: Final = 5.0
# Between two restarts, in seconds.
PAUSES_S: Final = (3.0, 8.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run: the servers that restart, when, and the time that each may take to stop, in seconds.

    `waits_s`: of receives from queues that have no messages.
    """

    seed: int
    seconds: float
    kinds: Sequence[str] = KINDS
    drain_s: float = 5.0
    waits_s: Sequence[float] = (5.0,)


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a run. `restarts`: by kind. `errors`, `lost`: by program."""

    restarts: Counter[str] = field(default_factory=Counter)
    done: dict[str, Counter[str]] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    lost: dict[str, set[str]] = field(default_factory=dict)


def run(folder: Path, plan: Plan) -> Found:
    """Restart servers by a plan under both programs."""
    found = Found()
    with contextlib.ExitStack() as stack:
        drain = f"--drain-s={plan.drain_s:g}"
        bus = ReplacedBus(folder, partitions=PARTITIONS, front_end_options=(drain,))
        stack.callback(bus.end)
        programs = stack.enter_context(_started(bus, plan.waits_s))
        try:
            _restart(bus, plan, found.restarts)
        finally:
            for each in programs.values():
                each.end()
        for name, each in programs.items():
            found.done[name], found.errors[name] = each.done, each.errors
            found.lost[name] = each.lost()
    return found


@contextlib.contextmanager
def _started(bus: ReplacedBus, waits_s: Sequence[float]) -> Iterator[Mapping[str, Loops]]:
    empty = {f"empty-{number}": wait_s for number, wait_s in enumerate(waits_s)}
    bus.create_queues(["load-dotnet", "later-dotnet", "load-python", "later-python", *empty])
    driver = Driver()
    try:
        with SdkClient.from_connection_string(bus.connection_string) as client:
            dotnet = DotnetLoops(
                driver, "load-dotnet", "later-dotnet", connection=bus.connection_string
            )
            python = PythonLoops(client, "load-python", "later-python", empty)
            programs: dict[str, Loops] = {".NET": dotnet, "Python": python}
            for each in programs.values():
                each.start()
            yield programs
    finally:
        driver.end()
        sdk_leftovers.collect()


def _restart(bus: ReplacedBus, plan: Plan, restarts: Counter[str]) -> None:
    chance = random.Random(plan.seed)
    time.sleep(BEFORE_S)
    ends = time.monotonic() + plan.seconds
    while time.monotonic() < ends:
        kind = chance.choice(plan.kinds)
        if kind == "partition":
            bus.restart_partition(chance.randrange(PARTITIONS))
        else:
            bus.replace_front_end()
        restarts[kind] += 1
        time.sleep(chance.uniform(*PAUSES_S))
    time.sleep(AFTER_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one seed after the other; return 1 if a program saw an error, or lost something."""
    parser = argparse.ArgumentParser(prog="make sdk-restarts ARGS=…", allow_abbrev=False)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long each takes")
    parser.add_argument("--only", choices=KINDS, action="append", help="what restarts")
    parser.add_argument("--drain-s", type=float, default=5.0, help="of the front ends")
    parser.add_argument(
        "--wait-s", type=float, action="append", help="of receives without messages; default: 5"
    )
    options = parser.parse_args(arguments)
    wrong = 0
    for seed in range(options.first, options.first + options.seeds):
        waits_s = tuple(options.wait_s or (5.0,))
        plan = Plan(seed, options.seconds, options.only or KINDS, options.drain_s, waits_s)
        with tempfile.TemporaryDirectory(prefix="bendybus-sdk-restarts-") as folder:
            wrong += _told(seed, run(Path(folder), plan))
    print(f"sdk-restarts: {wrong} wrong" if wrong else "sdk-restarts: no error, nothing lost")
    return 1 if wrong else 0


def _told(seed: int, found: Found) -> int:
    """Print what a seed found; return how much of it is wrong."""
    counted = ", ".join(f"{count} × {kind}" for kind, count in found.restarts.items())
    print(f"seed {seed}: restarted {counted}")
    for name, done in found.done.items():
        counted = ", ".join(f"{operation} {count}" for operation, count in done.items())
        print(
            f"  {name}: {counted}; {len(found.errors[name])} errors, {len(found.lost[name])} lost"
        )
        for line in found.errors[name][:10]:
            print(f"    {line[:200]}")
    return sum(map(len, (*found.errors.values(), *found.lost.values())))


if __name__ == "__main__":
    sys.exit(main())
