"""Frames of the stream of sends: what they ask for, and what they are answered."""

from typing import Any

from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.broker.replies import SendReply
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state import answers, commands
from bendybus.wire import statuses


def command(request: partition_pb2.SendFramesRequest, reply: SendReply) -> commands.Append:
    """Return what a frame asks for."""
    return commands.Append(
        reply,
        conversions.entity_ref(request.entity),
        conversions.batch_from_proto(request.batch),
        list(request.group_sizes),
        request.producer_id if request.spans else b"",
        request.producer_sequence,
        request.spans,
        request.age_ms,
        request.deadline_monotonic_ms,
    )


def response(answer: tuple[int, Any]) -> partition_pb2.SendFramesResponse:
    """Return the frame of an answer: (frame id, outcome)."""
    frame_id, value = answer
    if isinstance(value, answers.Failed):
        return partition_pb2.SendFramesResponse(
            frame_id=frame_id, error=statuses.to_error(value.error)
        )
    return partition_pb2.SendFramesResponse(
        frame_id=frame_id,
        sequence_numbers=value.numbers,
        duplicates=value.duplicates,
        failures=[
            partition_pb2.GroupFailure(group=group, error=statuses.to_error(error))
            for group, error in value.failures
        ],
    )
