"""Transactions of an application: where one can be used, and what is refused before it is sent."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.core.transaction_link import State
from bendybus.client.exceptions import InvalidArgumentError

# No bus is there: what these tests refuse never gets that far.
NOWHERE = (
    "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true"
)
MESSAGE = ServiceBusMessage("x", partition_key="k")


@pytest.fixture
def client() -> Iterator[ServiceBusClient]:
    """A client without a bus."""
    with ServiceBusClient.from_connection_string(NOWHERE) as made:
        yield made


@pytest.mark.requirement("R128")
def test_a_transaction_belongs_to_its_client(client: ServiceBusClient) -> None:
    with ServiceBusClient.from_connection_string(NOWHERE) as other:
        sender = other.get_queue_sender("orders")
        with pytest.raises(InvalidArgumentError, match="of another client"):
            sender.send_messages(MESSAGE, tx=client.transaction())
        closed = other.transaction()
        other.close()
        with pytest.raises(ValueError, match="its client was closed"):
            closed.commit()
        with pytest.raises(ValueError, match="is closed"):
            other.transaction()


@pytest.mark.requirement("R128")
async def test_a_transaction_of_the_other_surface_is_refused(client: ServiceBusClient) -> None:
    sender = client.get_queue_sender("orders")
    async with aio.ServiceBusClient.from_connection_string(NOWHERE) as other:
        tx: Any = other.transaction()
        with pytest.raises(InvalidArgumentError, match="of another client"):
            sender.send_messages(MESSAGE, tx=tx)
    for tx in ("a text", client, sender):
        with pytest.raises(TypeError, match="must be a ServiceBusTransaction"):
            sender.send_messages(MESSAGE, tx=tx)


def test_what_cannot_be_part_of_a_transaction_is_not_done_without_it(
    client: ServiceBusClient,
) -> None:
    sender, tx = client.get_queue_sender("orders"), client.transaction()
    receiver = client.get_queue_receiver("orders")

    with pytest.raises(ValueError, match="cannot be part of a transaction"):
        sender.schedule_messages(MESSAGE, datetime.now(UTC), tx=tx)
    with pytest.raises(ValueError, match="cannot be part of a transaction"):
        sender.cancel_scheduled_messages(1, tx=tx)
    with pytest.raises(ValueError, match="cannot be part of a transaction"):
        receiver.receive_deferred_messages(1, tx=tx)
    with pytest.raises(ValueError, match="not allowed in a transaction"):
        sender.send_messages(MESSAGE, tx=tx, split_by_partition_key=True)


async def test_an_empty_block_does_not_need_the_bus(client: ServiceBusClient) -> None:
    with client.transaction() as tx:
        pass
    async with aio.ServiceBusClient.from_connection_string(NOWHERE) as other:
        async with other.transaction() as also:
            pass
        states = {tx._link.state, also._link.state}

    assert states == {State.COMMITTED}


async def test_a_client_that_was_closed_opens_again_where_its_next_block_begins() -> None:
    # As in the official sample about rules, which enters its client once per receiver.
    client = ServiceBusClient.from_connection_string(NOWHERE)
    for _ in range(2):
        with client:
            client.get_subscription_receiver("news", "a")
        with pytest.raises(ValueError, match="is closed"):
            client.transaction()
        client.get_subscription_receiver("news", "a").close()
    other = aio.ServiceBusClient.from_connection_string(NOWHERE)
    for _ in range(2):
        async with other:
            other.get_subscription_receiver("news", "a")
