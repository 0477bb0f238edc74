"""Runs a bus and an application under the tracer, and returns the walk of each operation."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from bench import processes
from tools.walk import programs

WALKS: Final = ("send", "receive", "settle", "publish", "session", "transaction", "forward")
RUNS: Final = 20
IDLE_S: Final = 60.0
_TRACING: Final = Path(__file__).parent / "tracing"
# What an operation leaves to be done later belongs to its walk: a forwarded message's settlement, a
# stream that ends, a cache that is given back after 5 s, the lapse of a session's offer. With less,
# it would be in the walk, in the next one or in the idle minute by the speed of the machine.
_TAIL_S: Final = 7.0
_WRITTEN_WITHIN_S: Final = 20.0
Function = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Trace:
    """What ran in one process from one look to the next."""

    # With the lines of each that were executed, in the order of their first calls.
    functions: dict[Function, int]
    depth: int
    hand_overs: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The way of one operation: the union of its runs, without what runs when nothing happens."""

    name: str
    # By process ("client", "front end", "partitions"), in the order of their first calls.
    functions: dict[str, tuple[Function, ...]]
    # Lines executed in these functions in one run. Others run more often on a slow machine.
    lines: float
    depth: int
    hand_overs: float

    @property
    def file_count(self) -> int:
        """Files that the walk enters; one that two processes enter counts once."""
        return len({file for each in self.functions.values() for file, _ in each})

    @property
    def function_count(self) -> int:
        """Functions that the walk enters."""
        return len({function for each in self.functions.values() for function in each})


@contextmanager
def walking(
    folder: Path, *, idle_s: float = IDLE_S, say: Callable[[str], None] = lambda _: None
) -> Iterator[Callable[[], list[Walk]]]:
    """Run a bus of two partitions in `folder`; give a function that walks all operations."""
    with _traced(folder) as (application, roles):
        tracer = _Tracer(folder, roles)
        for name in WALKS:
            # Imports, connections and caches of a first time are nobody's walk.
            for _ in range(2):
                _whole(application, name, 2)
        say(f"walk: {idle_s:g} s of idling")
        time.sleep(_TAIL_S)
        tracer.look()
        time.sleep(idle_s)
        idle = tracer.look()

        def walk(name: str) -> Walk:
            say(f"walk: {name}, {RUNS} times")
            _perform(application, f"{name} prepare {RUNS}")
            time.sleep(_TAIL_S)
            tracer.look()
            began = time.monotonic()
            _perform(application, f"{name} walk {RUNS}")
            time.sleep(_TAIL_S)
            idle_share = (time.monotonic() - began) / idle_s
            walked = walk_of(name, tracer.look(), idle, idle_share)
            _perform(application, f"{name} clean {RUNS}")
            return walked

        yield lambda: list(map(walk, WALKS))


def common(one: Walk, other: Walk) -> Walk:
    """Return what two measurements of a walk have in common.

    What a busy machine adds (a retry, a timer that rings) differs from one to the other.
    """
    return Walk(
        one.name,
        {
            role: tuple(each for each in functions if each in other.functions[role])
            for role, functions in one.functions.items()
        },
        lines=min(one.lines, other.lines),
        depth=min(one.depth, other.depth),
        hand_overs=min(one.hand_overs, other.hand_overs),
    )


def _whole(application: "subprocess.Popen[str]", name: str, count: int) -> None:
    for step in ("prepare", "walk", "clean"):
        _perform(application, f"{name} {step} {count}")


def _perform(application: "subprocess.Popen[str]", command: str) -> None:
    assert application.stdin is not None
    assert application.stdout is not None
    application.stdin.write(command + "\n")
    application.stdin.flush()
    if application.stdout.readline() != "done\n":
        raise RuntimeError(f"walk: {command!r} failed: see application.log")


@contextmanager
def _traced(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", dict[str, list[int]]]]:
    manifest, log = folder / "walks.yaml", folder / "application.log"
    manifest.write_text(programs.MANIFEST, encoding="utf-8")
    root = Path(__file__).parents[2]
    environment = {
        "BENDYBUS_WALK": str(folder),
        "PYTHONPATH": os.pathsep.join((str(_TRACING), str(root))),
        # The walks of one machine are those of another.
        "BENDYBUS_EVENT_LOOP": "asyncio",
    }
    up = [sys.executable, "-m", "bendybus.cli", "up", "-f", str(manifest), "--json"]
    up += ["--data", str(folder / "data"), "--port", "0", "--processes", "1"]
    with processes.running(up, log=folder / "up.log", env=environment) as bus:
        facts: dict[str, Any] = json.loads(processes.read_line(bus, folder / "up.log"))
        program = [sys.executable, "-m", "tools.walk.programs", facts["connection_string"]]
        with processes.running(program, log=log, env=environment) as application:
            processes.read_line(application, log)
            pids: dict[str, list[int]] = {"client": [application.pid]}
            for each in facts["processes"]:
                role = "front end" if each["role"] == "frontend" else "partitions"
                pids.setdefault(role, []).append(each["pid"])
            yield application, pids


class _Tracer:
    """Asks the traced processes for what ran in them."""

    def __init__(self, folder: Path, roles: dict[str, list[int]]) -> None:
        self._folder = folder
        self._roles = roles
        self._looks = 0

    def look(self) -> dict[str, Trace]:
        """Return by role what ran since the last look."""
        for pids in self._roles.values():
            for pid in pids:
                os.kill(pid, signal.SIGUSR2)
        found = {
            role: _joined([self._read(pid) for pid in pids]) for role, pids in self._roles.items()
        }
        self._looks += 1
        return found

    def _read(self, pid: int) -> Trace:
        path = self._folder / f"{pid}-{self._looks}.json"
        deadline = time.monotonic() + _WRITTEN_WITHIN_S
        while not path.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"walk: process {pid} did not write its trace")
            time.sleep(0.01)
        facts = json.loads(path.read_text(encoding="utf-8"))
        functions: dict[Function, int] = {}
        for file, name, lines in facts["functions"]:
            function = _short(file), name
            functions[function] = functions.get(function, 0) + lines
        return Trace(functions, facts["depth"], facts["hand_overs"])


def _short(file: str) -> str:
    # "…/frontend/bendybus/frontend/core/send.py" is "frontend/core/send.py".
    return file.rpartition("/bendybus/")[2]


def _joined(traces: Sequence[Trace]) -> Trace:
    functions: dict[Function, int] = {}
    for trace in traces:
        for function, lines in trace.functions.items():
            functions[function] = functions.get(function, 0) + lines
    return Trace(
        functions,
        max(each.depth for each in traces),
        sum(each.hand_overs for each in traces),
    )


def _without(walked: Trace, idle: Trace) -> dict[Function, int]:
    return {
        function: lines
        for function, lines in walked.functions.items()
        if function not in idle.functions
    }


def walk_of(name: str, walked: dict[str, Trace], idle: dict[str, Trace], idle_share: float) -> Walk:
    """Return the walk: the functions in `walked`, by role, that are not in `idle`.

    `idle_share`: how much of the time of `idle` the walk took.
    """
    own = {role: _without(trace, idle[role]) for role, trace in walked.items()}
    hand_overs = sum(each.hand_overs for each in walked.values())
    hand_overs_of_idling = sum(each.hand_overs for each in idle.values()) * idle_share
    return Walk(
        name,
        {role: tuple(functions) for role, functions in own.items()},
        lines=sum(chain.from_iterable(each.values() for each in own.values())) / RUNS,
        depth=max(trace.depth for trace in walked.values()),
        hand_overs=(hand_overs - hand_overs_of_idling) / RUNS,
    )
