"""What the front end fills in where a sender says nothing."""

import pytest

from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.frontend.core.figures import Figures
from bendybus.frontend.core.send import SendDispatcher
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, sender_pb2
from tests.frontend.entities import queue
from tests.frontend.frames import submit


class Upstream:
    """A partition that keeps what it is sent and answers nothing."""

    available = True
    clock_offset_ms = 0

    def __init__(self) -> None:
        self.requests: list[partition_pb2.SendFramesRequest] = []

    def send(self, request: partition_pb2.SendFramesRequest) -> bool:
        """Take a frame."""
        self.requests.append(request)
        return True


@pytest.mark.requirement("R31")
async def test_a_send_that_names_no_time_has_60_seconds() -> None:
    directory = Directory()
    fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
    directory.update(0, fingerprint, [queue()], snapshot=True)
    upstreams = {partition: Upstream() for partition in range(4)}
    desk = SendDispatcher(upstreams, directory, Figures())  # type: ignore[arg-type]
    # With a key: it has all the time there is.
    batch = message_pb2.MessageBatch(messages=[b"x"], partition_keys=["k"])
    frame = sender_pb2.SendStreamRequest(frame_id=1, entity_path="orders", batch=batch)
    before = now_ms()

    submit(desk, frame, lambda answer: None)

    [request] = [each for upstream in upstreams.values() for each in upstream.requests]
    assert before + 60_000 <= request.deadline_monotonic_ms <= now_ms() + 60_000
    for partition in upstreams:
        desk.lost(partition, "end")
