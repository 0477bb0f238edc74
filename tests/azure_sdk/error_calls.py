"""Calls of azure-servicebus that fail, one for each row of errors.toml, and what they raise.

A function does what comes first, and returns the call; only that is timed.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage

from tests.azure_sdk.error_bus import PAUSE_S, RETRIES, TRY_S

LOST_S: Final = 6.5
# For a session.
SOON_S: Final = 2
_OPTIONS: Final[Mapping[str, Any]] = {
    "retry_total": RETRIES,
    "retry_backoff_factor": PAUSE_S,
    "retry_mode": "fixed",
}
_CONDITION: Final = re.compile(r"Error condition: ([\w.:-]+?)\.(?:\s|$)")
Call = Callable[[], Any]


class Program:
    """A program with one job."""

    def __init__(self, job: Mapping[str, Any], ca_file: str) -> None:
        self._job = job
        self._ca_file = ca_file
        self._stack = ExitStack()

    def run(self) -> dict[str, Any]:
        """Do the job; return what was raised."""
        name = self._job["operation"].removeprefix("error:")
        with self._stack:
            call = _CALLS[name](self)
            began = time.monotonic()
            try:
                call()
            except Exception as error:
                found = _CONDITION.search(str(error))
                return {
                    "class": type(error).__name__,
                    "reason": found[1] if found else "",
                    "seconds": time.monotonic() - began,
                }
        raise AssertionError(f"{self._job['id']}: no error")

    def client(self, right: str) -> ServiceBusClient:
        """Return a client with a right."""
        text = self._job[right]
        made = ServiceBusClient.from_connection_string(
            text, connection_verify=self._ca_file, **_OPTIONS
        )
        return self._stack.enter_context(made)

    def send(self, message: ServiceBusMessage, right: str = "send") -> Call:
        """Return the call that sends a message."""
        sender = self.client(right).get_queue_sender(self._job["entity"])
        return lambda: sender.send_messages(message, timeout=TRY_S)

    def receiver(self, **options: Any) -> Any:
        """Return a receiver that is not open."""
        options.setdefault("max_wait_time", TRY_S)
        return self.client("listen").get_queue_receiver(self._job["entity"], **options)

    def send_one(self) -> Call:
        """Send a message."""
        return self.send(ServiceBusMessage("x"))

    def no_right(self) -> Call:
        """Send with the right to listen."""
        return self.send(ServiceBusMessage("x"), "listen")

    def too_large(self) -> Call:
        """Send a message of 2 MB."""
        return self.send(ServiceBusMessage(b"x" * 2 * 1024 * 1024))

    def keyed(self) -> Call:
        """Send to the partition that is down."""
        return self.send(ServiceBusMessage("x", partition_key=self._job["key"]))

    def receive(self) -> Call:
        """Receive."""
        receiver = self.receiver()
        return lambda: receiver.receive_messages(max_wait_time=TRY_S)

    def lock_lost(self) -> Call:
        """Complete too late."""
        self.send_one()()
        receiver = self.receiver()
        [message] = receiver.receive_messages()
        time.sleep(LOST_S)
        # The SDK knows that the lock is lost, and does not ask the bus.
        return lambda: receiver.complete_message(message)

    def session_held(self) -> Call:
        """Accept a session for the second time."""
        self._stack.enter_context(self.receiver(session_id="a"))
        second = self.receiver(session_id="a")
        return lambda: second.__enter__()

    def session_lock_lost(self) -> Call:
        """Set the state too late."""
        receiver = self._stack.enter_context(self.receiver(session_id="a"))
        time.sleep(LOST_S)
        return lambda: receiver.session.set_state(b"x")

    def no_session(self) -> Call:
        """Accept the next session, and there is none."""
        receiver = self.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=SOON_S)
        return lambda: receiver.__enter__()


_CALLS: Final[Mapping[str, Callable[[Program], Call]]] = {
    "missing_entity": Program.send_one,
    "wrong_key": Program.send_one,
    "no_right": Program.no_right,
    "disabled_send": Program.send_one,
    "disabled_receive": Program.receive,
    "too_large": Program.too_large,
    "queue_full": Program.send_one,
    "lock_lost": Program.lock_lost,
    "session_held": Program.session_held,
    "session_lock_lost": Program.session_lock_lost,
    "no_session": Program.no_session,
    "partition_unavailable": Program.keyed,
}
