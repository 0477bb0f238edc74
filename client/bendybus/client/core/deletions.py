"""What batch deletes and purges ask for."""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from bendybus.client import arguments
from bendybus.client.messages import values
from bendybus.client.messages.enums import ServiceBusMessageState
from bendybus.domain.message_state import MessageState
from bendybus.v1 import receiver_pb2
from bendybus.wire import batch_deletes


def request(
    entity_path: str,
    max_message_count: int,
    before: datetime | None,
    states: Iterable[ServiceBusMessageState],
) -> receiver_pb2.DeleteMessagesRequest:
    """Return a request to delete the oldest messages of these states, enqueued before then."""
    count = arguments.count("max_message_count", max_message_count)
    if before is not None:
        before = arguments.moment("before_enqueued_time_utc", before)
    made = receiver_pb2.DeleteMessagesRequest(
        entity_path=entity_path, max_messages=count, operation_id=uuid.uuid4().bytes
    )
    wanted = [MessageState(state + 1) for state in states]
    before_ms = 0 if before is None else values.to_milliseconds(before)
    batch_deletes.write(made, wanted, before_ms)
    return made


def states_to_purge(states: Any) -> list[ServiceBusMessageState]:
    """Return the states of messages that a purge deletes; None: all of them."""
    if states is None:
        return list(ServiceBusMessageState)
    try:
        found = sorted({ServiceBusMessageState(each) for each in states})
    except (TypeError, ValueError):
        raise arguments.invalid("states", "each must be a ServiceBusMessageState") from None
    if not found:
        raise arguments.invalid("states", "must be at least one state, or None for all of them")
    return found
