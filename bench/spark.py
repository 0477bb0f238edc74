"""`make bench-spark`: Spark's format beside our own client doing the same, in one run.

Bodies of 100 bytes and of 1 kB, in a queue of 4 partitions in 2 partition servers. Every figure is
the median of three. Spark is local[2], warmed up by a run that does not count.
"""

import argparse
import functools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.bus import running
from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from bendybus.spark.jobs import capture
from bendybus.spark.jobs.capture import Capture

PARTITIONS: Final = 4
REPEATS: Final = 3
# Messages of a repetition, by bytes of a body.
MESSAGES: Final = {100: 200_000, 1_000: 60_000}
QUICK: Final = 10
BATCH: Final = 1_000
FLOOR_BATCHES: Final = 12
FEW_COLUMNS: Final = "partition,sequence_number,enqueued_at,body"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `beside`: the line that it is a share of."""

    what: str
    unit: str
    value: float
    beside: str = ""


class Bench:
    """The measurements of one size of bodies."""

    def __init__(self, spark: Any, bus: running.Bus, folder: Path, size: int, count: int) -> None:
        self._spark = spark
        self._bus = bus
        self._folder = folder
        self._size = size
        self._count = count
        file = folder / "connection-string"
        file.write_text(bus.connection_string, encoding="utf-8")
        self._options = {"connectionStringFile": str(file), "queue": running.QUEUE}

    def run(self) -> Iterator[Figure]:
        """Yield the figures; the queue is empty before and after."""
        count, rate = self._count, self._rate
        with ServiceBusClient.from_connection_string(self._bus.connection_string) as client:
            self._write()
            self._drop(client, count)
            sends = [rate(lambda: self._send(client), count) for _ in range(REPEATS)]
            yield Figure("client: send_messages of 1,000", "/s", _median(sends))
            writes = [rate(self._write, count) for _ in range(REPEATS)]
            yield Figure("Spark: write", "/s", _median(writes), "client: send_messages of 1,000")
            # What was sent and written so far, and one that warmed up.
            held = count * 2 * REPEATS
            browses = [rate(lambda: self._browse(client), held) for _ in range(REPEATS)]
            yield Figure("client: browse, body of each message", "/s", _median(browses))
            self._read()
            for title, options in (("all columns", {}), ("4 columns", {"columns": FEW_COLUMNS})):
                read = functools.partial(self._read, **options)
                reads = [rate(read, held) for _ in range(REPEATS)]
                yield Figure(
                    f"Spark: read, {title}", "/s", _median(reads),
                    "client: browse, body of each message",
                )  # fmt: skip
            memory = [rate(self._read_memory, held) for _ in range(REPEATS)]
            yield Figure("Spark: read of Arrow in memory, 4 columns", "/s", _median(memory))
            yield from self._memory()
            seconds = self._seconds(self._capture)
            yield Figure("Spark: capture, settled", "MB/s", held * self._size / seconds / 1e6)
            yield Figure("Spark: capture, settled", "/s", held / seconds)
            self._send(client)
            receives = self._rate(lambda: self._drop(client, count), count)
            yield Figure("client: receive and delete, 1,000 at a time", "/s", receives)
            yield Figure("Spark: floor of a batch", "ms", self._floor(client))
            self._drop(client, BATCH)

    def _rate(self, work: Callable[[], None], count: int) -> float:
        return count / self._seconds(work)

    def _seconds(self, work: Callable[[], None]) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def _send(self, client: ServiceBusClient) -> None:
        body = b"x" * self._size
        with client.get_queue_sender(running.QUEUE) as sender:
            for _ in range(0, self._count, BATCH):
                sender.send_messages([ServiceBusMessage(body) for _ in range(BATCH)])

    def _write(self) -> None:
        rows = self._spark.range(0, self._count, 1, 2)
        frame = rows.selectExpr(f"repeat('x', {self._size}) AS body")
        frame.write.format("bendybus").options(**self._options).mode("append").save()

    def _browse(self, client: ServiceBusClient) -> None:
        browser = client.get_partition_browser(queue_name=running.QUEUE)
        for partition in range(PARTITIONS):
            after, complete = 0, False
            while not complete:
                page = browser.browse(partition, after=after)
                for message in page.messages:
                    b"".join(message.body)
                after, complete = page.next_after, page.complete

    def _read(self, **options: str) -> None:
        frame = self._spark.read.format("bendybus").options(**self._options, **options).load()
        frame.write.format("noop").mode("overwrite").save()

    def _read_memory(self) -> None:
        options = {"rows": str(self._count * 2 * REPEATS), "size": str(self._size)}
        frame = self._spark.read.format("arrow_in_memory").options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    def _capture(self) -> None:
        wanted = Capture(
            {**self._options, "maxMessagesPerTrigger": "100000"},
            str(self._folder / "files"),
            str(self._folder / "checkpoint"),
        )
        capture.start(self._spark, wanted, {"availableNow": True}).awaitTermination()

    def _drop(self, client: ServiceBusClient, count: int) -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver(running.QUEUE, receive_mode=mode) as receiver:
            for _ in range(0, count, BATCH):
                left = BATCH
                while left:
                    left -= len(receiver.receive_messages(left, max_wait_time=30))

    def _floor(self, client: ServiceBusClient) -> float:
        with client.get_queue_sender(running.QUEUE) as sender:
            sender.send_messages([ServiceBusMessage(b"x") for _ in range(BATCH)])
        query = (
            self._spark.readStream.format("bendybus")
            .options(**self._options, startingOffsets="earliest")
            .option("maxMessagesPerTrigger", str(BATCH // FLOOR_BATCHES))
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(self._folder / "floor"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = [each.durationMs["triggerExecution"] for each in query.recentProgress]
        # Without the first ones, which start workers.
        return float(statistics.median(found[3:]))

    def _memory(self) -> Iterator[Figure]:
        """Yield the resident memory of Spark's processes."""
        found: dict[str, list[float]] = {"driver, JVM": [], "worker, Python": []}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                pages = int((folder / "statm").read_text().split()[1])
                session = os.getsid(int(folder.name))
            except OSError:
                continue
            kind = "driver, JVM" if b"org.apache.spark" in line else "worker, Python"
            if session == os.getsid(0) and (b"pyspark.daemon" in line or b"org.apache" in line):
                found[kind].append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        for name, sizes in found.items():
            if sizes:
                yield Figure(f"Spark: memory of the largest {name}", "MB", max(sizes))


def memory_source() -> type:
    """Return a format that yields the same Arrow batch again and again: Spark's own limit."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, rows: int, size: int) -> None:
            self._rows = rows
            self._size = size

        def partitions(self) -> list[Any]:
            return [InputPartition(index) for index in range(PARTITIONS)]

        def read(self, partition: Any) -> Iterator[Any]:
            import pyarrow as pa

            batch = pa.RecordBatch.from_arrays(
                [
                    pa.array([partition.value] * BATCH, pa.int32()),
                    pa.array(range(BATCH), pa.int64()),
                    pa.array([0] * BATCH, pa.timestamp("us", "UTC")),
                    pa.array([b"x" * self._size] * BATCH, pa.binary()),
                ],
                names=FEW_COLUMNS.split(","),
            )
            for _ in range(self._rows // PARTITIONS // BATCH):
                yield batch

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "arrow_in_memory"

        def schema(self) -> str:
            return "partition int, sequence_number bigint, enqueued_at timestamp, body binary"

        def reader(self, schema: Any) -> Any:
            return Reader(int(self.options["rows"]), int(self.options["size"]))

    return Source


def table(size: int, figures: list[Figure]) -> Table:
    """Return the figures of one size of bodies."""
    made = Table(title=f"bodies of {size} bytes", title_justify="left")
    made.add_column("what")
    made.add_column("figure", justify="right")
    made.add_column("of the client's", justify="right")
    by_name = {figure.what: figure.value for figure in figures}
    for figure in figures:
        digits = 1 if figure.value < 100 else 0
        share = f"{figure.value / by_name[figure.beside]:.0%}" if figure.beside else ""
        made.add_row(figure.what, f"{figure.value:,.{digits}f} {figure.unit}", share)
    return made


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="make bench-spark ARGS=…", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    quick = parser.parse_args().quick
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.dataSource.register(memory_source())
    console = Console(width=110)
    for size, count in MESSAGES.items():
        with tempfile.TemporaryDirectory(prefix="bendybus-bench-") as named:
            folder = Path(named)
            with running.bus(folder, PARTITIONS, running.PARTITION_SERVERS) as bus:
                bench = Bench(spark, bus, folder, size, count // QUICK if quick else count)
                console.print(table(size, list(bench.run())))
    spark.stop()


def _median(values: list[float]) -> float:
    return float(statistics.median(values))


if __name__ == "__main__":
    main()
