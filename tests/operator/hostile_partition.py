"""A hostile peer in place of a partition: answers every call with empty entries, 2 bytes each.

A process of its own, so that what its answers cost it is not counted to whoever reads them.
`python -m tests.operator.hostile_partition BYTES PORT…`
"""

import asyncio
import sys

import grpc

from tests.operator.talker import Talker

# The first field of a catalogue, and of counts, that is a list of messages.
_ENTRY = {"WatchEntities": b"\x12\x00", "GetCounts": b"\x0a\x00", "CommitEntity": b"\x0a\x00"}


async def serve(size_bytes: int, ports: list[int]) -> None:
    """Serve until killed."""
    answers = {method: entry * (size_bytes // 2) for method, entry in _ENTRY.items()}
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((Talker(lambda method: answers[method]),))
    for port in ports:
        server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
