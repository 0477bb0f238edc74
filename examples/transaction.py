"""Turns an order into an invoice: the order is completed and the invoice sent in one transaction.

bendybus up -f examples/flights.yaml          # another terminal
python examples/transaction.py
"""

import os
from typing import Final

from bendybus.client import ServiceBusClient, ServiceBusMessage

LOCAL: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)


def main(connection_string: str, queue: str) -> list[str]:
    """Send two orders, turn each into an invoice, and return what the queue then holds."""
    with ServiceBusClient.from_connection_string(connection_string) as client:
        sender = client.get_queue_sender(queue)
        for number in (1, 2):
            sender.send_messages(
                ServiceBusMessage(f"order {number}", subject="order", partition_key="customer 7")
            )
        receiver = client.get_queue_receiver(queue, max_wait_time=5)
        for message in receiver:
            if message.subject == "invoice":
                break
            invoice = ServiceBusMessage(
                f"invoice for {message}", subject="invoice", partition_key=message.partition_key
            )
            with client.transaction() as tx:
                sender.send_messages(invoice, tx=tx)
                receiver.complete_message(message, tx=tx)
        return [str(message) for message in receiver.peek_messages(10, sequence_number=1)]


if __name__ == "__main__":
    for body in main(os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL), "audit"):
        print(body)
