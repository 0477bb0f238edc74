"""What sessions hold, in the contract. Pure."""

from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.state.answers import SessionCounts, SessionsCounted
from bendybus.partition_server.store.store import CountPlace
from bendybus.v1 import receiver_pb2


def place(request: partition_pb2.CountSessionsRequest) -> CountPlace | None:
    """Return where a call goes on; None: at the beginning."""
    if not request.HasField("after"):
        return None
    after = request.after
    return CountPlace(
        after.session_id,
        after.state,
        after.counter,
        after.active,
        after.deferred,
        after.scheduled,
    )


def response(counted: SessionsCounted) -> partition_pb2.CountSessionsResponse:
    """Return the answer to a call."""
    following = counted.following
    return partition_pb2.CountSessionsResponse(
        sessions=[_to_proto(each) for each in counted.sessions],
        following=None
        if following is None
        else partition_pb2.SessionCountPlace(**following._asdict()),
    )


def _to_proto(counts: SessionCounts) -> receiver_pb2.SessionCounts:
    return receiver_pb2.SessionCounts(
        session_id=counts.session_id,
        active_message_count=counts.active,
        deferred_message_count=counts.deferred,
        scheduled_message_count=counts.scheduled,
        locked_message_count=counts.locked,
        state_size_in_bytes=counts.state_bytes,
        locked_until_ms=counts.locked_until_ms,
    )
