"""`make mutants`: break the code on purpose; a test with the requirement's number must notice.

tests/requirements.toml names breaks beside each requirement: a file, a text in it and the text to
put there instead, at the rule and at the seams where it is used. Each break is applied to a copy
of the project and the tests with that number are run against the copy: one must fail. What no
test notices is a survivor, and is listed. `stale` shows breaks whose text the code no longer has;
tests/test_mutants.py demands that there are none.
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
from pathlib import Path
from typing import Final

from tests import conformance

ROOT: Final = Path(__file__).parents[1]
# Rooms whose code is on the path of the copy, before the installed one.
ROOMS: Final = (
    "domain", "protos", "crds", "partition_server", "frontend", "operator", "client", "cli",
    "spark",
)  # fmt: skip
_LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "results"
)
# A break may make tests wait for ever: that is noticed, too.
TEST_S_MAX: Final = 240.0
# Tests by their cost: those without real processes come first, and mostly suffice.
STAGES: Final = ("not integration", "integration")
_FAILED, _NONE_CHOSEN = 1, 5


@dataclass(frozen=True, slots=True)
class Break:
    """One small change of the code that a requirement does not survive."""

    number: str
    file: str
    old: str
    new: str

    @property
    def title(self) -> str:
        """A line for people."""
        line = next((each for each in self.old.splitlines() if each.strip()), "")
        return f"{self.number} {self.file}: {line.strip()[:70]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests said of a break. `killed`: a test failed, as it must."""

    of: Break
    killed: bool
    text: str
    took_s: float


def read(path: Path = ROOT / "tests" / "requirements.toml") -> list[Break]:
    """Return all breaks, in order."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    found.pop("later", None)
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


def apply(each: Break, root: Path) -> str:
    """Break the code in a copy; return the text that the file had."""
    path = root / each.file
    before = path.read_text(encoding="utf-8")
    assert before.count(each.old) == 1, each.title
    path.write_text(before.replace(each.old, each.new), encoding="utf-8")
    return before


def run(each: Break, root: Path, proofs: Sequence[str]) -> Outcome:
    """Apply a break to a copy, run the tests that must notice it, and undo it."""
    began = time.monotonic()
    before = apply(each, root)
    try:
        killed, text = _noticed(root, proofs)
    finally:
        (root / each.file).write_text(before, encoding="utf-8")
    return Outcome(each, killed, text, time.monotonic() - began)


def _noticed(root: Path, proofs: Sequence[str]) -> tuple[bool, str]:
    """Run tests, cheap ones first, until one fails."""
    ran = 0
    for stage in STAGES:
        code, text = _pytest(root, [*proofs, "-m", stage])
        if code is None:
            return True, f"tests did not end within {TEST_S_MAX:.0f} s"
        if code == _FAILED:
            failed = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return True, (failed or ["a test failed"])[0][:150]
        if code not in (0, _NONE_CHOSEN):
            return False, f"pytest broke (exit code {code}): {text[-300:]}"
        ran += code == 0
    return False, "SURVIVED" if ran else "SURVIVED: no test ran"


def _pytest(root: Path, arguments: Sequence[str]) -> tuple[int | None, str]:
    path = os.pathsep.join(str(root / room) for room in ROOMS)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments],
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
    proofs = conformance.read().proofs
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
                    done.put(run(each, copy, proofs.get(each.number, ())))
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


def main() -> int:
    """Return 1 if a break survived or no longer fits."""
    parser = argparse.ArgumentParser(prog="make mutants ARGS=…", description=__doc__)
    parser.add_argument("--only", action="append", help="requirements, by number")
    parser.add_argument("--workers", type=int, default=2, help="how many breaks at a time")
    chosen = parser.parse_args()
    breaks = [each for each in read() if not chosen.only or each.number in chosen.only]
    wrong = stale(breaks)
    for sentence in wrong:
        print(f"stale: {sentence}")
    if wrong:
        return 1
    survivors = []
    for outcome in run_all(breaks, chosen.workers):
        word = "killed  " if outcome.killed else "SURVIVED"
        print(
            f"{word} {outcome.took_s:5.1f} s  {outcome.of.title}\n      {outcome.text}", flush=True
        )
        if not outcome.killed:
            survivors.append(outcome.of)
    print(f"{len(breaks)} breaks, {len(survivors)} survivors")
    for each in survivors:
        print(f"  {each.title}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
