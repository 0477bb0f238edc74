"""Streams of frames both ways, and their end."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import grpc

from bendybus.partition_server.broker.replies import Outbox
from bendybus.wire import draining
from bendybus.wire.draining import End

Context = grpc.aio.ServicerContext[Any, Any]


async def both_ways(reading: Coroutine[Any, Any, None], outbox: Outbox[Any]) -> AsyncIterator[Any]:
    """Yield frames of the outbox while `reading` runs, then what is left; raise its error."""
    reader = asyncio.get_running_loop().create_task(reading, name="stream-reader")

    def read_all(task: asyncio.Task[None]) -> None:
        failed = not task.cancelled() and task.exception() is not None
        if failed or task.cancelled():
            outbox.close()
        else:
            outbox.finish()

    reader.add_done_callback(read_all)
    try:
        while (frame := await outbox.next()) is not None:
            yield frame
        if reader.done():
            await reader
    finally:
        reader.cancel()


def ending(context: Context, outbox: Outbox[Any], moving: Any) -> End:
    """Return what asks a stream to end, as the caller knows it."""
    metadata = context.invocation_metadata() or ()
    if any(name == draining.MOVES for name, _ in metadata):
        return lambda: outbox.move(moving)
    return outbox.finish
