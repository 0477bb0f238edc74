"""What calls to a partition leave in the operator's memory."""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from bendybus.domain.limits import MB
from bendybus.operator.bus.partition_channel import Metadata, PartitionChannel

ANSWER = bytes(8 * MB)


class Silent(grpc.GenericRpcHandler):
    """Answers each watch once, and says nothing more."""

    def service(self, _: Any) -> Any:
        async def watch(_: bytes, context: Any) -> AsyncIterator[bytes]:
            yield ANSWER
            await asyncio.Event().wait()

        return grpc.unary_stream_rpc_method_handler(watch)


class Plain:
    """The way over a channel that takes answers of any size."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def open(self, *, large: bool) -> tuple[grpc.aio.Channel, Metadata]:
        return self._channel, ()

    async def close(self) -> None:
        await self._channel.close()


@pytest.mark.integration
@pytest.mark.requirement("R382")
async def test_of_a_watch_that_ends_no_answer_stays_in_memory() -> None:
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((Silent(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = [("grpc.max_receive_message_length", -1)]
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
    partition = PartitionChannel(Plain(channel), large=asyncio.Lock())
    # What is in reference cycles stays for long where there is much else to look through.
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            async with contextlib.aclosing(partition.watch(b"")) as answers:
                assert len(await anext(answers)) == len(ANSWER)
        left_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
        await partition.close()
        await server.stop(None)

    assert left_bytes < len(ANSWER)
