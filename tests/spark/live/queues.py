"""A queue as these tests use it: filled, read by Spark, counted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bendybus.client import ServiceBusMessage
from tests.integration.processes import Bus


class Queue:
    """One queue of a bus, and the options with which Spark finds it."""

    def __init__(self, bus: Bus, spark: Any, name: str, folder: Path) -> None:
        self.bus = bus
        self.spark = spark
        self.name = name
        self.folder = folder
        file = folder / "connection-string"
        file.write_text(bus.connection_string)
        self.options = {"connectionStringFile": str(file), "queue": name}

    def create(self, **options: Any) -> None:
        """Create it."""
        with self.bus.administration() as administration:
            administration.create_queue(self.name, **options)

    def send(self, bodies: Sequence[str], **properties: Any) -> None:
        """Send messages, spread over the partitions."""
        with self.bus.client() as client, client.get_queue_sender(self.name) as sender:
            for first in range(0, len(bodies), 5):
                sender.send_messages(
                    [ServiceBusMessage(body, **properties) for body in bodies[first : first + 5]]
                )

    def active(self) -> int:
        """Return how many messages are in it."""
        with self.bus.administration() as administration:
            found = administration.get_queue_runtime_properties(self.name)
        return int(found.active_message_count)

    def received(self) -> list[str]:
        """Receive and delete all that is there; return the bodies."""
        with self.bus.client() as client:
            receiver = client.get_queue_receiver(
                self.name, receive_mode="receiveanddelete", max_wait_time=1
            )
            with receiver:
                return [str(message) for message in receiver]

    def ids_and_numbers(self) -> list[tuple[str, Any]]:
        """Receive all that `sent` put there; return the ids, and the property with its type."""
        with self.bus.client() as client:
            found = list(client.get_queue_receiver(self.name, max_wait_time=2))
        return sorted(
            (str(message.message_id), (message.application_properties or {})["n"])
            for message in found
        )

    def read(self, **options: Any) -> Any:
        """Return a batch read."""
        return self.spark.read.format("bendybus").options(**self.options, **options).load()

    def stream(self, **options: Any) -> Any:
        """Return a streaming read."""
        return self.spark.readStream.format("bendybus").options(**self.options, **options).load()

    def write(self, frame: Any, **options: Any) -> None:
        """Write a frame into it."""
        frame.write.format("bendybus").options(**self.options, **options).mode("append").save()

    def drain(self, to: str = "out", **options: Any) -> Any:
        """Drain all that is there into Parquet files; return the query, which has ended."""
        query = self.start(self.stream(settle="trailing", **options), to)
        query.awaitTermination(60)
        assert not query.isActive
        return query

    def start(self, frame: Any, to: str = "out") -> Any:
        """Write a stream into Parquet files, as far as there is something now."""
        return (
            frame.writeStream.format("parquet")
            .option("path", str(self.folder / to))
            .option("checkpointLocation", str(self.folder / f"{to}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    def written(self, to: str = "out") -> list[str]:
        """Return the bodies in the Parquet files, in order."""
        rows = self.spark.read.parquet(str(self.folder / to)).select("body").collect()
        return sorted(bytes(row.body).decode() for row in rows)


def entity(queue: Queue) -> dict[str, str]:
    """Return the options of a queue as commands make them."""
    given = {name: value for name, value in queue.options.items() if name != "queue"}
    return {**given, "entity": queue.name}


def sent(queue: Queue, count: int = 20) -> list[str]:
    """Fill a queue with messages that have a bit of everything."""
    with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
        for number in range(count):
            sender.send_messages(
                ServiceBusMessage(
                    f"m{number}",
                    subject=f"s{number % 2}",
                    message_id=f"id-{number}",
                    partition_key=f"k{number % 3}",
                    application_properties={"n": number},
                )
            )
    return sorted(f"m{number}" for number in range(count))
