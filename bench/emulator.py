"""`python -m bench.emulator`: what users of the official emulator ask for, measured on ours.

Start to first message, memory, many entities and connections, large messages, restarts,
WebSockets, partitions: each with `bendybus emulator` as a process and azure-servicebus as the
client. The table is that of docs/reference/emulator.md.
"""

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSender
from rich.console import Console
from rich.table import Table

from bench import processes
from tests.integration.emulators import Emulator
from tests.ports import HOST

Row = tuple[str, str]
MB: Final = 1_000_000
LARGE_BYTES: Final = 50 * MB
ENTITIES: Final = 200
CONNECTIONS: Final = 100
THREADS: Final = 20


def config(count: int, **properties: Any) -> dict[str, Any]:
    """Return a Config.json with so many queues, q0 and on."""
    queues = [{"Name": f"q{number}", "Properties": properties} for number in range(count)]
    namespace = {"Name": "sbemulatorns", "Queues": queues}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}


@contextmanager
def running(folder: Path, given: Any, *options: str) -> Iterator[Emulator]:
    """Give an emulator that is ready."""
    emulator = Emulator(folder, given, options=options)
    try:
        yield emulator
    finally:
        emulator.stop()
        emulator.kill()


def memory_mb(emulator: Emulator) -> tuple[float, float]:
    """Return the memory of all processes: as `ps` adds it up, and with shared pages once."""
    pids = processes.family(emulator.process.pid)
    shared = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                shared += int(line.split()[1]) * 1024
    return sum(processes.rss_mb(pid) for pid in pids), shared / MB


def exchange(emulator: Emulator, queue: str = "q0", body: bytes = b"hello") -> float:
    """Send a message and receive it; return the seconds."""
    began = time.monotonic()
    with emulator.sdk() as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(body))
        with client.get_queue_receiver(queue) as receiver:
            [message] = receiver.receive_messages(1, max_wait_time=60)
            receiver.complete_message(message)
    assert sum(map(len, message.body)) == len(body), "another message"
    return time.monotonic() - began


def start(folder: Path, partitions: int = 1) -> Row:
    """Measure the start with two queues."""
    with running(folder, config(2), "--premium", str(partitions)) as emulator:
        healthy_s, ready_s = emulator.wait_healthy(), emulator.wait_ready()
        first_s = ready_s + exchange(emulator)
        time.sleep(1)
        rss, pss = memory_mb(emulator)
    many = "1 partition" if partitions == 1 else f"{partitions} partitions"
    return (
        f"start, {many}",
        f"healthy {healthy_s:.1f} s, ready {ready_s:.1f} s, first message {first_s:.1f} s; "
        f"{rss:.0f} MB ({pss:.0f} MB with shared pages once)",
    )


def partitioned(folder: Path) -> Row:
    """Measure the start with 16 partitions."""
    return start(folder, 16)


def persistence(folder: Path) -> Row:
    """Count what outlives a restart, and measure that."""
    with running(folder, config(1)) as emulator:
        emulator.wait_ready()
        with emulator.sdk() as client, client.get_queue_sender("q0") as sender:
            for _ in range(10):
                sender.send_messages([ServiceBusMessage("x") for _ in range(100)])
    with running(folder, config(1)) as emulator:
        ready_s, left = emulator.wait_ready(), 0
        with emulator.sdk() as client, client.get_queue_receiver("q0") as receiver:
            while got := receiver.receive_messages(500, max_wait_time=3):
                for each in got:
                    receiver.complete_message(each)
                left += len(got)
    return "persistence", f"{left} of 1000 messages after a restart; ready {ready_s:.1f} s"


def entities(folder: Path) -> Row:
    """Measure the start with many queues."""
    with running(folder, config(ENTITIES)) as emulator:
        ready_s = emulator.wait_ready()
        exchange(emulator, f"q{ENTITIES - 1}")
        rss, _ = memory_mb(emulator)
    with running(folder, config(ENTITIES)) as emulator:
        again_s = emulator.wait_ready()
    said = f"ready {ready_s:.1f} s, {again_s:.1f} s the second time; {rss:.0f} MB"
    return f"{ENTITIES} entities", said


def connections(folder: Path) -> Row:
    """Open many connections, send over each."""
    with running(folder, config(1)) as emulator:
        emulator.wait_ready()

        def opened(_: int) -> tuple[ServiceBusClient, ServiceBusSender]:
            client = emulator.sdk()
            sender = client.get_queue_sender("q0")
            sender.send_messages(ServiceBusMessage("x"))
            return client, sender

        def closed(pair: tuple[ServiceBusClient, ServiceBusSender]) -> None:
            client, sender = pair
            sender.close()
            client.close()

        # In threads, since the SDK sleeps for most of the time that opening takes.
        with ThreadPoolExecutor(THREADS) as pool:
            began = time.monotonic()
            clients = list(pool.map(opened, range(CONNECTIONS)))
            took_s, (rss, _) = time.monotonic() - began, memory_mb(emulator)
            list(pool.map(closed, clients))
    return f"{CONNECTIONS} connections", f"opened and used in {took_s:.1f} s; {rss:.0f} MB"


def large(folder: Path) -> Row:
    """Send and receive a large message."""
    with running(folder, config(1, MaxMessageSizeInKilobytes=102_400)) as emulator:
        emulator.wait_ready()
        took_s = exchange(emulator, body=bytes(LARGE_BYTES))
    return "large messages", f"{LARGE_BYTES // MB} MB sent and received in {took_s:.1f} s"


def websockets(folder: Path) -> Row:
    """Open a WebSocket for AMQP on the HTTP port."""
    with running(folder, config(1)) as emulator:
        emulator.wait_ready()
        with socket.create_connection((HOST, emulator.http_port), 10) as line:
            line.sendall(
                b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\n"
                b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                b"Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
            )
            status = line.recv(4096).partition(b"\r\n")[0].decode()
    return "WebSockets", status


MEASUREMENTS: Final[dict[str, Callable[[Path], Row]]] = {
    "start": start,
    "partitions": partitioned,
    "entities": entities,
    "connections": connections,
    "large": large,
    "persistence": persistence,
    "websockets": websockets,
}


def main() -> int:
    """Measure what is named, or all."""
    wanted = sys.argv[1:] or list(MEASUREMENTS)
    unknown = [each for each in wanted if each not in MEASUREMENTS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}. Known: {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    table = Table("what", "measured")
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
            table.add_row(*MEASUREMENTS[name](Path(folder)))
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
