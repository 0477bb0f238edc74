"""How large the requests of calls may be."""

import pytest

from bendybus.domain import errors, limits
from bendybus.frontend.listeners import call_gate
from bendybus.v1 import receiver_pb2

RECEIVER = "/bendybus.v1.ReceiverService/"


@pytest.mark.requirement("R247")
def test_a_session_state_as_large_as_a_message_passes() -> None:
    request = receiver_pb2.SetSessionStateRequest(entity_path="orders", state=b"x" * 9 * limits.MB)

    parsed = call_gate.parsed(
        f"{RECEIVER}SetSessionState",
        request.SerializeToString(),
        receiver_pb2.SetSessionStateRequest.FromString,
    )

    assert parsed == request


@pytest.mark.requirement("R247")
def test_other_requests_of_receivers_that_large_are_refused() -> None:
    data = b"x" * (limits.REQUEST_BYTES_MAX + 1)

    for call in ("Settle", "GetSessionState", "ListSessionCounts", "Peek"):
        with pytest.raises(errors.MessageSizeExceeded, match="Split it"):
            call_gate.parsed(RECEIVER + call, data, bytes)
