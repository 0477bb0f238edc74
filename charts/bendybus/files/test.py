"""Run by `helm test` in a pod: send to a queue of its own, receive, compare."""

import os
import sys
import time
import uuid
from pathlib import Path

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import ServiceBusError

ACCESS = Path("/etc/bendybus/access")
QUEUE = os.environ["QUEUE"]
MESSAGES = 10


def main() -> int:
    """Return 0 when every message came back; 1 after TIMEOUT_S without."""
    over_at = time.monotonic() + float(os.environ["TIMEOUT_S"])
    while True:
        try:
            # Read the Secret each time: at first it may belong to the bus of an earlier test.
            where = (ACCESS / "primaryConnectionString").read_text(encoding="utf-8")
            with ServiceBusClient.from_connection_string(
                where, connection_verify=str(ACCESS / "ca.crt"), retry_total=0
            ) as bus:
                return exchange(bus)
        except (ServiceBusError, OSError) as error:
            # The queue and the front end may not be there yet.
            print(f"not yet: {error}", flush=True)
            if time.monotonic() > over_at:
                return 1
            time.sleep(2)


def exchange(bus: ServiceBusClient) -> int:
    """Send messages of this run and receive them; others, of an earlier run, are completed too."""
    run = str(uuid.uuid4())
    sent = {f"{run} {number}" for number in range(MESSAGES)}
    with bus.get_queue_sender(QUEUE) as sender:
        sender.send_messages([ServiceBusMessage(body) for body in sorted(sent)])
    print(f"{len(sent)} sent to {QUEUE}", flush=True)
    missing = set(sent)
    with bus.get_queue_receiver(QUEUE, max_wait_time=10) as receiver:
        for message in receiver:
            missing.discard(str(message))
            receiver.complete_message(message)
            if not missing:
                break
    print(f"{len(sent - missing)} received from {QUEUE}", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
