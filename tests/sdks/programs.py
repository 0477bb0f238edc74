"""Programs that do operations with official SDKs: how they are built, started and asked.

What they are built of is pinned beside each; npm, go and tools.jars refuse what differs. Each takes
jobs as one JSON array on its input, and prints a line for each that is done, with what it found.
"""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools import jars

FOLDER: Final = Path(__file__).parent
BUILD_S: Final = 400.0
LIST_S: Final = 60.0
TIMED_S: Final = 300.0
Job = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program of one SDK. `ca_variable`: the variable that names the file of its authority.

    `tokens`: the command of the one whose tokens are good for seconds; see `token_load`.
    `handover`: the command of the one whose front end is replaced; see `test_handover`.
    """

    sdk: str
    needs: Sequence[str]
    build: Sequence[str]
    run: Sequence[str]
    tokens: Sequence[str]
    handover: Sequence[str]
    ca_variable: str
    variables: Callable[[], Mapping[str, str]] = dict
    """What its environment has besides; called once its tools are there."""

    @property
    def folder(self) -> Path:
        """Where its source is."""
        return FOLDER / self.sdk

    def built(self) -> None:
        """Build it. Raises AssertionError with what the build printed."""
        missing = [each for each in self.needs if shutil.which(each) is None]
        assert not missing, f"{self.sdk}: {', '.join(missing)} not installed, see CONTRIBUTING.md"
        done = self._done(self.build, BUILD_S)
        assert done.returncode == 0, f"{self.sdk}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def operations(self) -> list[str]:
        """Return the names of its operations."""
        found: list[str] = json.loads(self._done([*self.run, "--list"], LIST_S).stdout)
        return found

    def timed(self, connection_string: str, ca_file: str, *arguments: str) -> list[float]:
        """Return what its `--time` prints; see the program."""
        environment = {**self._environment(), self.ca_variable: ca_file}
        environment["SERVICEBUS_CONNECTION_STRING"] = connection_string
        done = self._done([*self.run, "--time", *arguments], TIMED_S, environment)
        assert done.returncode == 0, f"{self.sdk}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        found: list[float] = json.loads(done.stdout)
        return found

    def start(self, jobs: Sequence[Job], ca_file: str) -> "Run":
        """Start it on jobs."""
        results: dict[str, Future[Any]] = {job["id"]: Future() for job in jobs}
        process = self.opened(self.run, ca_file)

        def read() -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            with process:
                process.stdin.write(json.dumps(jobs))
                process.stdin.close()
                for line in process.stdout:
                    _settle(results, line)
            for job, result in results.items():
                if not result.done():
                    result.set_exception(AssertionError(f"{self.sdk} ended before {job}"))

        reader = threading.Thread(target=read, name=self.sdk, daemon=True)
        reader.start()
        return Run(results, process, reader)

    def opened(self, command: Sequence[str], ca_file: str) -> "subprocess.Popen[str]":
        """Start one of its commands, which is told what to do on its input."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self._environment(), self.ca_variable: ca_file},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables()}

    def _done(
        self, command: Sequence[str], most_s: float, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=environment or self._environment(), capture_output=True,
            text=True, timeout=most_s, check=False,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A program that does jobs. `results`: by the id of each, what becomes of it."""

    results: Mapping[str, Future[Any]]
    process: subprocess.Popen[str]
    reader: threading.Thread

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.reader.join()


def _settle(results: Mapping[str, Future[Any]], line: str) -> None:
    answer = json.loads(line)
    if answer["error"]:
        results[answer["id"]].set_exception(AssertionError(answer["error"]))
    else:
        results[answer["id"]].set_result(answer.get("found"))


def _class_path() -> dict[str, str]:
    return {"CLASSPATH": f"target:{jars.classpath(FOLDER / 'java/operations.jars')}"}


PROGRAMS: Final = (
    Program(
        "javascript",
        ["node", "npm"],
        ["npm", "ci", "--no-audit", "--no-fund"],
        ["node", "operations.mjs"],
        ["node", "tokens.mjs"],
        ["node", "handover.mjs"],
        "NODE_EXTRA_CA_CERTS",
    ),
    Program(
        "go",
        ["go"],
        ["go", "build", "-trimpath", "-buildvcs=false", "-o", "build/operations", "."],
        ["./build/operations"],
        ["./build/operations", "--tokens"],
        ["./build/operations", "--handover"],
        "SSL_CERT_FILE",
    ),
    Program(
        "java",
        ["java", "javac", "mvn"],
        ["javac", "-d", "target", *sorted(each.name for each in FOLDER.glob("java/*.java"))],
        ["java", "-Xmx256m", "Main"],
        ["java", "-Xmx256m", "Tokens"],
        ["java", "-Xmx256m", "Handover"],
        "SSL_CERT_FILE",
        _class_path,
    ),
)
