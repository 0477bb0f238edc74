"""Unary sends: those without a name of their client go to partitions with those of others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain.errors import OutcomeUnknown, QuotaExceeded
from bendybus.frontend.core import repeated_sends
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.sender_service import SenderService
from bendybus.frontend.upstreams import send_frames
from bendybus.v1 import message_pb2, sender_pb2
from tests.frontend.shared_bus import FrontEnd

pytestmark = pytest.mark.requirement("R643")
Response = sender_pb2.SendResponse


class Call:
    """A call of a client with some time left."""

    def time_remaining(self) -> float:
        """Return the rest of its time."""
        return 60.0

    async def abort_with_status(self, status: Any) -> None:
        """Refuse the call, when the status is written."""
        await asyncio.sleep(0)
        raise PermissionError(status.details)


def started(bus: FrontEnd, client: str, *bodies: bytes, **fields: Any) -> asyncio.Task[Response]:
    """Begin a call of a client that sends messages to the plain queue."""
    front_end: Any = SimpleNamespace(
        metrics=bus.metrics,
        upstreams={},
        send_answers=None,
        sends=bus.sends,
        nameless_sends=bus.repeated,
    )
    request_values.HOLDER.set(Holder(client, ""))
    messages = [
        sender_pb2.OutgoingMessage(message=message_pb2.Message(data=[body])) for body in bodies
    ]
    streams: Any = None
    context: Any = Call()
    service = SenderService(front_end, streams)
    request = sender_pb2.SendRequest(entity_path="plain", messages=messages, **fields)
    return asyncio.ensure_future(service.Send(request, context))


async def read() -> None:
    """Let the loop do what it does for calls that came."""
    for _ in range(3):
        await asyncio.sleep(0)


def refuse_all(bus: FrontEnd) -> None:
    """Let a partition refuse all that came, which is one frame."""
    [frame] = bus.frames
    answer = send_frames.Answer(frame.frame_id, [], [], [], QuotaExceeded("full"))
    bus.sends.answered(frame.partition, answer)


async def test_calls_without_a_name_that_come_at_the_same_time_are_one_frame() -> None:
    bus = FrontEnd()
    calls = [started(bus, "a", b"a1", b"a2"), started(bus, "b", b"b1")]
    await read()

    [frame] = bus.frames
    # The messages of a call are one unit.
    assert list(frame.group_sizes) == [2, 1]
    bus.answer(frame.frame_id)

    numbers = [list((await call).sequence_numbers) for call in calls]
    assert numbers == [[1, 2], [3]]


async def test_an_age_without_a_name_says_nothing_of_the_calls_it_goes_with() -> None:
    bus = FrontEnd()
    calls = [started(bus, "a", b"a1", age_ms=3_000_000), started(bus, "b", b"b1")]
    await read()

    refuse_all(bus)
    assert not bus.frames[0].age_ms

    # Nothing was tried before, so a refusal is known to be one.
    for call in calls:
        with pytest.raises(PermissionError, match="full"):
            await call


async def test_calls_that_fail_together_are_each_told_so() -> None:
    bus = FrontEnd()
    calls = [started(bus, client, b"1") for client in "abc"]
    await read()

    refuse_all(bus)

    # While the status of one is written, the next ones fail.
    for call in calls:
        with pytest.raises(PermissionError, match="full"):
            await call


async def test_calls_with_a_name_go_under_it() -> None:
    bus = FrontEnd()
    calls = [
        started(bus, "a", b"a1", producer_id=b"p" * 16, frame_id=7),
        started(bus, "a", b"a2", producer_id=b"p" * 16, frame_id=8),
    ]
    await read()

    assert [frame.producer_sequence for frame in bus.frames] == [7, 8]
    for frame in bus.frames:
        assert frame.producer_id == b"p" * 16
        bus.answer(frame.frame_id)
    await asyncio.gather(*calls)


async def test_a_call_without_a_name_is_repeated_while_its_outcome_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_sends, "PAUSE_S", 0.0)
    bus = FrontEnd()
    call = started(bus, "a", b"a1")
    await read()
    [first] = bus.frames
    bus.answer(first.frame_id, {0: OutcomeUnknown("lost")})

    again = await bus.repeat()
    bus.answer(again.frame_id)

    assert len((await call).sequence_numbers) == 1
    assert (again.producer_id, again.producer_sequence) == (
        first.producer_id,
        first.producer_sequence,
    )
