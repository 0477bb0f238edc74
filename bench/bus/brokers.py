"""What more brokers are worth where one is the limit: each is held back to a share of its time.

On one machine all processes share the cores, so that a broker is no limit by itself. Here each
partition server is stopped (SIGSTOP) for most of every period, as if its disk or its processor
were that much slower; client and front end run freely.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.bus import running
from bench.bus.measure import Bench
from bench.loads import Loads
from bench.row import Row
from bendybus.client.aio import ServiceBusClient

SYSTEM: Final = "Bendybus, slow brokers"
BROKERS: Final = (1, 4)
PERIOD_S: Final = 0.1
RUNS_S: Final = 0.01
# So many that calls which wait for one broker leave enough for the others.
CALLS: Final = 64


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure batches with one broker, then with four."""
    for brokers in BROKERS:
        here = folder / str(brokers)
        here.mkdir()
        with running.bus(here, brokers, brokers) as bus:
            sent, received = asyncio.run(_measured(Bench(bus, load, emit), bus, load))
        held = f"each runs for {RUNS_S * 1_000:.0f} of every {PERIOD_S * 1_000:.0f} ms"
        each = (
            "1 partition, 1 broker" if brokers == 1 else f"{brokers} partitions, {brokers} brokers"
        )
        emit(Row(SYSTEM, f"slow_send_{brokers}", f"send, batches of 500; {each}", "/s",
                 sent, held))  # fmt: skip
        emit(Row(SYSTEM, f"slow_receive_{brokers}", f"receive 500 + complete_messages; {each}",
                 "/s", received, held))  # fmt: skip


async def _measured(bench: Bench, bus: running.Bus, load: Loads) -> tuple[list[float], list[float]]:
    sent, received = list[float](), list[float]()
    async with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        for _ in range(load.repeats):
            with _held_back(bus.partition_servers):
                began = time.perf_counter()
                await bench.send(client, load.slow, CALLS)
                between = time.perf_counter()
                await bench.receive(client, load.slow, CALLS)
                received.append(load.slow / (time.perf_counter() - between))
                sent.append(load.slow / (between - began))
    return sent, received


@contextmanager
def _held_back(pids: Sequence[int]) -> Iterator[None]:
    """Let processes run for a share of every period, until the block ends."""
    over = threading.Event()

    def hold(pid: int, wait_s: float) -> None:
        # Not all at the same moment.
        over.wait(wait_s)
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(PERIOD_S - RUNS_S)
            os.kill(pid, signal.SIGCONT)
            over.wait(RUNS_S)

    threads = [
        threading.Thread(target=hold, args=(pid, PERIOD_S * number / len(pids)))
        for number, pid in enumerate(pids)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
