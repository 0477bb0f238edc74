"""Handles flights and keeps a record: each is completed and its record sent in one transaction.

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


def main(connection_string: str, flights: str, audit: str) -> list[str]:
    """Send two flights, handle what there is, and return the records that were received."""
    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_queue_sender(flights) as sender:
            sender.send_messages([ServiceBusMessage("UA 1"), ServiceBusMessage("UA 2")])
        receiver = client.get_queue_receiver(flights, max_wait_time=2)
        records = client.get_queue_sender(audit)
        for message in receiver:
            with client.transaction() as tx:
                # Messages of one entity are settled, and what is sent to others goes through it.
                receiver.complete_message(message, tx=tx)
                # A partitioned queue: what is sent in a transaction has a key.
                record = ServiceBusMessage(f"handled {message}", partition_key="records")
                records.send_messages(record, tx=tx)
        found = []
        with client.get_queue_receiver(audit, max_wait_time=2) as auditor:
            for record in auditor:
                found.append(str(record))
                auditor.complete_message(record)
        return found


if __name__ == "__main__":
    for record in main(os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL), "flights", "audit"):
        print(record)
