"""Runs in a test pod: Bendybus's client receives all messages and prints them.

Usage: grpc_reader.py QUEUE SESSION_QUEUE TOPIC SUBSCRIPTION. Ends when nothing has come from any of
them for a while, and prints (name, number, subject, body) of each message, by their properties.
"""

import json
import os
import sys
import threading
from typing import Any

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusClient
from bendybus.client.exceptions import OperationTimeoutError

# Scheduled messages are due by then.
IDLE_S = 6


class Reader:
    """What was received, and the threads that receive it."""

    def __init__(self, queue: str, sessions: str, topic: str, subscription: str) -> None:
        self.queue, self.sessions = queue, sessions
        self.topic, self.subscription = topic, subscription
        self.received: list[tuple[Any, ...]] = []
        self.errors: list[str] = []

    def take(self, receiver: Any) -> None:
        """Receive and complete until there is nothing."""
        while messages := receiver.receive_messages(100, max_wait_time=IDLE_S):
            for message in messages:
                properties = message.application_properties or {}
                own = {text(key): value for key, value in properties.items()}
                row = (text(own["name"]), own["number"], message.subject, body(message))
                receiver.complete_message(message)
                self.received.append(row)

    def take_queue(self, client: ServiceBusClient) -> None:
        with client.get_queue_receiver(self.queue) as receiver:
            self.take(receiver)

    def take_subscription(self, client: ServiceBusClient) -> None:
        with client.get_subscription_receiver(self.topic, self.subscription) as receiver:
            self.take(receiver)

    def take_sessions(self, client: ServiceBusClient) -> None:
        while True:
            try:
                with client.get_queue_receiver(
                    self.sessions, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=IDLE_S
                ) as receiver:
                    self.take(receiver)
            except OperationTimeoutError:
                return

    def run(self) -> None:
        def tried(task: Any) -> None:
            try:
                connection_string = os.environ["BENDYBUS_CONNECTION_STRING"]
                with ServiceBusClient.from_connection_string(connection_string) as client:
                    task(client)
            except Exception as error:
                self.errors.append(repr(error))

        tasks = (self.take_queue, self.take_subscription, self.take_sessions)
        threads = [threading.Thread(target=tried, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps({"received": self.received, "errors": self.errors}), flush=True)


def text(value: Any) -> Any:
    """Return a text that may be bytes."""
    return value.decode() if isinstance(value, bytes) else value


def body(message: Any) -> str:
    """Return a message's body, or the text under `name` in it."""
    try:
        found = message.body
    except Exception as error:
        return repr(error)
    if isinstance(found, dict):
        return str({text(key): text(value) for key, value in found.items()}.get("name"))
    return str(message)


if __name__ == "__main__":
    Reader(*sys.argv[1:]).run()
