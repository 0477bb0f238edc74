"""Purges by state and age through real processes, with the public client."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusMessageState
from tests.integration.test_messages import drain

NewQueue = Callable[..., str]


@pytest.mark.requirement("R195")
def test_a_purge_of_scheduled_messages_leaves_the_others(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    later = datetime.now(UTC) + timedelta(days=1)
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        for n in range(8):
            sender.send_messages(ServiceBusMessage(f"active {n}"))
            sender.schedule_messages(ServiceBusMessage("scheduled"), later)
        scheduled = [ServiceBusMessageState.SCHEDULED]
        an_hour_ago = datetime.now(UTC) - timedelta(hours=1)

        old = receiver.purge_messages(states=scheduled, before_enqueued_time_utc=an_hour_ago)
        purged = receiver.purge_messages(states=scheduled)

        assert (old, purged) == (0, 8)
        with pytest.raises(ValueError, match="at least one state"):
            receiver.purge_messages(states=[])
        with pytest.raises(ValueError, match="must be a ServiceBusMessageState"):
            receiver.purge_messages(states=["no state"])  # type: ignore[list-item]
    assert sorted(drain(client, name)) == [f"active {n}" for n in range(8)]
