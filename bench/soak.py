"""`make soak`: the same load for minutes; what a message costs and what processes hold stay flat.

A benchmark of seconds does not see a heap entry that stays, a cache that grows, a file that never
shrinks. This sends and receives at a steady rate well below what the bus can do, beside receivers
that wait for ever and receivers that live for a moment, looks at every process once a minute, and
compares the last minute with the second (the first one fills caches).
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench import processes
from bench.bus import running
from bendybus.client import ServiceBusMessage
from bendybus.client.aio import ServiceBusClient
from bendybus.client.exceptions import OperationTimeoutError
from bendybus.client.management import ServiceBusAdministrationClient

IDLE_QUEUE: Final = "idle"
SENDERS: Final = 4
HOLD_S: Final = 90.0
WARM_MINUTE: Final = 2
# Of the last minute to the second: noise of a shared machine is within these.
CPU_RATIO_MAX: Final = 1.25
MEMORY_RATIO_MAX: Final = 1.15
MEMORY_MB_FREE: Final = 8.0
DISK_RATIO_MAX: Final = 1.25
# A write-ahead log may be at its beginning in one minute and at its bound in another.
DISK_MB_FREE: Final = 24.0
TURN_METRIC: Final = "bendybus_turn_seconds_bucket"
DECIDE_METRIC: Final = "bendybus_decide_seconds_bucket"
COMMIT_METRIC: Final = "bendybus_commit_seconds_bucket"
_BUCKET: Final = re.compile(r'^(\w+)\{.*le="([^"]+)".*\} (\S+)$', re.MULTILINE)


@dataclass(slots=True)
class Minute:
    """What one minute cost: by process, CPU µs a message and MB of memory; MB of files."""

    messages: int
    cpu_us: dict[str, float]
    memory_mb: dict[str, float]
    disk_mb: float
    # Of all turns since the start; None: the servers do not tell.
    turn_p99_s: float | None = None
    # 99.9 % of all turns without their commits, and of all commits.
    decide_p999_s: float | None = None
    commit_p999_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure of the last minute beside the second, and whether it stayed flat."""

    what: str
    second: float
    last: float
    flat: bool

    @property
    def ratio(self) -> float:
        """Last to second."""
        return self.last / self.second if self.second else 1.0


@dataclass(slots=True)
class Load:
    """Counts of what was done."""

    sent: int = 0
    received: int = 0
    short: int = 0
    late: int = 0
    errors: list[str] = field(default_factory=list)


def judge(minutes: Sequence[Minute]) -> list[Verdict]:
    """Compare the last minute with the second. Pure."""
    second, last = minutes[min(WARM_MINUTE, len(minutes)) - 1], minutes[-1]
    found = [
        _verdict(f"CPU µs a message, {name}", second.cpu_us[name], last.cpu_us[name], CPU_RATIO_MAX)
        for name in second.cpu_us
    ]
    found += [
        _verdict(
            f"memory MB, {name}", before, last.memory_mb[name], MEMORY_RATIO_MAX, MEMORY_MB_FREE
        )
        for name, before in second.memory_mb.items()
    ]
    disk = _verdict("files MB", second.disk_mb, last.disk_mb, DISK_RATIO_MAX, DISK_MB_FREE)
    return [*found, disk]


def _verdict(what: str, second: float, last: float, ratio_max: float, free: float = 0.0) -> Verdict:
    return Verdict(what, second, last, last <= max(second * ratio_max, second + free))


async def load(connection_string: str, chosen: argparse.Namespace, seen: Load) -> None:
    """Send, receive, wait and come and go, until it is cancelled."""
    async with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for _ in range(SENDERS):
            tasks.create_task(_send(client, chosen.rate / SENDERS, seen))
        for _ in range(2):
            tasks.create_task(_receive(client, seen))
        for _ in range(chosen.idle):
            tasks.create_task(_wait(client))
        tasks.create_task(_come_and_go(client, seen))
        tasks.create_task(_hold(client, seen))


async def _send(client: ServiceBusClient, rate: float, seen: Load) -> None:
    body, due = os.urandom(256), time.monotonic()
    async with client.get_queue_sender(running.QUEUE) as sender:
        while True:
            await sender.send_messages(ServiceBusMessage(body))
            seen.sent += 1
            # Against the clock: a busy machine catches up, the rate stays.
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _receive(client: ServiceBusClient, seen: Load) -> None:
    async with client.get_queue_receiver(running.QUEUE) as receiver:
        while True:
            messages = await receiver.receive_messages(20, max_wait_time=5)
            await receiver.complete_messages(messages)
            seen.received += len(messages)


async def _wait(client: ServiceBusClient) -> None:
    async with client.get_queue_receiver(IDLE_QUEUE) as receiver:
        while True:
            await receiver.receive_messages(1, max_wait_time=30)


async def _come_and_go(client: ServiceBusClient, seen: Load) -> None:
    while True:
        async with client.get_queue_receiver(running.QUEUE) as receiver:
            try:
                messages = await receiver.receive_messages(1, max_wait_time=0.5)
            except OperationTimeoutError:
                # On a busy machine half a second may be too short; this is not a failure.
                seen.late += 1
                continue
            await receiver.complete_messages(messages)
        seen.received += len(messages)
        seen.short += 1
        await asyncio.sleep(0.1)


async def _hold(client: ServiceBusClient, seen: Load) -> None:
    """Keep a few messages for long, so that the queue is never without a lock."""
    async with client.get_queue_receiver(running.QUEUE) as receiver:
        while True:
            messages = await receiver.receive_messages(5, max_wait_time=5)
            await asyncio.sleep(HOLD_S)
            await receiver.complete_messages(messages)
            seen.received += len(messages)


def quantile(text: str, metric: str, part: float) -> float | None:
    """Return the upper bound of the bucket that holds a quantile; None: no such metric."""
    buckets: dict[float, float] = {}
    for name, bound, value in _BUCKET.findall(text):
        if name == metric:
            buckets[float(bound)] = buckets.get(float(bound), 0.0) + float(value)
    if not buckets or not max(buckets.values()):
        return None
    most = max(buckets.values())
    return min(bound for bound, count in buckets.items() if count >= part * most)


class Watch:
    """Looks at all processes; `minute` returns what changed since it looked last."""

    def __init__(self, bus: running.Bus, folder: Path) -> None:
        servers = {f"partition server {n}": pid for n, pid in enumerate(bus.partition_servers)}
        self._pids = {"client": os.getpid(), "front end": bus.frontend, **servers}
        self._servers = list(servers.values())
        self._folder = folder
        self._cpu_s = self._look()
        self._messages = 0

    def _look(self) -> dict[str, float]:
        return {name: processes.cpu_s(pid) for name, pid in self._pids.items()}

    def minute(self, received: int) -> Minute:
        """Return the cost since the last call."""
        now, done = self._look(), max(1, received - self._messages)
        used = {name: 1e6 * (now[name] - self._cpu_s[name]) / done for name in now}
        self._cpu_s, self._messages = now, received
        memory = {name: processes.rss_mb(pid) for name, pid in self._pids.items()}
        files = sum(path.stat().st_size for path in self._folder.rglob("*.db*"))
        texts = "".join(running.metrics(pid) for pid in self._servers)
        return Minute(
            done,
            used,
            memory,
            files / 1e6,
            quantile(texts, TURN_METRIC, 0.99),
            quantile(texts, DECIDE_METRIC, 0.999),
            quantile(texts, COMMIT_METRIC, 0.999),
        )


async def soak(
    bus: running.Bus, chosen: argparse.Namespace, folder: Path, seen: Load
) -> list[Minute]:
    """Load the bus and look at it, minute by minute."""
    with ServiceBusAdministrationClient.from_connection_string(bus.connection_string) as made:
        made.create_queue(IDLE_QUEUE)
    working = asyncio.create_task(load(bus.connection_string, chosen, seen))
    watch, minutes = Watch(bus, folder), []
    for number in range(1, chosen.minutes + 1):
        await asyncio.wait([working], timeout=chosen.minute_s)
        if working.done():
            break
        minutes.append(await asyncio.to_thread(watch.minute, seen.received))
        print(_line(number, minutes[-1]), flush=True)
    broken = working.done() and not working.cancelled()
    working.cancel()
    [outcome] = await asyncio.gather(working, return_exceptions=True)
    if broken:
        seen.errors.append(repr(outcome))
    return minutes


def _line(number: int, minute: Minute) -> str:
    cpu = ", ".join(f"{name} {value:.0f}" for name, value in minute.cpu_us.items())
    memory = ", ".join(f"{name} {value:.0f}" for name, value in minute.memory_mb.items())
    known = {
        "p99 of a turn": minute.turn_p99_s,
        "p99.9 of deciding": minute.decide_p999_s,
        "p99.9 of a commit": minute.commit_p999_s,
    }
    turn = "".join(f"; {what} ≤ {s * 1e3:g} ms" for what, s in known.items() if s is not None)
    return (
        f"minute {number}: {minute.messages} messages; CPU µs a message: {cpu}; "
        f"memory MB: {memory}; files {minute.disk_mb:.1f} MB{turn}"
    )


def table(found: Sequence[Verdict]) -> Table:
    """Return the verdicts for people."""
    made = Table(title="The last minute beside the second", title_justify="left")
    for column in ("what", "second", "last", "ratio", ""):
        made.add_column(column, justify="left" if column in ("what", "") else "right")
    for each in found:
        word = "flat" if each.flat else "[red]grows[/]"
        made.add_row(each.what, f"{each.second:.1f}", f"{each.last:.1f}", f"{each.ratio:.2f}", word)
    return made


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak ARGS=…", description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--minute-s", type=float, default=60.0, help="how long a minute is")
    parser.add_argument("--rate", type=float, default=200.0, help="messages a second")
    parser.add_argument("--idle", type=int, default=50, help="receivers that wait for ever")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None, show: Callable[[Any], None] | None = None) -> int:
    """Soak; 1 if something grows or the load broke."""
    chosen = _arguments(sys.argv[1:] if given is None else given)
    show = show or Console(highlight=False, width=100).print
    seen = Load()
    with tempfile.TemporaryDirectory(prefix="bendybus-soak-") as name:
        folder = Path(name)
        with running.bus(folder, 4, running.PARTITION_SERVERS) as bus:
            minutes = asyncio.run(soak(bus, chosen, folder, seen))
    for error in seen.errors:
        show(f"[red]The load broke: {error}[/]")
    if not minutes:
        return 1
    found = judge(minutes)
    show(table(found))
    show(f"{seen.sent} sent, {seen.received} received, {seen.short} receivers came and went")
    if seen.late:
        show(f"{seen.late} of these got no answer in time")
    return 0 if all(each.flat for each in found) and not seen.errors else 1


if __name__ == "__main__":
    sys.exit(main())
