"""Runs in a pod of the tests: sends and receives until told to stop, then says what came of it.

Usage: driver.py QUEUE [--rate N] [--keyed N]. Every second /tmp/report.json holds the figures so
far; when /tmp/stop appears, senders stop, what was acknowledged is received, and the last report
is printed. A message counts as acknowledged when send_messages returned.
"""

import argparse
import collections
import json
import os
import threading
import time
from typing import Any

from bendybus.client import ServiceBusClient, ServiceBusMessage

STOP = "/tmp/stop"
REPORT = "/tmp/report.json"
DRAIN_S = 60.0


class Load:
    """The figures, and the threads that make them."""

    def __init__(self, queue: str, rate: float, keyed: int) -> None:
        self.queue = queue
        self.rate = rate
        self.keyed = keyed
        self.stop = threading.Event()
        self.drained = threading.Event()
        self.lock = threading.Lock()
        self.acknowledged: dict[str, set[str]] = {"keyless": set(), "keyed": set()}
        self.received: collections.Counter[str] = collections.Counter()
        self.errors: dict[str, collections.Counter[str]] = {
            "keyless": collections.Counter(),
            "keyed": collections.Counter(),
            "receive": collections.Counter(),
        }
        self.gap_s = {"keyless": 0.0, "keyed": 0.0, "receive": 0.0}
        # Keyless only: what has a key waits while its partition is away, as it must.
        self.per_second: collections.Counter[int] = collections.Counter()
        self.began = time.monotonic()

    def client(self) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(os.environ["BENDYBUS_CONNECTION_STRING"])

    def send(self, kind: str) -> None:
        with self.client() as client, client.get_queue_sender(self.queue) as sender:
            number, last, due = 0, time.monotonic(), time.monotonic()
            while not self.stop.is_set():
                number += 1
                name = f"{kind}-{number}"
                message = ServiceBusMessage(name, message_id=name)
                if kind == "keyed":
                    message.partition_key = f"key-{number % self.keyed}"
                try:
                    sender.send_messages(message, timeout=15)
                except Exception as error:
                    with self.lock:
                        self.errors[kind][f"{type(error).__name__}: {str(error)[:160]}"] += 1
                else:
                    now = time.monotonic()
                    with self.lock:
                        self.acknowledged[kind].add(name)
                        self.gap_s[kind] = max(self.gap_s[kind], now - last)
                        if kind == "keyless":
                            self.per_second[int(now - self.began)] += 1
                    last = now
                due = max(due + 1 / self.rate, time.monotonic() - 1)
                self.stop.wait(max(0.0, due - time.monotonic()))

    def receive(self) -> None:
        with self.client() as client, client.get_queue_receiver(self.queue) as receiver:
            last = time.monotonic()
            while not self.drained.is_set():
                try:
                    messages = receiver.receive_messages(100, max_wait_time=1)
                except Exception as error:
                    self.failed("receive", error)
                    time.sleep(0.2)
                    continue
                for message in messages:
                    try:
                        receiver.complete_message(message)
                    except Exception as error:
                        self.failed("receive", error)
                    with self.lock:
                        self.received[str(message)] += 1
                if messages:
                    now = time.monotonic()
                    self.gap_s["receive"] = max(self.gap_s["receive"], now - last)
                    last = now

    def failed(self, kind: str, error: Exception) -> None:
        with self.lock:
            self.errors[kind][f"{type(error).__name__}: {str(error)[:160]}"] += 1

    def report(self) -> dict[str, Any]:
        with self.lock:
            every = self.acknowledged["keyless"] | self.acknowledged["keyed"]
            missing = every - self.received.keys()
            seconds = range(max(self.per_second, default=0) + 1)
            return {
                "acknowledged": {kind: len(names) for kind, names in self.acknowledged.items()},
                "received": len(self.received),
                "missing": len(missing),
                "missing_names": sorted(missing)[:10],
                "twice": sum(count - 1 for count in self.received.values()),
                "errors": {kind: dict(found) for kind, found in self.errors.items()},
                "gap_s": {kind: round(gap, 2) for kind, gap in self.gap_s.items()},
                "per_second": [self.per_second[second] for second in seconds],
            }

    def write(self) -> None:
        with open(f"{REPORT}.new", "w", encoding="utf-8") as file:
            json.dump(self.report(), file)
        os.replace(f"{REPORT}.new", REPORT)

    def run(self) -> None:
        kinds = ["keyless", "keyed"] if self.keyed else ["keyless"]
        senders = [threading.Thread(target=self.send, args=(kind,)) for kind in kinds]
        receiver = threading.Thread(target=self.receive)
        for thread in (*senders, receiver):
            thread.start()
        while not os.path.exists(STOP):
            self.write()
            time.sleep(0.5)
        self.stop.set()
        for thread in senders:
            thread.join()
        end = time.monotonic() + DRAIN_S
        while self.report()["missing"] and time.monotonic() < end:
            time.sleep(0.2)
        self.drained.set()
        receiver.join()
        print(json.dumps(self.report()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queue")
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second and sender")
    parser.add_argument("--keyed", type=int, default=16, help="how many keys; 0: keyless only")
    options = parser.parse_args()
    Load(options.queue, options.rate, options.keyed).run()


if __name__ == "__main__":
    main()
