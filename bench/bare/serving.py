"""How a server of the bare pipeline runs: says its port, ends when its standard input ends."""

import asyncio
import sys
import threading
from typing import Any

import grpc

from bench.bare.frame import Handler


async def serve(stream: Any) -> None:
    """Serve streams until the parent ends this process."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(stream),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def watch() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch, daemon=True).start()
    await ended.wait()
    await server.stop(0)
