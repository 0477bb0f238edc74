"""`logs`: what the processes of a bus say, on this machine or on a cluster."""

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from bendybus.cli.bus import bus_choice, cluster
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.bus.kubectl import Kubectl
from bendybus.cli.errors import NotFound, UsageError
from bendybus.cli.local import data_directory
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption

_LOOK_S: Final = 0.5
_PODS_MAX: Final = 50
_LABELS: Final = "bendybus.io/bus={bus}"
_ROLE: Final = ",bendybus.io/role={role}"
_BLOCK_BYTES: Final = 64 * 1024
# Said by the line itself, or of no use to a reader.
_UNSHOWN: Final = frozenset(
    {"time", "level", "logger", "message", "exception", "action", "partition"}
)
# What kubectl puts before the lines of several pods.
_POD: Final = re.compile(r"\[pod/([^/\]]+)/[^\]]+\] ")


class Role(StrEnum):
    """Whose log."""

    ALL = "all"
    PARTITION = "partition"
    FRONTEND = "frontend"


def logs(
    context: typer.Context,
    role: Annotated[
        Role, typer.Argument(help="partition N, frontend (also frontend N), or all.")
    ] = Role.ALL,
    number: Annotated[
        int | None, typer.Argument(min=0, help="Index of the partition or front end.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int, typer.Option(min=-1, help="Last lines of each process; -1: all of them.")
    ] = 100,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the logs of a bus: of the local one, or with --kube of one on a cluster."""
    if number is not None and role is Role.ALL:
        raise UsageError("logs: a number needs partition or frontend before it.")
    choice: Choice = context.obj
    if choice.cluster is not None:
        lines = _of_cluster(choice.cluster, role, number, follow=follow, tail=tail)
    else:
        lines = _of_files(choice, role, number, follow=follow, tail=tail)
    for line in lines:
        printing.result(line.as_json(), str(line), output)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one process. `entry`: its object, or only the message where it is none."""

    process: str
    entry: Mapping[str, Any]

    @property
    def time(self) -> str:
        """Return when it was written, "" if it does not say."""
        return str(self.entry.get("time", ""))

    def is_about(self, partition: int | None) -> bool:
        """Return whether it is about a partition, or about the whole process. None: any."""
        return partition is None or self.entry.get("partition", partition) == partition

    def as_json(self) -> dict[str, Any]:
        """Return the object for programs."""
        return {"process": self.process, **self.entry}

    def __str__(self) -> str:
        entry = self.entry
        fields = (f"{name}={value}" for name, value in entry.items() if name not in _UNSHOWN)
        level = f"{entry['level']} " if "level" in entry else ""
        head = f"{self.time} {level}" if self.time else ""
        text = "  ".join([f"{head}{self.process}: {entry.get('message', '')}", *fields])
        return "\n".join([text, *str(entry.get("exception", "")).splitlines()])


def _of_files(
    choice: Choice, role: Role, number: int | None, *, follow: bool, tail: int
) -> Iterator[LogLine]:
    if choice.connection_string or _is_named_elsewhere(choice):
        what = "the context in use has" if choice.by_context else "there is"
        raise UsageError(
            f"logs: {what} a connection string, which leads to no logs. Name a local bus with "
            "--data DIR, or one on a cluster with --kube."
        )
    partition = number if role is Role.PARTITION else None
    files = _files(choice, role, number)
    first = [line for file in files for line in _last(file, partition, tail)]
    yield from by_time(first)
    while follow:
        more = [parse_line(file.process, text) for file in files for text in file.added()]
        yield from (line for line in by_time(more) if line.is_about(partition))
        time.sleep(_LOOK_S)


@dataclass(slots=True)
class LogFile:
    """One process's log, and how far it is read."""

    process: str
    path: Path
    _offset: int = 0
    _inode: int = 0
    _rest: bytes = field(default=b"", repr=False)

    def last(self, count: int) -> list[str]:
        """Return the last lines, and go on behind them; a negative count means all."""
        try:
            with self.path.open("rb") as file:
                found = _last_lines(file.fileno(), count)
                self._offset, self._inode = file.tell(), os.fstat(file.fileno()).st_ino
        except OSError:
            return []
        *whole, self._rest = found.split(b"\n")
        return [_text(line) for line in (whole[-count:] if count > 0 else whole if count else [])]

    def added(self) -> list[str]:
        """Return the whole lines that were written since."""
        try:
            with self.path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_ino != self._inode or facts.st_size < self._offset:
                    self._offset, self._inode, self._rest = 0, facts.st_ino, b""
                file.seek(self._offset)
                new = file.read()
                self._offset = file.tell()
        except OSError:
            return []
        *whole, self._rest = (self._rest + new).split(b"\n")
        return [_text(line) for line in whole]


def _last(file: LogFile, partition: int | None, tail: int) -> list[LogLine]:
    """Return the last lines of a process, or of those about one of its partitions."""
    # Those about others do not count, and nobody knows how many there are between.
    texts = file.last(tail if partition is None else -1)
    lines = [parse_line(file.process, text) for text in texts]
    found = [line for line in lines if line.is_about(partition)]
    return found if tail < 0 else found[max(0, len(found) - tail) :]


def _is_named_elsewhere(choice: Choice) -> bool:
    return choice.data is None and bool(choice.environment.get(bus_choice.VARIABLE))


def _files(choice: Choice, role: Role, number: int | None) -> list[LogFile]:
    """Return the logs of the bus that runs, or of --data when none runs on it any more."""
    run = data_directory.read_run(choice.data) if choice.data else bus_choice.local_bus(choice)
    if run is None:
        assert choice.data is not None
        return _files_left(choice.data, role, number)
    wanted = [process for process in run["processes"] if _is_wanted(process, role, number)]
    if role is Role.FRONTEND and number is not None:
        wanted = wanted[number : number + 1]
    if not wanted:
        raise NotFound(f"{role} {number} does not exist. bendybus ps lists the processes.")
    return [LogFile(each["name"], Path(each["log"])) for each in wanted]


def _is_wanted(process: dict[str, Any], role: Role, number: int | None) -> bool:
    if role is Role.PARTITION:
        return bool(process["partitions"]) and number in (None, *process["partitions"])
    return role is Role.ALL or bool(process["role"] == Role.FRONTEND)


def _files_left(folder: Path, role: Role, number: int | None) -> list[LogFile]:
    """Return what a bus left that has ended: which process had a partition is not known then."""
    found = list(_log_files_of(folder / "logs"))
    if role is Role.PARTITION:
        found = [each for each in found if each.process.startswith("partition-server")]
    elif role is Role.FRONTEND:
        # The only front end of a bus has no number.
        names = {f"frontend-{number}", "frontend" if number == 0 else ""}
        found = [
            each
            for each in found
            if each.process in names or (number is None and each.process.startswith("frontend"))
        ]
    if not found:
        raise NotFound(f"{folder / 'logs'} has no such log. Start a bus with bendybus up.")
    return found


def _of_cluster(
    choice: ClusterChoice, role: Role, number: int | None, *, follow: bool, tail: int
) -> Iterator[LogLine]:
    if role is Role.FRONTEND and number is not None:
        raise UsageError("logs frontend: pods have no numbers. Leave the number out.")
    bus = cluster.find(choice.kubectl, choice.bus)
    words = [f"--tail={tail}", *(["--follow"] if follow else [])]
    if role is Role.PARTITION and number is not None:
        pod = f"{bus.name}-partition-{number}"
        named = [pod]
    else:
        pod = bus.name
        labels = _LABELS.format(bus=bus.name)
        labels += "" if role is Role.ALL else _ROLE.format(role=role)
        named = [f"--selector={labels}", "--prefix", f"--max-log-requests={_PODS_MAX}"]
    kubectl = Kubectl(choice.context, bus.namespace)
    yield from (parse_line(pod, text) for text in _said(kubectl, ["logs", *named, *words]))


def _said(kubectl: Kubectl, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the lines that kubectl prints, as they come. Raises CliError."""
    # Not a pipe: who follows logs for days must not wait for its reader.
    with tempfile.TemporaryFile() as errors:
        yield from _until_end(kubectl, arguments, errors)


def _until_end(kubectl: Kubectl, arguments: Sequence[str], errors: IO[bytes]) -> Iterator[str]:
    with subprocess.Popen(
        kubectl.command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        errors="replace",
    ) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                yield line.rstrip("\r\n")
        finally:
            if child.poll() is None:
                child.terminate()
    if child.returncode > 0:
        errors.seek(0)
        raise kubectl.explained(errors.read().decode("utf-8", "replace"))


def _log_files_of(folder: Path, names: Sequence[str] = ()) -> Iterator[LogFile]:
    """Return the logs in a folder, those of some processes or all, by name."""
    for path in sorted(folder.glob("*.log")):
        if not names or path.stem in names:
            yield LogFile(path.stem, path)


def _last_lines(descriptor: int, count: int) -> bytes:
    """Return the end of a file that has so many line ends; the offset is its end then."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    begin, found = size, b""
    while begin > 0 and (count < 0 or found.count(b"\n") <= count):
        length = begin if count < 0 else min(_BLOCK_BYTES, begin)
        begin -= length
        found = os.pread(descriptor, length, begin) + found
    return found


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def parse_line(process: str, text: str) -> LogLine:
    """Return a line of a log; what is no JSON object is a message."""
    pod = _POD.match(text)
    if pod is not None:
        process, text = pod[1], text[pod.end() :]
    try:
        entry = json.loads(text)
    except ValueError:
        entry = None
    return LogLine(process, entry if isinstance(entry, dict) else {"message": text})


def by_time(lines: Iterable[LogLine]) -> list[LogLine]:
    """Return lines of several processes in the order of their times.

    What has none, such as a traceback, stays behind the line before it.
    """
    latest: dict[str, str] = {}
    keyed: list[tuple[str, LogLine]] = []
    for line in lines:
        latest[line.process] = line.time or latest.get(line.process, "")
        keyed.append((latest[line.process], line))
    return [line for _, line in sorted(keyed, key=lambda pair: pair[0])]
