"""Tasks that end only when their owner cancels them.

A task group takes a cancelled child for one that is done. A `CancelledError` that nobody asked for
(gRPC raises it for calls whose channel was closed) would end such a task in silence.
"""

import asyncio
from collections.abc import Awaitable


async def endless(work: Awaitable[object], what: str) -> None:
    """Await `work` until this task is cancelled. Raises RuntimeError if it is cut off otherwise."""
    try:
        await work
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        raise RuntimeError(f"{what}: cancelled from inside") from None
