"""Frames of several sends: a partition answers each part by itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.service.partition_service import PartitionService
from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.commands import Append
from bendybus.v1 import message_pb2
from bendybus.wire import frame_forms
from bendybus.wire.contract_versions import FRONT_END

pytestmark = pytest.mark.requirement("R642")


class Partition:
    """Takes commands; a test lets it answer. `room`: for each command, whether there is some."""

    index = 0
    serving = True

    def __init__(self, room: Sequence[bool]) -> None:
        self._room = list(room)
        self.taken: list[Append] = []
        self.all_came = asyncio.Event()

    def submit(self, command: Append) -> bool:
        """Take a command, or refuse it."""
        took = self._room.pop(0)
        if took:
            self.taken.append(command)
        if not self._room:
            self.all_came.set()
        return took

    def answer(self) -> None:
        """Store everything, in one turn."""
        for number, command in enumerate(self.taken, 1):
            reply: Any = command.reply_to
            reply.answer(Appended([number]))


def frame(*frame_ids: int) -> partition_pb2.SendFramesRequest:
    """Return a frame with a part for each id."""
    first, *rest = [
        partition_pb2.SendFramesRequest(
            frame_id=each, batch=message_pb2.MessageBatch(messages=[b"x"])
        )
        for each in frame_ids
    ]
    first.further.extend(rest)
    return first


@asynccontextmanager
async def stream(partition: Partition) -> AsyncIterator[Any]:
    """Serve a partition; yield a stream of a front end."""
    server = grpc.aio.server()
    threads: Any = {0: partition}
    service = PartitionService(Hosts(threads))
    partition_pb2_grpc.add_PartitionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
        yield stub.SendFrames(metadata=(FRONT_END.said,))
    await server.stop(0)


async def test_parts_are_refused_one_by_one_where_there_is_no_room() -> None:
    partition = Partition([True, False, True, False])
    async with stream(partition) as call:
        await call.write(frame(1, 2, 3, 4))
        await partition.all_came.wait()
        partition.answer()
        await call.done_writing()
        answers = [part async for answer in call for part in frame_forms.parts(answer)]

    assert sorted(each.frame_id for each in answers) == [1, 2, 3, 4]
    refused = {each.frame_id: each.error.reason for each in answers if each.HasField("error")}
    assert refused == {2: "SERVER_BUSY", 4: "SERVER_BUSY"}
    stored = {
        each.frame_id: list(each.sequence_numbers) for each in answers if not each.error.reason
    }
    assert stored == {1: [1], 3: [2]}


async def test_what_a_turn_stored_is_answered_in_one_frame() -> None:
    partition = Partition([True] * 3)
    async with stream(partition) as call:
        await call.write(frame(1, 2, 3))
        await partition.all_came.wait()
        partition.answer()
        answer = await call.read()

    assert [part.frame_id for part in frame_forms.parts(answer)] == [1, 2, 3]
