"""Runs in a pod of the tests: sends and receives until told to stop, then says what came of it.

Usage: driver.py QUEUE [--rate N] [--keyed N] [--scheduled] [--sessions QUEUE]
[--topic TOPIC/SUBSCRIPTION]. Every second /tmp/report.json holds the figures so far; when /tmp/stop
appears, senders stop, what was acknowledged is received, and the last report is printed. A message
counts as acknowledged when send_messages, or schedule_messages, returned.
"""

import argparse
import collections
import datetime as dt
import json
import os
import threading
import time
from typing import Any

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage

STOP = "/tmp/stop"
REPORT = "/tmp/report.json"
DRAIN_S = 60.0
SESSIONS = 8
# Scheduled messages are due after so many seconds, in turn.
DUE_S = (1, 5, 20)


class Load:
    """The figures, and the threads that make them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        # Where each kind of message is sent.
        self.targets = {"keyless": options.queue}
        if options.keyed:
            self.targets["keyed"] = options.queue
        if options.scheduled:
            self.targets["scheduled"] = options.queue
        if options.sessions:
            self.targets["session"] = options.sessions
        if options.topic:
            self.targets["topic"] = options.topic.partition("/")[0]
        self.stop = threading.Event()
        self.drained = threading.Event()
        self.lock = threading.Lock()
        self.acknowledged: dict[str, set[str]] = {kind: set() for kind in ("keyed", *self.targets)}
        self.received: collections.Counter[str] = collections.Counter()
        # Of each session, in the order in which they were received first.
        self.in_sessions: dict[str, list[str]] = collections.defaultdict(list)
        self.errors: dict[str, collections.Counter[str]] = {
            kind: collections.Counter() for kind in ("keyed", *self.targets, "receive")
        }
        self.gap_s = dict.fromkeys(self.errors, 0.0)
        # Keyless only: what has a key waits while its partition is away, as it must.
        self.per_second: collections.Counter[int] = collections.Counter()
        self.began = time.monotonic()

    def client(self) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(os.environ["BENDYBUS_CONNECTION_STRING"])

    def sender(self, client: ServiceBusClient, kind: str) -> Any:
        name = self.targets[kind]
        if kind == "topic":
            return client.get_topic_sender(name)
        return client.get_queue_sender(name)

    def message(self, kind: str, number: int) -> ServiceBusMessage:
        name = f"{kind}-{number}"
        message = ServiceBusMessage(name, message_id=name)
        if kind == "keyed":
            message.partition_key = f"key-{number % self.options.keyed}"
        if kind == "session":
            message.session_id = f"session-{number % SESSIONS}"
        return message

    def send(self, kind: str) -> None:
        with self.client() as client, self.sender(client, kind) as sender:
            number, last, due = 0, time.monotonic(), time.monotonic()
            while not self.stop.is_set():
                number += 1
                message = self.message(kind, number)
                try:
                    if kind == "scheduled":
                        after = dt.timedelta(seconds=DUE_S[number % len(DUE_S)])
                        at = dt.datetime.now(dt.UTC) + after
                        sender.schedule_messages(message, at, timeout=15)
                    else:
                        sender.send_messages(message, timeout=15)
                except Exception as error:
                    self.failed(kind, error)
                else:
                    now = time.monotonic()
                    with self.lock:
                        self.acknowledged[kind].add(f"{kind}-{number}")
                        self.gap_s[kind] = max(self.gap_s[kind], now - last)
                        if kind == "keyless":
                            self.per_second[int(now - self.began)] += 1
                    last = now
                due = max(due + 1 / self.options.rate, time.monotonic() - 1)
                self.stop.wait(max(0.0, due - time.monotonic()))

    def receive(self, subscription: str = "") -> None:
        with self.client() as client:
            topic, _, name = subscription.partition("/")
            if topic:
                receiver = client.get_subscription_receiver(topic, name)
            else:
                receiver = client.get_queue_receiver(self.options.queue)
            last = time.monotonic()
            with receiver:
                while not self.drained.is_set():
                    try:
                        found = self.take(receiver)
                    except Exception as error:
                        self.failed("receive", error)
                        time.sleep(0.2)
                        continue
                    if found and not topic:
                        now = time.monotonic()
                        self.gap_s["receive"] = max(self.gap_s["receive"], now - last)
                        last = now

    def receive_sessions(self) -> None:
        """Take whichever session has messages, until it has none for a while."""
        with self.client() as client:
            while not self.drained.is_set():
                try:
                    with client.get_queue_receiver(
                        self.options.sessions, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2
                    ) as receiver:
                        # Not for ever: others have messages, too.
                        for _ in range(5):
                            if not self.take(receiver):
                                break
                except Exception as error:
                    if "Timeout" not in type(error).__name__:
                        self.failed("receive", error)
                        time.sleep(0.2)

    def take(self, receiver: Any) -> int:
        """Receive and complete messages; return how many there were. Raises what receiving does."""
        messages = receiver.receive_messages(100, max_wait_time=1)
        for message in messages:
            name = str(message)
            with self.lock:
                if message.session_id is not None and not self.received[name]:
                    self.in_sessions[message.session_id].append(name)
                self.received[name] += 1
            try:
                receiver.complete_message(message)
            except Exception as error:
                self.failed("receive", error)
        return len(messages)

    def out_of_order(self) -> list[str]:
        """Return acknowledged messages that came before earlier ones of their session."""
        found = []
        for names in self.in_sessions.values():
            last = 0
            for name in names:
                number = int(name.rpartition("-")[2])
                if name in self.acknowledged["session"] and number < last:
                    found.append(name)
                last = max(last, number)
        return found

    def failed(self, kind: str, error: Exception) -> None:
        with self.lock:
            self.errors[kind][f"{type(error).__name__}: {str(error)[:160]}"] += 1

    def report(self) -> dict[str, Any]:
        with self.lock:
            every = set().union(*self.acknowledged.values())
            missing = every - self.received.keys()
            seconds = range(max(self.per_second, default=0) + 1)
            return {
                "acknowledged": {kind: len(names) for kind, names in self.acknowledged.items()},
                "received": len(self.received),
                "missing": len(missing),
                "missing_names": sorted(missing)[:10],
                "out_of_order": self.out_of_order()[:10],
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
        senders = [threading.Thread(target=self.send, args=(kind,)) for kind in self.targets]
        receivers = [threading.Thread(target=self.receive)]
        if self.options.topic:
            receivers.append(threading.Thread(target=self.receive, args=(self.options.topic,)))
        if self.options.sessions:
            receivers += [threading.Thread(target=self.receive_sessions) for _ in range(3)]
        for thread in (*senders, *receivers):
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
        for thread in receivers:
            thread.join()
        print(json.dumps(self.report()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queue")
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second and sender")
    parser.add_argument("--keyed", type=int, default=16, help="how many keys; 0: keyless only")
    parser.add_argument("--scheduled", action="store_true", help="also scheduled messages")
    parser.add_argument("--sessions", default="", help="a queue with sessions")
    parser.add_argument("--topic", default="", help="a topic and its subscription")
    Load(parser.parse_args()).run()


if __name__ == "__main__":
    main()
