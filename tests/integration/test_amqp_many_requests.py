"""Thousands of requests to $management on one connection at once. Real processes."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from bendybus.amqp import sections, values
from bendybus.amqp.performatives import Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Array, Symbol, Timestamp
from tests.amqp.peers import framed
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R544")]
COUNT = 3_000
NODE = "orders/$management"
WITHIN_S = 60.0
LATER_MS = 3_600_000


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[RawAmqp]:
    bus = AmqpBus(tmp_path, partitions=1)
    with bus.administration() as administration:
        administration.create_queue("orders")
    with RawAmqp(bus.amqp_address).open() as made:
        assert made.attach(NODE, SENDER) is None
        assert made.attach(NODE, RECEIVER) is None
        made.flow(NODE, 10 * COUNT, incoming_window=100 * COUNT)
        yield made
    bus.end()


def statuses(peer: RawAmqp, operation: str, body: Callable[[int], Any], first: int) -> Counter[int]:
    """Return how often each status came for requests that were written all at once."""
    written = b"".join(
        framed(
            Transfer(peer.handles[NODE, SENDER], number, number.to_bytes(4), 0, settled=True),
            sections.encode(
                Message(
                    properties=Properties(message_id=str(number)),
                    application_properties={"operation": f"com.microsoft:{operation}"},
                    value=body(number - first),
                    has_value=True,
                )
            ),
        )
        for number in range(first, first + COUNT)
    )
    writer = threading.Thread(target=peer.write, args=(written,))
    writer.start()
    counted: Counter[int] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while counted.total() < COUNT and time.monotonic() < deadline:
        peer.read(1.0)
        for _, frame, payload in peer.frames:
            if isinstance(frame, Transfer):
                found = sections.decode(payload).application_properties
                assert isinstance(found, dict)
                counted[int(found["statusCode"])] += 1
        peer.frames.clear()
    writer.join()
    return counted


def scheduled(number: int) -> Any:
    due = Timestamp(round(time.time() * 1_000) + LATER_MS)
    message = Message(
        properties=Properties(message_id=str(number)),
        message_annotations={Symbol("x-opt-scheduled-enqueue-time"): due},
        data=[b"x" * 100],
    )
    return {"messages": [{"message-id": str(number), "message": sections.encode(message)}]}


def test_none_of_thousands_of_requests_at_once_is_refused(peer: RawAmqp) -> None:
    def cancelled(number: int) -> Any:
        return {"sequence-numbers": Array(values.LONG, [number + 1])}

    def renewed(number: int) -> Any:
        return {"lock-tokens": Array(values.UUID, [UUID(int=number)])}

    assert statuses(peer, "schedule-message", scheduled, 0) == {200: COUNT}
    assert statuses(peer, "cancel-scheduled-message", cancelled, COUNT) == {200: COUNT}
    # There are no such locks.
    assert statuses(peer, "renew-lock", renewed, 2 * COUNT) == {410: COUNT}
