"""The memory of requests is computed before parsing: each field of each method for clients."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from bendybus.domain import errors
from bendybus.domain.limits import KB, MB
from bendybus.frontend.core.quota.bounds import FRAMES, PARSED_SMALL_BYTES
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners import call_gate, grpc_methods, request_memory
from bendybus.frontend.listeners.request_memory import Frames, memory_of
from bendybus.v1 import (
    management_pb2,
    message_pb2,
    pipeline_pb2,
    receiver_pb2,
    sender_pb2,
    transaction_pb2,
)
from bendybus.wire import expansion, memory
from tests.wire.test_expansion import varint

pytestmark = pytest.mark.requirement("R632")
# The contracts of these services are loaded with them.
SERVICES = (management_pb2, pipeline_pb2, transaction_pb2)
HOLDER = Holder("connection", "policy")
# Far more than what a process allocates beside.
ELEMENTS = 70_001
DEPTH = 6


def fields(descriptor: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each field of a request, each field of a type once on a way."""
    for field in descriptor.fields:
        if field in path or len(path) > DEPTH:
            continue
        yield (*path, field)
        if field.message_type is not None:
            yield from fields(field.message_type, (*path, field))


def every_field() -> Iterator[Any]:
    """Yield a request's type and the way to a field, for each field of all methods."""
    seen = set()
    for method in grpc_methods.METHODS:
        request = call_gate.request_descriptor(method)
        for path in fields(request):
            name, grows = path[-1].full_name, path[-1].is_repeated or path[-1].message_type
            if grows and name not in seen:
                seen.add(name)
                yield pytest.param(request, path, id=name)


def elements(field: Any) -> Iterator[bytes]:
    """Yield serialised elements of a field that are small and take much."""
    tag = field.number << 3
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        for number in range(ELEMENTS):
            key = bytes((number & 127, number >> 7 & 127, number >> 14 & 127))
            yield varint(tag | 2) + b"\x07\x0a\x03" + key + b"\x12\x00"
    elif field.message_type is not None or field.type in (
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
    ):
        # Each change of a oneof allocates another message.
        others = [] if field.containing_oneof is None else field.containing_oneof.fields
        other = next((each for each in others if each.message_type and each is not field), field)
        for _ in range(ELEMENTS // 2):
            yield varint(tag | 2) + b"\x00"
            yield varint(other.number << 3 | 2) + b"\x00"
    else:
        yield varint(tag | 2) + varint(ELEMENTS) + b"\x01" * ELEMENTS


def parsed_bytes(kind: Any, data: bytes) -> int:
    """Return by how much this process grows when it parses a message."""
    memory.trim()
    before = memory.resident_bytes() or 0
    made = kind.FromString(data)
    grown = (memory.resident_bytes() or 0) - before
    del made
    return grown


@pytest.mark.skipif(memory.resident_bytes() is None, reason="the system does not tell")
@pytest.mark.parametrize(("request_type", "path"), list(every_field()))
def test_each_field_takes_no_more_than_is_found_before_it_is_parsed(
    request_type: Any, path: tuple[Any, ...]
) -> None:
    data = b"".join(elements(path[-1]))
    for outer in reversed(path[:-1]):
        data = varint(outer.number << 3 | 2) + varint(len(data)) + data
    walk = expansion.Walk(data, request_type, 1 << 40)
    assert walk.go_on()

    grown = parsed_bytes(GetMessageClass(request_type), data)

    found = min(walk.held_bytes, expansion.by_length(len(data), request_type))
    assert grown < found + len(data) + 512 * KB


async def sent(*frames: bytes) -> AsyncIterator[bytes]:
    """Yield frames."""
    for each in frames:
        yield each


def read(ledger: Quota, *frames: bytes, kind: Any = sender_pb2.SendStreamRequest) -> Frames[Any]:
    """Return the frames of a stream."""
    return Frames(ledger, HOLDER, sent(*frames).__anext__, kind, lambda: None)


def a_frame(count: int = 500) -> sender_pb2.SendStreamRequest:
    """Return a frame of small messages."""
    batch = message_pb2.MessageBatch(messages=[bytes(256)] * count, message_ids=["id"] * count)
    return sender_pb2.SendStreamRequest(entity_path="orders", batch=batch)


async def test_a_frame_holds_room_until_the_next_is_asked_for() -> None:
    ledger, data = Quota(), a_frame().SerializeToString()
    frames = read(ledger, data, data)

    assert await anext(frames) == a_frame()
    assert len(data) < ledger.frames.held < 2 * len(data)
    assert frames.held_bytes == ledger.frames.held
    await anext(frames)
    with pytest.raises(StopAsyncIteration):
        await anext(frames)
    assert ledger.frames.held == 0


async def test_a_small_frame_is_not_counted() -> None:
    ledger = Quota()
    frames = read(ledger, a_frame(1).SerializeToString())

    await anext(frames)

    assert ledger.frames.held == 0
    assert 0 < frames.held_bytes <= PARSED_SMALL_BYTES


async def test_a_frame_that_would_take_too_much_is_refused_with_a_sentence() -> None:
    ledger = Quota()
    further = read(ledger, b"\x2a\x00" * 1_450_000, kind=receiver_pb2.ReceiveStreamRequest)

    with pytest.raises(errors.InvalidArgument, match="frame: its elements take more than 16 MB"):
        await anext(further)
    with pytest.raises(errors.InvalidArgument, match="cannot be read"):
        await anext(read(ledger, b"\x0f"))
    assert ledger.frames.held == 0


async def test_a_frame_waits_for_room_and_is_refused_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_memory, "FRAME_ROOM_S", 0.05)
    ledger, data = Quota(), a_frame().SerializeToString()
    assert ledger.frames.take(HOLDER, FRAMES.connection)

    with pytest.raises(errors.ServerBusy, match="frames that are being read"):
        await anext(read(ledger, data))
    waiting = asyncio.ensure_future(anext(read(ledger, data)))
    await asyncio.sleep(0)
    ledger.frames.give(HOLDER, FRAMES.connection)
    await waiting

    assert len(data) < ledger.frames.held < 2 * len(data)


async def test_a_request_is_walked_in_steps_while_the_loop_goes_on() -> None:
    ledger, turns = Quota(), 0
    data = b"\x12\x02\x12\x00" * 40_000
    counting = asyncio.ensure_future(
        memory_of(ledger, HOLDER, data, sender_pb2.SendRequest.DESCRIPTOR, MB, "request")
    )

    while not counting.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 40
    assert len(data) < counting.result() < 16 * MB


async def test_requests_of_another_policy_are_walked_beside_those_of_one() -> None:
    ledger, data = Quota(), b"\x12\x02\x12\x00" * 40_000
    other = Holder("b", "another")

    def walked(holder: Holder) -> asyncio.Future[int]:
        kind = sender_pb2.SendRequest.DESCRIPTOR
        return asyncio.ensure_future(memory_of(ledger, holder, data, kind, MB, "request"))

    first, *waiting = [walked(HOLDER) for _ in range(5)]
    of_other = walked(other)
    await asyncio.wait([first, of_other], return_when=asyncio.ALL_COMPLETED)

    assert not any(each.done() for each in waiting[1:])
    await asyncio.gather(*waiting)


async def test_a_request_that_waits_to_be_walked_for_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_memory, "FRAME_ROOM_S", 0.01)
    ledger, data = Quota(), b"\x12\x02\x12\x00" * 40_000

    async with ledger.walking(HOLDER.policy):
        with pytest.raises(errors.ServerBusy, match="many elements"):
            await memory_of(ledger, HOLDER, data, sender_pb2.SendRequest.DESCRIPTOR, MB, "request")


def test_a_field_with_one_place_that_comes_again_and_again_is_refused() -> None:
    data = b"\x18\x01" * 1_000_000

    with pytest.raises(expansion.TooLarge):
        expansion.Walk(data, sender_pb2.SendRequest.DESCRIPTOR).go_on()


async def test_choices_that_were_replaced_count_while_their_frame_does() -> None:
    frame = receiver_pb2.ReceiveStreamRequest
    settle, open_ = frame(settle={}), frame(open={})
    data = (settle.SerializeToString() + open_.SerializeToString()) * 20_000
    ledger = Quota()

    await anext(read(ledger, data, kind=frame))

    assert ledger.frames.held > 20 * len(data)
