"""`make mutants`: break the code on purpose; a test must notice.

tests/requirements.toml names breaks beside each requirement: a file, a text in it and the text to
put there instead, at the rule and at the seams where it is used. Each break is applied to a copy
of the project and the tests with that number are run against the copy: one must fail. What no
test notices is a survivor, and is listed. `stale` shows breaks whose text the code no longer has;
tests/test_mutants.py demands that there are none.

Then a sample of what mechanical_breaks.py finds is broken, which the tests of the room must notice.
Tests are run against the unbroken copy before they judge a break: what fails there has killed
nothing, and neither has what does not end in time.
"""

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tests import conformance, mechanical_breaks

ROOT: Final = Path(__file__).parents[1]
# Rooms whose code is on the path of the copy, before the installed one.
ROOMS: Final = (
    "domain", "protos", "amqp", "crds", "partition_server", "frontend", "operator", "client",
    "cli", "spark",
)  # fmt: skip
_LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "results"
)
# A break may make tests wait for ever.
TEST_S_MAX: Final = 240.0
# Tests by their cost: those without real processes come first, and mostly suffice.
STAGES: Final = ("not integration", "integration")
# Last come those with real Spark, in the environment that has it.
SPARK_TESTS: Final = "tests/spark/live/"
# They need a cluster, which is not here.
E2E_TESTS: Final = "tests/e2e/"
SPARK_PYTHON: Final = ROOT / ".venv-spark" / "bin" / "python"
MECHANICAL: Final = "mechanical"
SAMPLE: Final = 40
_FAILED, _NONE_CHOSEN = 1, 5
# What pytest is asked to run, in turn.
Stages = Sequence[Sequence[str]]


class Verdict(Enum):
    """What the tests say of a break."""

    KILLED = "killed  "
    SURVIVED = "SURVIVED"
    # They did not end, or pytest broke.
    UNKNOWN = "UNKNOWN "
    # They fail without the break, too.
    ERROR = "ERROR   "


@dataclass(frozen=True, slots=True)
class Break:
    """One small change of the code. `at`: where, for what no requirement names."""

    number: str
    file: str
    old: str
    new: str
    at: int | None = None

    @property
    def title(self) -> str:
        """A line for people."""
        if self.at is not None:
            old, new = (" ".join(each.split())[:60] for each in (self.old, self.new))
            return f"{self.number} {self.file} at {self.at}: {old}  becomes  {new}"
        line = next((each for each in self.old.splitlines() if each.strip()), "")
        return f"{self.number} {self.file}: {line.strip()[:70]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests said of a break, and in which sentence."""

    of: Break
    verdict: Verdict
    text: str
    took_s: float


def read(path: Path = ROOT / "tests" / "requirements.toml") -> list[Break]:
    """Return all breaks, in order."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Break(number, each["file"], each["old"], each["new"])
        for number, entry in found.items()
        for each in entry.get("breaks", ())
    ]


def stale(breaks: Sequence[Break], root: Path = ROOT) -> list[str]:
    """Return a sentence for each break that does not fit the code in exactly one place."""
    wrong = []
    for each in breaks:
        path = root / each.file
        count = path.read_text(encoding="utf-8").count(each.old) if path.exists() else 0
        if count != 1:
            wrong.append(f"{each.title}: its text is there {count} times; it must be there once")
    return wrong


def mechanical(count: int, seed: int) -> list[Break]:
    """Return a sample of the breaks that a program finds."""
    found = mechanical_breaks.sample(count, seed)
    return [Break(MECHANICAL, each.file, each.old, each.new, each.at) for each in found]


def apply(each: Break, root: Path) -> str:
    """Break the code in a copy; return the text that the file had."""
    path = root / each.file
    before = path.read_text(encoding="utf-8")
    at = before.find(each.old, each.at)
    assert at >= 0, each.title
    assert at == each.at if each.at is not None else before.count(each.old) == 1, each.title
    path.write_text(before[:at] + each.new + before[at + len(each.old) :], encoding="utf-8")
    return before


class Unbroken:
    """What tests say of the code as it is: run once, before they judge the first break."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # What pytest was asked to run → why it cannot judge, None if it can.
        self._known: dict[tuple[str, ...], str | None] = {}

    def fault(self, root: Path, arguments: Sequence[str]) -> str | None:
        """Return why tests cannot judge a break, None if they pass; `root` is unbroken."""
        key = tuple(arguments)
        with self._lock:
            if key in self._known:
                return self._known[key]
        verdict, text = _judged(root, arguments)
        fault = None if verdict is Verdict.SURVIVED else f"without the break: {text}"
        with self._lock:
            return self._known.setdefault(key, fault)


def stages_of(each: Break, proofs: Sequence[str], root: Path = ROOT) -> Stages:
    """Return what pytest is asked to run for a break, in turn."""
    if each.number == MECHANICAL:
        return mechanical_breaks.stages_of(each.file, root)
    with_spark = [proof for proof in proofs if proof.startswith(SPARK_TESTS)]
    others = [proof for proof in proofs if not proof.startswith((SPARK_TESTS, E2E_TESTS))]
    stages = [[*others, "-m", stage] for stage in STAGES] if others else []
    return [*stages, with_spark] if with_spark else stages


def run(each: Break, root: Path, stages: Stages, unbroken: Unbroken) -> Outcome:
    """Run the tests that must notice a break against a copy, stage by stage, until one fails."""
    began, verdict, text = time.monotonic(), Verdict.SURVIVED, "no test failed"
    for arguments in stages:
        fault = unbroken.fault(root, arguments)
        if fault is not None:
            verdict, text = Verdict.ERROR, fault
            break
        before = apply(each, root)
        try:
            verdict, text = _judged(root, arguments)
        finally:
            (root / each.file).write_text(before, encoding="utf-8")
        if verdict is not Verdict.SURVIVED:
            break
    return Outcome(each, verdict, text, time.monotonic() - began)


def _judged(root: Path, arguments: Sequence[str]) -> tuple[Verdict, str]:
    """Run tests until one fails."""
    code, text = _pytest(root, arguments)
    if code is None:
        return Verdict.UNKNOWN, f"tests did not end within {TEST_S_MAX:.0f} s"
    if code == _FAILED:
        failed = [
            line for line in text.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))
        ]
        return Verdict.KILLED, (failed or ["a test failed"])[0][:150]
    if code not in (0, _NONE_CHOSEN):
        # A break can keep a module from being imported: its tests are not even collected.
        broken = [line for line in text.splitlines() if line.startswith("ERROR ")]
        if broken:
            return Verdict.KILLED, broken[0][:150]
        return Verdict.UNKNOWN, f"pytest broke (exit code {code}): {text[-300:]}"
    return Verdict.SURVIVED, "no test failed"


def _pytest(root: Path, arguments: Sequence[str]) -> tuple[int | None, str]:
    path = os.pathsep.join(str(root / room) for room in ROOMS)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    python = SPARK_PYTHON if arguments[0].startswith(SPARK_TESTS) else sys.executable
    process = subprocess.Popen(
        [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text = process.communicate(timeout=TEST_S_MAX)[0]
        return process.returncode, text
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        if process.poll() is None:
            # With all that its tests started.
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """Give a copy of the project without what is installed, generated or remembered."""
    with tempfile.TemporaryDirectory(prefix="bendybus-mutants-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(root, copy, ignore=_LEFT_OUT)
        yield copy


def run_all(breaks: Sequence[Break], workers: int) -> Iterator[Outcome]:
    """Yield the outcome of each break as it comes; each worker has a copy of its own."""
    proofs, unbroken = conformance.read().proofs, Unbroken()
    waiting: queue.SimpleQueue[Break] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
    for each in breaks:
        waiting.put(each)

    def work() -> None:
        try:
            with copy_of(ROOT) as copy:
                while True:
                    try:
                        each = waiting.get_nowait()
                    except queue.Empty:
                        return
                    stages = stages_of(each, proofs.get(each.number, ()))
                    done.put(run(each, copy, stages, unbroken))
        except BaseException as error:
            done.put(error)
            raise

    threads = [threading.Thread(target=work, name=f"mutants-{n}") for n in range(workers)]
    for thread in threads:
        thread.start()
    for _ in breaks:
        outcome = done.get()
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome
    for thread in threads:
        thread.join()


def is_wrong(outcome: Outcome, *, strict: bool = False) -> bool:
    """Whether a break fails the run.

    What a requirement names must be killed. Of mechanical breaks, survivors are listed as work to
    do, and fail the run only if it is strict: many of them change nothing that anybody could see.
    """
    allowed = {Verdict.KILLED}
    if outcome.of.number == MECHANICAL:
        allowed |= {Verdict.UNKNOWN} if strict else {Verdict.UNKNOWN, Verdict.SURVIVED}
    return outcome.verdict not in allowed


def _chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants ARGS=…", description=__doc__)
    parser.add_argument("--only", action="append", help="requirements, by number; no sample")
    parser.add_argument("--workers", type=int, default=2, help="how many breaks at a time")
    parser.add_argument(
        "--sample", type=int, help=f"how many mechanical breaks (default: {SAMPLE}, with --only 0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="which of them (default: 0)")
    parser.add_argument(
        "--mechanical", action="store_true", help="mechanical breaks alone, no requirements"
    )
    parser.add_argument("--strict", action="store_true", help="mechanical survivors fail the run")
    chosen = parser.parse_args()
    if chosen.sample is None:
        chosen.sample = 0 if chosen.only else SAMPLE
    return chosen


def main() -> int:
    """Return 1 if a break no longer fits, or one `is_wrong`."""
    chosen = _chosen()
    named = [] if chosen.mechanical else read()
    named = [each for each in named if not chosen.only or each.number in chosen.only]
    wrong = stale(named)
    for sentence in wrong:
        print(f"stale: {sentence}")
    if wrong:
        return 1
    if chosen.sample:
        print(f"mechanical breaks: --sample {chosen.sample} --seed {chosen.seed}", flush=True)
    outcomes = []
    for outcome in run_all([*named, *mechanical(chosen.sample, chosen.seed)], chosen.workers):
        outcomes.append(outcome)
        print(f"{outcome.verdict.value} {outcome.took_s:5.1f} s  {outcome.of.title}")
        print(f"      {outcome.text}", flush=True)
    return _summary(outcomes, strict=chosen.strict)


def _summary(outcomes: Sequence[Outcome], *, strict: bool) -> int:
    """Print how many breaks had which outcome, and what is to be looked at."""
    counts = [
        f"{sum(each.verdict is verdict for each in outcomes)} {verdict.name.lower()}"
        for verdict in Verdict
    ]
    print(f"{len(outcomes)} breaks: {', '.join(counts)}")
    for verdict in (Verdict.SURVIVED, Verdict.UNKNOWN, Verdict.ERROR):
        for each in outcomes:
            if each.verdict is verdict:
                print(f"  {verdict.name.lower()}: {each.of.title}")
    return 1 if any(is_wrong(each, strict=strict) for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
