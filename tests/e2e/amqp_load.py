"""Runs in a test pod: azure-servicebus sends until it is stopped, then prints what it sent.

Usage: amqp_load.py QUEUE SESSION_QUEUE TOPIC. Twice a second /tmp/report.json holds how many
messages of each kind were acknowledged; when /tmp/stop appears, the names of all of them are
printed. What raised an error counts as not acknowledged, and may have been sent all the same.
"""

import collections
import datetime as dt
import itertools
import json
import os
import sys
import threading
import time
import uuid

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageHeader,
    AmqpMessageProperties,
)

STOP = "/tmp/stop"
REPORT = "/tmp/report.json"
KINDS = ("plain", "odd", "scheduled", "session", "topic")
PAUSE_S = 0.1
SESSIONS = 8


class Load:
    """What was sent, and the threads that send it."""

    def __init__(self, queue: str, sessions: str, topic: str) -> None:
        self.targets = {**dict.fromkeys(KINDS, queue), "session": sessions, "topic": topic}
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.acknowledged: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.errors: collections.Counter[str] = collections.Counter()

    def client(self) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(
            os.environ["BENDYBUS_SDK_CONNECTION_STRING"],
            connection_verify=os.environ["BENDYBUS_CA_FILE"],
            retry_total=1,
        )

    def send(self, kind: str) -> None:
        """Send messages of a kind, with a new client after each error."""
        numbers = itertools.count(1)
        while not self.stop.is_set():
            try:
                with self.client() as client:
                    self.send_with(client, kind, numbers)
            except Exception as error:
                with self.lock:
                    self.errors[f"{kind}: {type(error).__name__}: {str(error)[:120]}"] += 1
                self.stop.wait(0.5)

    def send_with(
        self, client: ServiceBusClient, kind: str, numbers: "itertools.count[int]"
    ) -> None:
        """Send until an error, or the end."""
        opened = client.get_topic_sender if kind == "topic" else client.get_queue_sender
        with opened(self.targets[kind]) as sender:
            while not self.stop.is_set():
                number = next(numbers)
                if kind == "scheduled":
                    at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
                    sender.schedule_messages(plain(kind, number), at)
                else:
                    sender.send_messages(odd(number) if kind == "odd" else plain(kind, number))
                with self.lock:
                    self.acknowledged[kind].append(f"{kind}-{number}")
                self.stop.wait(PAUSE_S)

    def run(self) -> None:
        # Not waited for: after a rollback they may be connecting to what is not there any more.
        for kind in KINDS:
            threading.Thread(target=self.send, args=(kind,), daemon=True).start()
        while not os.path.exists(STOP):
            self.write()
            time.sleep(0.5)
        self.stop.set()
        time.sleep(2)
        with self.lock:
            said = {"acknowledged": self.acknowledged, "errors": self.errors}
            print(json.dumps(said), flush=True)
        os._exit(0)

    def write(self) -> None:
        with self.lock:
            counts = {kind: len(names) for kind, names in self.acknowledged.items()}
        with open(f"{REPORT}.new", "w", encoding="utf-8") as file:
            json.dump(counts, file)
        os.replace(f"{REPORT}.new", REPORT)


def plain(kind: str, number: int) -> ServiceBusMessage:
    """Return a message as most programs send them."""
    name = f"{kind}-{number}"
    return ServiceBusMessage(
        name,
        message_id=name,
        subject="plain",
        session_id=f"session-{number % SESSIONS}" if kind == "session" else None,
        application_properties={"name": name, "number": number},
    )


def odd(number: int) -> AmqpAnnotatedMessage:
    """Return a message with much that only AMQP has."""
    name = f"odd-{number}"
    return AmqpAnnotatedMessage(
        value_body={"name": name, "key": uuid.uuid4()},
        header=AmqpMessageHeader(durable=True, priority=7),
        properties=AmqpMessageProperties(
            message_id=uuid.uuid4(), correlation_id=name, subject="odd"
        ),
        application_properties={"name": name, "number": number, "none": None, "bytes": b"some"},
        annotations={"x-own": uuid.uuid4(), "x-list": [1, "two"]},
        delivery_annotations={"x-hop": number},
        footer={"x-sum": b"\x00"},
    )


if __name__ == "__main__":
    Load(*sys.argv[1:]).run()
