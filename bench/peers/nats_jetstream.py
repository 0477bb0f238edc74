"""NATS JetStream: a work-queue stream on disk, nats-py."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.loads import FRAME_MESSAGES, Loads
from bench.peers import peer
from bench.recorder import Recorder
from bench.row import Row

SYSTEM: Final = "NATS JetStream"
_FETCH_S: Final = 5.0


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Start a server and measure it."""
    if peer.missing((SYSTEM,), "nats-server", "nats", emit):
        return
    port, log = processes.free_port(), folder / "nats.log"
    command = [peer.program("nats-server") or "", "-a", "127.0.0.1", "-p", str(port)]
    command += ["-js", "-sd", str(folder / "data")]
    with processes.running(command, log=log) as process:
        processes.wait_for_port(port, process, log, peer.START_S)
        recorder = Recorder(SYSTEM, {"server": [[process.pid]]})
        asyncio.run(_measure(load, port, recorder))
    note = "acknowledges before the disk has it (as shipped)"
    emit(recorder.row("send", "send, confirmed", f"window {FRAME_MESSAGES}", note))
    emit(recorder.row("receive_complete", "receive + acknowledge",
                      f"fetch {FRAME_MESSAGES}; 1 an acknowledgement"))  # fmt: skip


async def _measure(load: Loads, port: int, recorder: Recorder) -> None:
    import nats
    from nats.js.api import RetentionPolicy, StorageType

    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream(publish_async_max_pending=FRAME_MESSAGES)
    await stream.add_stream(
        name=peer.NAME,
        subjects=[peer.NAME],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
    )
    subscription = await stream.pull_subscribe(peer.NAME, durable=peer.NAME)
    for _ in range(load.repeats):
        with recorder.timing("send", load.peer):
            await _send(stream, load.peer)
        with recorder.timing("receive_complete", load.peer):
            await _receive(connection, subscription, load.peer)
    await connection.close()


async def _send(stream: Any, count: int) -> None:
    futures = [await stream.publish_async(peer.NAME, peer.BODY) for _ in range(count)]
    await stream.publish_async_completed()
    for future in futures:
        assert future.result().seq


async def _receive(connection: Any, subscription: Any, count: int) -> None:
    gone = 0
    while gone < count:
        messages = await subscription.fetch(FRAME_MESSAGES, timeout=_FETCH_S)
        for message in messages:
            # Each by itself: with receivers that compete, one must not acknowledge for another.
            await message.ack()
        gone += len(messages)
    await connection.flush()
