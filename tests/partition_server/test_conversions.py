"""Front ends of 0.2 and partitions of today, as in the middle of an upgrade."""

from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.service import frames
from bendybus.v1 import message_pb2
from tests.partition_server.driver import Driver


def test_two_parts_of_a_frame_that_share_their_old_name_are_both_stored(queue: Driver) -> None:
    """0.2 named parts by a lane: a keyed and a keyless part of one frame could have the same."""
    ref = queue.ref()
    parts = [
        partition_pb2.SendFramesRequest(
            entity=partition_pb2.EntityRef(uid=ref.uid, generation=ref.generation),
            batch=message_pb2.MessageBatch(messages=[body]),
            producer_id=b"p" * 16,
            producer_sequence=5,
            producer_lane=1,
        )
        for body in (b"keyed", b"keyless")
    ]

    for part in parts:
        queue.run(frames.send_command(part, "t"))  # type: ignore[arg-type]

    assert {row.payload for row, _ in queue.receive(10)} == {b"keyed", b"keyless"}
