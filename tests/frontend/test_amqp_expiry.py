"""When a message expires, as receivers over AMQP are told."""

from typing import Any

import pytest

from bendybus.amqp import sections
from bendybus.amqp.sections import Properties
from bendybus.frontend.listeners.amqp import outgoing_messages
from bendybus.v1 import message_pb2
from tests.frontend.amqp_examples import ENQUEUED_MS

LIVES = {"time_to_live_ms": [60_000]}
DUE = {"scheduled_enqueue_time_ms": [ENQUEUED_MS + 9_000]}


@pytest.mark.requirement("R524")
@pytest.mark.parametrize(
    ("own", "columns", "created", "expires"),
    [
        # The sender's clock, and the time to live that it asked for.
        ((5, 5 + 86_400_000), LIVES, ENQUEUED_MS, ENQUEUED_MS + 60_000),
        ((5, None), LIVES, 5, ENQUEUED_MS + 60_000),
        ((None, 7), LIVES, ENQUEUED_MS, ENQUEUED_MS + 60_000),
        ((None, 7), {}, None, None),
        ((5, 7), {}, 5, None),
        (
            (None, None),
            {**LIVES, **DUE, "states": [message_pb2.MESSAGE_STATE_SCHEDULED]},
            ENQUEUED_MS + 9_000,
            ENQUEUED_MS + 69_000,
        ),
        # It has become active.
        ((None, None), {**LIVES, **DUE}, ENQUEUED_MS, ENQUEUED_MS + 60_000),
    ],
)
def test_when_a_message_expires_is_what_the_bus_says(
    own: tuple[int | None, int | None],
    columns: dict[str, Any],
    created: int | None,
    expires: int | None,
) -> None:
    head = message_pb2.Message(creation_time_ms=own[0], absolute_expiry_time_ms=own[1])
    batch = message_pb2.DeliveredBatch(
        messages=[head.SerializeToString()], enqueued_time_ms=[ENQUEUED_MS], **columns
    )

    found = sections.decode(outgoing_messages.Delivery(batch).encode(0))

    properties = found.properties or Properties()
    assert (properties.creation_time, properties.absolute_expiry_time) == (created, expires)
