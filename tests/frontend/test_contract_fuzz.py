"""Whatever a client's frame says: a front end answers it, or passes it on within the contract."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bendybus.domain import errors
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.frontend.core import peek
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.send import SendDispatcher
from bendybus.frontend.listeners.management_service import ManagementService
from bendybus.frontend.listeners.pipeline_service import PipelineService
from bendybus.frontend.listeners.receiver_service import ReceiverService
from bendybus.frontend.listeners.sender_service import SenderService
from bendybus.frontend.listeners.transaction_service import TransactionService
from bendybus.frontend.upstreams.stream import Lane
from bendybus.v1 import (
    management_pb2,
    message_pb2,
    pipeline_pb2,
    receiver_pb2,
    sender_pb2,
    transaction_pb2,
)
from tests.contract_messages import batches, messages
from tests.frontend.entities import queue
from tests.frontend.frames import submit

SERVICES = [
    service
    for file in (management_pb2, pipeline_pb2, receiver_pb2, sender_pb2, transaction_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
]
FUZZ = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))


class Upstream:
    """A partition that notes what it gets, as it would go over the wire."""

    available = True
    clock_offset_ms = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    @property
    def sends(self) -> "Upstream":
        """The stream of sends."""
        return self

    def put(self, request: Any, lane: Lane) -> bool:
        """Take a frame."""
        self.sent.append(request.SerializeToString())
        return True

    def miss(self, why: str) -> None:
        """Take note of a time that is over."""


def desk() -> tuple[SendDispatcher, dict[int, Upstream]]:
    """Return a desk of four partitions with the queue `orders`."""
    directory = Directory()
    fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
    directory.update(0, fingerprint, [queue()], snapshot=True)
    upstreams = {partition: Upstream() for partition in range(4)}
    return SendDispatcher(upstreams, directory, Metrics()), upstreams  # type: ignore[arg-type]


@FUZZ
@given(messages(sender_pb2.SendStreamRequest, depth=0), batches(message_pb2.MessageBatch))
async def test_every_frame_is_answered_or_passed_on(request_: Any, batch: Any) -> None:
    sends, upstreams = desk()
    request_.batch.CopyFrom(batch)
    request_.entity_path = "orders"
    if len(request_.group_sizes) != 1:
        del request_.group_sizes[:]
        request_.group_sizes.extend([1] * len(batch.messages))
    answers: list[Any] = []

    submit(sends, request_, answers.append)

    passed_on = sum(len(upstream.sent) for upstream in upstreams.values())
    assert bool(passed_on) != bool(answers)
    for partition in upstreams:
        sends.lost(partition, "the end of the test")
    assert all(answer.SerializeToString() is not None for answer in answers)


async def test_a_faulty_message_refuses_its_own_unit() -> None:
    sends, upstreams = desk()
    answers: list[Any] = []
    batch = message_pb2.MessageBatch(
        messages=[b"a", b"b", b"c"], time_to_live_ms=[0, 2**63 - 1, 1], message_ids=["a", "b", "c"]
    )

    submit(
        sends,
        sender_pb2.SendStreamRequest(
            frame_id=1, entity_path="orders", batch=batch, group_sizes=[1, 1, 1]
        ),
        answers.append,
    )

    assert not answers
    frames = [frame for upstream in upstreams.values() for frame in upstream.sent]
    from bendybus.internal.v1 import partition_pb2

    sent = [partition_pb2.SendFramesRequest.FromString(frame) for frame in frames]
    assert sorted(m for request in sent for m in request.batch.messages) == [b"a", b"c"]
    for partition in upstreams:
        sends.lost(partition, "the end of the test")


@FUZZ
@given(messages(receiver_pb2.PeekRequest))
def test_every_cursor_is_one_or_is_refused(request_: Any) -> None:
    from bendybus.internal.v1 import partition_pb2

    try:
        number = request_.from_sequence_number
        positions = (
            peek.positions_from(queue(), 4, number)
            if number
            else peek.positions_at(request_.cursor, 4)
        )
    except errors.InvalidArgument:
        return
    for position in positions:
        if position != peek.SKIP:
            partition_pb2.PeekRequest(from_sequence_number=position)


def test_a_cursor_with_a_number_that_cannot_be_is_refused() -> None:
    cursor = peek.cursor_of([0, 2**63, 0, 0])

    with pytest.raises(errors.InvalidArgument, match="cursor"):
        peek.positions_at(cursor, 4)


@pytest.mark.parametrize(
    "service",
    [ManagementService, PipelineService, ReceiverService, SenderService, TransactionService],
)
def test_every_unary_call_tells_an_error_as_its_status(service: type) -> None:
    """What decorates handlers does; a stream tells errors in its answers."""
    (public,) = [each for each in SERVICES if each.name == service.__name__]

    plain = [
        method.name
        for method in public.methods
        if not method.client_streaming
        and not method.server_streaming
        and not hasattr(getattr(service, method.name), "__wrapped__")
    ]

    assert plain == []
