"""Works off orders, customer by customer: each customer's messages in order, with a running total.

bendybus up -f examples/flights.yaml          # another terminal
bendybus create queue orders --partitioned --requires-session
python examples/sessions.py
"""

import os
from typing import Final

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import OperationTimeoutError

LOCAL: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)


def main(connection_string: str, queue: str) -> dict[str, int]:
    """Send orders of three customers, work them off, and return the total of each customer."""
    totals: dict[str, int] = {}
    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_queue_sender(queue) as sender:
            for amount in (1, 2, 3):
                for customer in ("ada", "bob", "cyd"):
                    sender.send_messages(ServiceBusMessage(str(amount), session_id=customer))
        while True:
            receiver = client.get_queue_receiver(
                queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2
            )
            try:
                with receiver:
                    session = receiver.session
                    assert session is not None
                    for message in receiver:
                        total = int(session.get_state() or 0) + int(str(message))
                        session.set_state(str(total))
                        receiver.complete_message(message)
                        totals[str(session.session_id)] = total
            except OperationTimeoutError:
                # No session has messages.
                return totals


if __name__ == "__main__":
    for name, total in main(os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL), "orders").items():
        print(name, total)
