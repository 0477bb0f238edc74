"""`make demo`: one bus, 16 partitions, real flights: a queue, a topic, sessions, and an outage.

Uses the public client and the command line only, as any application would. Ends by itself within
two minutes; the exit code is 1 if an acknowledged message was lost.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import departures  # the modules beside this one
import flights
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import ServiceBusError
from bendybus.domain import partitioning

MANIFEST: Final = Path(__file__).with_name("flights.yaml")
PARTITIONS: Final = 16
KEYLESS: Final = 20_000
KEYED: Final = 10_000
DURING_OUTAGE: Final = 8_000
PLAIN: Final = 2_000
PUBLISHED: Final = 2_000
BATCH: Final = 250
RECEIVERS: Final = 4
KEY: Final = "UA"
START_S: Final = 60.0
COMMAND_S: Final = 60.0
DRAIN_S: Final = 45.0
SEND_S: Final = 20.0

screen = Console(highlight=False)


@dataclass
class Ledger:
    """What one queue acknowledged, and what came out of it."""

    acknowledged: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def lost(self) -> set[str]:
        """Return what was acknowledged and never received."""
        with self.lock:
            return self.acknowledged - self.received.keys()

    def repeats(self) -> int:
        """Return how many deliveries were second ones: at least once means that they exist."""
        with self.lock:
            return self.received.total() - len(self.received)


def main() -> int:
    """Run the demo; 0 when nothing acknowledged was lost."""
    began = time.monotonic()
    rows = list(flights.read(KEYLESS + KEYED + DURING_OUTAGE + PLAIN))
    wrong = 0
    source = iter(enumerate(rows))
    with tempfile.TemporaryDirectory(prefix="bendybus-demo-") as folder, ExitStack() as stack:
        bus = stack.enter_context(running_bus(Path(folder)))
        say(f"A bus of {PARTITIONS} partitions, each a process, serves at {bus['endpoint']}.")
        client = stack.enter_context(
            ServiceBusClient.from_connection_string(bus["connection_string"])
        )
        spread, plain = Ledger(), Ledger()
        send_everything(client, source, spread, plain)
        show_spread(Path(folder))
        wrong = topic_and_sessions(client, bus["connection_string"], rows[:PUBLISHED])
        receivers = Receivers(client, {"flights": spread, "audit": plain})
        stack.callback(receivers.stop)
        receivers.start()
        outage(client, bus["connection_string"], Path(folder), source, spread)
        receivers.wait_until_empty()
    return max(report(spread, plain, time.monotonic() - began), min(wrong, 1))


@contextmanager
def running_bus(folder: Path) -> Iterator[dict[str, Any]]:
    """Run `bendybus up` on free ports, with its data in `folder`, until the block ends."""
    say("Starting bendybus up …")
    command = [sys.executable, "-m", "bendybus.cli", "up", "-f", str(MANIFEST), "--json"]
    command += ["--data", str(folder), "--port", "0", "--processes", str(PARTITIONS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(START_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        watchdog.cancel()
        if not line:
            raise SystemExit(f"The bus did not start; its logs are in {folder / 'logs'}.")
        facts: dict[str, Any] = json.loads(line)
        yield facts
    finally:
        watchdog.cancel()
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)


def send_everything(
    client: ServiceBusClient,
    source: Iterator[tuple[int, dict[str, str]]],
    spread: Ledger,
    plain: Ledger,
) -> None:
    """Send flights three ways: without a key, by carrier, and to a plain queue."""
    rate = timed(lambda: send(client, "flights", islice(source, KEYLESS), spread))
    say(f"{KEYLESS:,} flights sent without a key: any partition may take them ({rate}).")
    rate = timed(lambda: send(client, "flights", islice(source, KEYED), spread, keyed=True))
    say(f"{KEYED:,} flights sent with their carrier as PartitionKey: one carrier, one partition.")
    timed(lambda: send(client, "audit", islice(source, PLAIN), plain))
    say(f"{PLAIN:,} flights sent to the plain queue 'audit': it lives whole in one partition.")


def send(
    client: ServiceBusClient,
    queue: str,
    source: Iterator[tuple[int, dict[str, str]]],
    ledger: Ledger,
    *,
    keyed: bool = False,
) -> int:
    """Send flights in batches; a batch counts as acknowledged when its call returns."""
    sent = 0
    with client.get_queue_sender(queue) as sender:
        for batch in batches(source, keyed=keyed):
            sender.send_messages([message(*each, keyed=keyed) for each in batch], timeout=SEND_S)
            with ledger.lock:
                ledger.acknowledged.update(identity(number) for number, _ in batch)
            sent += len(batch)
    return sent


def batches(
    source: Iterator[tuple[int, dict[str, str]]], *, keyed: bool
) -> Iterator[list[tuple[int, dict[str, str]]]]:
    """Yield batches; a batch is one unit and so has one key at most."""
    if keyed:
        groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
        for each in source:
            groups.setdefault(each[1]["carrier"], []).append(each)
        for group in groups.values():
            yield from batches(iter(group), keyed=False)
        return
    while batch := list(islice(source, BATCH)):
        yield batch


def identity(number: int) -> str:
    """Return the MessageId of a flight."""
    return f"flight-{number:06}"


def message(number: int, flight: dict[str, str], *, keyed: bool) -> ServiceBusMessage:
    """Return a flight as a message."""
    key = flight["carrier"] if keyed else None
    return ServiceBusMessage(json.dumps(flight), message_id=identity(number), partition_key=key)


def topic_and_sessions(
    client: ServiceBusClient, connection_string: str, rows: Sequence[dict[str, str]]
) -> int:
    """Publish to a topic with two subscriptions, receive by session; return what went wrong."""
    departures.create(connection_string)
    table, wrong = departures.publish(client, rows)
    screen.print()
    screen.print(table)
    sentence, out_of_order = departures.fly(client, rows)
    say(f"{sentence}\n")
    return wrong + out_of_order


class Receivers:
    """Competing receivers: each message goes to one of them, which completes it."""

    def __init__(self, client: ServiceBusClient, ledgers: dict[str, Ledger]) -> None:
        self._client = client
        self._ledgers = ledgers
        self._stop = threading.Event()
        self._errors = 0
        jobs = [("flights", number) for number in range(RECEIVERS)] + [("audit", 0)]
        self._threads = [
            threading.Thread(target=self._run, args=(queue,), name=f"{queue}-{number}")
            for queue, number in jobs
        ]

    def start(self) -> None:
        """Start receiving."""
        for thread in self._threads:
            thread.start()
        say(f"{RECEIVERS} receivers compete for 'flights', one reads 'audit'; all complete.")

    def _run(self, queue: str) -> None:
        ledger = self._ledgers[queue]
        while not self._stop.is_set():
            try:
                self._receive(queue, ledger)
            except ServiceBusError:
                # A partition died under us: its locks are gone, its messages come again.
                self._errors += 1
                self._stop.wait(0.2)

    def _receive(self, queue: str, ledger: Ledger) -> None:
        with self._client.get_queue_receiver(queue) as receiver:
            while not self._stop.is_set():
                batch = receiver.receive_messages(max_message_count=BATCH, max_wait_time=1)
                if not batch:
                    continue
                with ledger.lock:
                    ledger.received.update(str(each.message_id) for each in batch)
                receiver.complete_messages(batch)

    def wait_until_empty(self) -> None:
        """Wait until everything acknowledged was received, or for so long."""
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline and any(
            ledger.lost() for ledger in self._ledgers.values()
        ):
            time.sleep(0.1)

    def stop(self) -> None:
        """End all threads."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=10)


def outage(
    client: ServiceBusClient,
    connection_string: str,
    folder: Path,
    source: Iterator[tuple[int, dict[str, str]]],
    ledger: Ledger,
) -> None:
    """Kill a partition and hold it down; show who notices; bring it back."""
    partition = partitioning.partition_of(KEY, PARTITIONS)
    command(folder, "partition", "stop", str(partition))
    say(f"\n[bold red]Partition {partition} is killed (SIGKILL) and held down.[/]")
    rate = timed(lambda: send(client, "flights", islice(source, DURING_OUTAGE), ledger))
    say(f"{DURING_OUTAGE:,} flights without a key go on to the other 15 partitions ({rate}).")
    error = keyed_error(connection_string)
    say(f"One with PartitionKey {KEY!r} belongs to partition {partition} alone, and fails:")
    say(f"  [yellow]{escape(error)}[/]")
    command(folder, "partition", "start", str(partition))
    say(f"[bold green]Partition {partition} is back.[/]")
    error = keyed_error(connection_string, ledger)
    say(f"PartitionKey {KEY!r} works again: {escape(error) or 'accepted'}.\n")


def keyed_error(connection_string: str, ledger: Ledger | None = None) -> str:
    """Send one message with the key and return the error's name and sentence, or nothing."""
    name = f"keyed-{time.monotonic_ns()}"
    # Without a ledger an error is expected: show it at once instead of trying again.
    retries = 10 if ledger else 0
    with (
        ServiceBusClient.from_connection_string(connection_string, retry_total=retries) as client,
        client.get_queue_sender("flights") as sender,
    ):
        try:
            single = ServiceBusMessage("one flight", partition_key=KEY, message_id=name)
            sender.send_messages(single, timeout=15 if ledger else 5)
        except ServiceBusError as error:
            return f"{type(error).__name__}: {error}"
    if ledger is not None:
        with ledger.lock:
            ledger.acknowledged.add(name)
    return ""


def command(folder: Path, *arguments: str) -> str:
    """Run a `bendybus` command on the bus in `folder` and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "bendybus.cli", "--data", str(folder), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        env={**os.environ, "BENDYBUS_CONNECTION_STRING": ""},
    )
    if done.returncode:
        raise SystemExit(f"bendybus {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def show_spread(folder: Path) -> None:
    """Print how many messages each partition holds."""
    facts = json.loads(command(folder, "describe", "queue", "flights", "-o", "json"))
    counts = {
        each["partition"]: each["countDetails"].get("activeMessageCount", 0)
        for each in facts["runtime"]["partitions"]
    }
    most = max([1, *counts.values()])
    table = Table(title="Messages per partition of queue 'flights'", box=None, title_justify="left")
    table.add_column("partition", justify="right")
    table.add_column("messages", justify="right")
    table.add_column("")
    for partition, count in sorted(counts.items()):
        table.add_row(str(partition), f"{count:,}", "█" * round(40 * count / most))
    screen.print(table)


def report(spread: Ledger, plain: Ledger, took_s: float) -> int:
    """Print what went in and what came out; 1 if something acknowledged was lost."""
    table = Table(title="Every acknowledged message was received", title_justify="left")
    for column in ("queue", "acknowledged", "received", "lost", "received again"):
        table.add_column(column, justify="left" if column == "queue" else "right")
    lost = 0
    for name, ledger in (("flights (16 partitions)", spread), ("audit (plain)", plain)):
        missing = len(ledger.lost())
        lost += missing
        figures: Sequence[int] = (
            len(ledger.acknowledged),
            len(ledger.acknowledged & ledger.received.keys()),
            missing,
            ledger.repeats(),
        )
        table.add_row(name, *(f"{figure:,}" for figure in figures))
    if lost:
        table.title = f"{lost:,} acknowledged messages were NOT received"
    screen.print(table)
    say(
        "Received again: the bus delivers at least once; locks held on the killed partition are "
        "forgotten, so those messages come a second time."
    )
    say(f"Took {took_s:.0f} s.")
    return 1 if lost else 0


def timed(work: Callable[[], int]) -> str:
    """Do the work and return its rate."""
    began = time.monotonic()
    count = work()
    return f"{count / max(time.monotonic() - began, 1e-9):,.0f} a second"


def say(text: str) -> None:
    """Print a sentence."""
    screen.print(text)


if __name__ == "__main__":
    sys.exit(main())
