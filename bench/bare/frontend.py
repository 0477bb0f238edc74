"""A front end that passes whole frames on, unread. Usage: -m bench.bare.frontend PORT…"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from bench.bare import serving
from bench.bare.frame import METHOD, partition_of


class Frontend:
    """Channels to the partitions."""

    def __init__(self, ports: list[int]) -> None:
        self._channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}") for port in ports]

    async def stream(self, frames: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Serve one client: its frames to the partitions, theirs to it."""
        out: asyncio.Queue[bytes] = asyncio.Queue()
        calls: list[Any] = [channel.stream_stream(METHOD)() for channel in self._channels]

        async def back(call: Any) -> None:
            while (raw := await call.read()) is not grpc.aio.EOF:
                out.put_nowait(raw)

        async def forth() -> None:
            async for raw in frames:
                await calls[partition_of(raw)].write(raw)

        tasks = [asyncio.create_task(back(call)) for call in calls]
        tasks.append(asyncio.create_task(forth()))
        try:
            while True:
                yield await out.get()
        finally:
            for each in (*tasks, *calls):
                each.cancel()


async def main() -> None:
    """Serve in front of the partitions at the given ports."""
    await serving.serve(Frontend([int(port) for port in sys.argv[1:]]).stream)


if __name__ == "__main__":
    asyncio.run(main())
