"""Lines of servers' logs: one JSON object each, shown to people or given to programs. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

# Said by the line itself, or of no use to a reader.
_UNSHOWN: Final = frozenset(
    {"time", "level", "logger", "message", "exception", "action", "partition"}
)
# What kubectl puts before the lines of several pods.
_POD: Final = re.compile(r"\[pod/([^/\]]+)/[^\]]+\] ")


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


def parse(process: str, text: str) -> LogLine:
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
