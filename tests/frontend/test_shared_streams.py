"""No frame of one client ends the streams to partitions that all clients share."""

import pytest

from bendybus.frontend.core.quota.bounds import TOKENS, TOKENS_A_FRAME
from bendybus.frontend.upstreams import send_frames
from bendybus.frontend.upstreams.stream import FRAMES_MAX, Lane
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import sender_pb2
from bendybus.wire import frame_forms
from tests.frontend.entities import queue

pytestmark = pytest.mark.requirement("R651")
# Field 20, which there is not: a group begins, and ends.
BEGIN, END = b"\xa3\x01", b"\xa4\x01"


def frame_of(depth: int) -> sender_pb2.SendStreamRequest:
    """Return a client's frame of one message whose batch has groups in groups."""
    batch = b"\x0a\x01x" + BEGIN * depth + END * depth
    return sender_pb2.SendStreamRequest.FromString(b"\x22" + bytes(_varint(len(batch))) + batch)


def _varint(number: int) -> list[int]:
    return [number] if number < 128 else [number & 127 | 128, *_varint(number >> 7)]


@pytest.mark.parametrize("depth", [1, 50, 98, 99])
def test_unknown_fields_of_a_client_do_not_make_a_frame_that_a_partition_cannot_read(
    depth: int,
) -> None:
    batch = frame_of(depth).batch
    assert list(batch.messages) == [b"x"]

    first, second = (
        send_frames.request(
            partition=0, frame_id=number, entity=queue(), messages=batch, group_sizes=[1],
            producer_id=b"p", producer_sequence=number, spans=[], age_ms=0,
            deadline_monotonic_ms=0, measured=False,
        )
        for number in (1, 2)
    )  # fmt: skip
    waiting = [second]
    made = frame_forms.merged(first, lambda _: waiting.pop() if waiting else None)

    read = partition_pb2.SendFramesRequest.FromString(made.SerializeToString())
    assert [list(part.batch.messages) for part in frame_forms.parts(read)] == [[b"x"], [b"x"]]


def test_a_renewal_that_has_room_among_locks_has_room_in_the_line_of_its_partition() -> None:
    assert FRAMES_MAX[Lane.RENEW] == TOKENS.all // TOKENS_A_FRAME
    assert TOKENS.policy < TOKENS.all
