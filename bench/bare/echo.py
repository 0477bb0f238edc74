"""A server that answers each frame at once: one gRPC round trip. Usage: -m bench.bare.echo."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from bench.bare import serving
from bench.bare.frame import Frame


async def stream(frames: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Serve one client."""
    async for raw in frames:
        frame = Frame.FromString(raw)
        answer = Frame(partition=frame.partition, credit=len(frame.messages))
        yield answer.SerializeToString()


if __name__ == "__main__":
    asyncio.run(serving.serve(stream))
