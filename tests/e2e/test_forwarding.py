"""Forwarding by manifest on a real cluster: from pod to pod, through their network policies."""

from typing import Any

import pytest

from tests.e2e.conftest import Space

Body = dict[str, Any]
SECRET = "bus-rootmanagesharedaccesskey"
COUNT = 200

# Sends messages with ids, each twice. They have no key where they are sent, and one at the
# destination, so that half of them are for the other partition.
SEND = """
import os
from bendybus.client import ServiceBusClient, ServiceBusMessage

connection = os.environ["BENDYBUS_CONNECTION_STRING"]
with ServiceBusClient.from_connection_string(connection) as client:
    with client.get_queue_sender("incoming") as sender:
        for number in range(%d, %d):
            for _ in range(2):
                sender.send_messages(ServiceBusMessage("x", message_id=f"m{number}"))
"""

# Receives until nothing more comes; shows how many messages and how many different ones there were.
RECEIVE = """
import os
from bendybus.client import ServiceBusClient

connection, found = os.environ["BENDYBUS_CONNECTION_STRING"], []
with ServiceBusClient.from_connection_string(connection) as client:
    with client.get_queue_receiver("once", max_wait_time=20) as receiver:
        for message in receiver:
            receiver.complete_message(message)
            found.append((message.message_id, message.partition))
ids = [each for each, _ in found]
print(len(ids), len(set(ids)), len({partition for _, partition in found}))
"""


@pytest.mark.core
def test_what_is_forwarded_between_partitions_arrives_once_though_one_is_killed(
    space: Space,
) -> None:
    # In the wrong order: what forwards waits for its destination.
    space.start(
        space.bus("bus", 2),
        space.queue("incoming", "bus", forwardTo="once"),
        space.queue("once", "bus", requiresDuplicateDetection=True),
    )

    space.say(f"python3 -c '{SEND % (0, COUNT // 2)}'", secret=SECRET)
    pod = space.partition_pod("bus", 1)
    space.cluster.kubectl("delete", "pod", pod, "-n", space.name, "--grace-period=0", "--force")
    space.say(f"python3 -c '{SEND % (COUNT // 2, COUNT)}'", secret=SECRET)

    said = space.say(f"python3 -c '{RECEIVE}'", secret=SECRET, within_s=90)
    assert said.splitlines()[-1] == f"{COUNT} {COUNT} 2"
