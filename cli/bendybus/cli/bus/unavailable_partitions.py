"""Partitions that do not serve, and why: as the front end sees them, and as their logs say. Pure
but for reading the logs."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bendybus.v1 import management_pb2 as pb

DISK_LOW: Final = "DiskLow"
_TAIL_BYTES: Final = 64 * 1024


def told(partitions: Iterable[pb.NamespacePartition], logs: Mapping[int, Path]) -> list[str]:
    """Return a sentence for each partition that does not serve, or takes no messages.

    `logs`: their logs, if on this machine.
    """
    shown = list(partitions)
    full = [each for each in shown if each.available and DISK_LOW in each.conditions]
    return [
        f"Partition {each.partition} takes no messages: its volume has less room than it keeps "
        "free. Receive or purge messages, or give it more room."
        for each in full
    ] + [
        f"Partition {each.partition} does not serve: {_why(each, logs.get(each.partition))}"
        for each in shown
        if not each.available
    ]


def _why(partition: pb.NamespacePartition, log: Path | None) -> str:
    said = _last_error(log, partition.partition) if log is not None else ""
    return said or f"{'; '.join(partition.conditions) or 'it does not answer'}."


def _last_error(log: Path, partition: int) -> str:
    """Return the last error of a partition in a log, "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("partition") != partition:
            continue
        if entry.get("level") == "error":
            return str(entry.get("message", "")).removeprefix(f"partition {partition}: ")
        # Whatever was wrong before, it was opened since.
        if entry.get("action") == "open":
            return ""
    return ""
