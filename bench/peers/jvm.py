"""A broker in a JVM: started with its pinned jars and a bounded heap, ended by its pid."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import processes
from bench.peers import peer
from bench.peers.peer import UnavailableError
from tools import jars

HEAP_MB: Final = 512
_RUN_S: Final = 60.0
_LINE_CHARACTERS: Final = 200


@contextmanager
def server(
    name: str, arguments: Sequence[str], *, port: int, log: Path
) -> Iterator["subprocess.Popen[str]"]:
    """Run a broker until the block ends; it listens at the port when the block begins."""
    with processes.running(command(name, arguments), log=log) as process:
        try:
            processes.wait_for_port(port, process, log, peer.START_S)
        except RuntimeError as error:
            raise UnavailableError(f"did not start: {reason(log)}") from error
        yield process


def run(name: str, arguments: Sequence[str], log: Path) -> None:
    """Run one of a broker's tools to its end."""
    with log.open("a", encoding="utf-8") as output:
        done = subprocess.run(
            command(name, arguments), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            timeout=_RUN_S, check=False,
        )  # fmt: skip
    if done.returncode:
        raise UnavailableError(f"{arguments[0]} failed: {reason(log)}")


def command(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a class with its arguments."""
    java = peer.program("java")
    if java is None:
        raise UnavailableError("not installed: apt install openjdk-17-jre-headless")
    # Ended with the process that measures, even if that is killed.
    setpriv = peer.program("setpriv")
    prefix = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
    options = [f"-Xmx{HEAP_MB}m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    try:
        classpath = jars.classpath(Path(__file__).with_name(f"{name}.jars"))
    except jars.UnavailableError as error:
        raise UnavailableError(str(error)) from error
    return [*prefix, java, *options, "-cp", classpath, *arguments]


def reason(log: Path) -> str:
    """Return the line of a log that tells why a JVM ended: its last error, or its last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line or "Error:" in line]
    return (errors or lines or ["no output"])[-1][:_LINE_CHARACTERS]
