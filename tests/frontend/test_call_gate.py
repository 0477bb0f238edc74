"""How large the requests of calls may be."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from bendybus.domain import errors, limits
from bendybus.frontend.core.quota.bounds import OPEN_CALLS
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.listeners import call_gate
from bendybus.frontend.listeners.call_gate import CallGate
from bendybus.v1 import receiver_pb2
from bendybus.wire.serving import Health

RECEIVER = "/bendybus.v1.ReceiverService/"


@pytest.mark.requirement("R247")
def test_a_session_state_as_large_as_a_message_passes() -> None:
    request = receiver_pb2.SetSessionStateRequest(entity_path="orders", state=b"x" * 9 * limits.MB)
    data = request.SerializeToString()

    call_gate.check_size(f"{RECEIVER}SetSessionState", data)

    assert call_gate.parsed(data, receiver_pb2.SetSessionStateRequest.FromString) == request


@pytest.mark.requirement("R247")
def test_other_requests_of_receivers_that_large_are_refused() -> None:
    data = b"x" * (limits.REQUEST_BYTES_MAX + 1)

    for call in ("Settle", "GetSessionState", "ListSessionCounts", "Peek"):
        with pytest.raises(errors.MessageSizeExceeded, match="Split it"):
            call_gate.check_size(RECEIVER + call, data)


class Context:
    """A call whose refusal is an exception."""

    async def abort_with_status(self, status: Any) -> None:
        """Refuse the call."""
        raise PermissionError(status.details)


@pytest.mark.requirement("R434")
async def test_few_calls_that_any_token_is_enough_for_are_open_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_gate, "ANY_TOKEN_MAX", 1)
    monkeypatch.setattr(call_gate, "ANY_TOKEN_S", 0.05)
    anything: Any = None
    gate = CallGate(anything, anything, Quota(), lambda _: 1, 1)

    async def answers(requests: Any, _: Any) -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    handler = gate._bounded(grpc.stream_stream_rpc_method_handler(answers))
    first = handler.stream_stream(anything, Context())
    assert await anext(first) == b"first"
    with pytest.raises(PermissionError, match="use reflection now"):
        await anext(handler.stream_stream(anything, Context()))

    with pytest.raises(PermissionError, match="may take"):
        await anext(first)
    assert await anext(handler.stream_stream(anything, Context())) == b"first"


class Asking:
    """A call about health on a connection; its answer goes out when `reads` is set."""

    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.reads = asyncio.Event()
        self.answers: list[bytes] = []

    def peer(self) -> str:
        """Return the connection."""
        return self.connection

    async def write(self, answer: bytes) -> None:
        """Wait until the caller reads."""
        await self.reads.wait()
        self.answers.append(answer)

    async def abort_with_status(self, status: Any) -> None:
        """Refuse the call."""
        raise PermissionError(status.details)


@pytest.mark.parametrize("method", ["Check", "Watch"])
async def test_one_connection_has_few_questions_about_health_whose_answers_it_does_not_read(
    method: str,
) -> None:
    anything: Any = None
    health, quota = Health(), Quota()
    await health.set("", health_pb2.HealthCheckResponse.SERVING)
    gate = CallGate(anything, health, quota, lambda _: 1, 1)
    ask = gate._open[f"/grpc.health.v1.Health/{method}"].stream_stream
    unread = [Asking("a") for _ in range(OPEN_CALLS.connection)]
    tasks = [asyncio.ensure_future(ask(anything, each)) for each in unread]
    await asyncio.sleep(0)

    with pytest.raises(PermissionError, match="calls without a token"):
        await ask(anything, Asking("a"))
    other = Asking("b")
    other.reads.set()
    tasks.append(asyncio.ensure_future(ask(anything, other)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert other.answers == [b"\x08\x01"]
    # The places are there again when the calls are over.
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert quota.open_calls.held == 0


@pytest.mark.requirement("R430")
async def test_the_time_that_a_receive_waits_for_room_is_a_part_of_its_wait() -> None:
    waited: list[float] = []

    class Call:
        """Waits a while for room."""

        async def room_for_answer(self, _: int, wait_s: float) -> None:
            """Take note of how long that may be."""
            waited.append(wait_s)
            await asyncio.sleep(0.1)

    made: Any = Call()
    request = receiver_pb2.ReceiveRequest(max_wait_ms=2_000)
    await call_gate._room_for_answer(made, 1, request)
    assert 1_000 < request.max_wait_ms <= 1_900
    request.max_wait_ms = 0
    await call_gate._room_for_answer(made, 1, request)

    assert waited == [2.0, 0.0]
    assert request.max_wait_ms == 0
