"""Collects the orders of two shops in one queue, and what fails there in another one.

bendybus up -f examples/flights.yaml          # another terminal
bendybus create queue failures --partitioned
bendybus create queue orders --partitioned --set forwardDeadLetteredMessagesTo=failures
bendybus create queue shop-a --partitioned --set forwardTo=orders
bendybus create queue shop-b --partitioned --set forwardTo=orders
python examples/forwarding.py
"""

import os
from typing import Final

from bendybus.client import ServiceBusClient, ServiceBusMessage

LOCAL: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)


def main(connection_string: str) -> tuple[list[str], list[str]]:
    """Send orders to both shops; return those that are good, and the reasons of the others."""
    good: list[str] = []
    reasons: list[str] = []
    with ServiceBusClient.from_connection_string(connection_string) as client:
        for shop in ("shop-a", "shop-b"):
            with client.get_queue_sender(shop) as sender:
                for what in ("tea", "nothing"):
                    sender.send_messages(ServiceBusMessage(what, subject=shop))
        with client.get_queue_receiver("orders", max_wait_time=5) as receiver:
            for message in receiver:
                if str(message) == "nothing":
                    receiver.dead_letter_message(message, reason=f"empty, from {message.subject}")
                else:
                    receiver.complete_message(message)
                    good.append(f"{message} from {message.subject}")
        with client.get_queue_receiver("failures", max_wait_time=5) as receiver:
            for message in receiver:
                receiver.complete_message(message)
                reasons.append(f"{message.dead_letter_source}: {message.dead_letter_reason}")
    return sorted(good), sorted(reasons)


if __name__ == "__main__":
    for lines in main(os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL)):
        print(*lines, sep="\n")
