"""Measures the bare pipeline: sends frames, then receives and deletes what they brought."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import grpc

from bench import loads, processes, row
from bench.bare.frame import METHOD, Frame
from bench.loads import Loads
from bench.recorder import Recorder
from bench.row import Row

SYSTEM: Final = "bare pipeline"


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure at each number of messages a frame, and one frame at a time."""
    with servers(folder) as (port, roles):
        asyncio.run(_measure(load, port, Recorder(SYSTEM, roles), emit))


@contextmanager
def servers(folder: Path) -> Iterator[tuple[int, dict[str, list[list[int]]]]]:
    """Run partitions and their front end; give its port, and the processes by role."""
    with ExitStack() as stack:

        def start(module: str, *arguments: str) -> tuple[int, int]:
            return stack.enter_context(serving(f"bench.bare.{module}", folder, *arguments))

        partitions = [
            start("partition", str(folder / f"{number}.db")) for number in range(loads.PARTITIONS)
        ]
        port, pid = start("frontend", *(str(port) for port, _ in partitions))
        yield port, {"front end": [[pid]], "partitions": [[pid] for _, pid in partitions]}


@contextmanager
def serving(module: str, folder: Path, *arguments: str) -> Iterator[tuple[int, int]]:
    """Run a server that prints its port; give that and its pid."""
    log = folder / f"{module}.log"
    command = [sys.executable, "-m", module, *arguments]
    with processes.running(command, log=log) as process:
        yield int(processes.read_line(process, log)), process.pid


async def single_sends(port: int, count: int) -> list[float]:
    """Send frames of one message, one after the other; return how long each took, in seconds."""
    took: list[float] = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await _send(channel, count, 1, 1, took)
    return took


async def _measure(load: Loads, port: int, recorder: Recorder, emit: Callable[[Row], None]) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for frame_messages, count in load.bare.items():
            send, receive = f"send_{frame_messages}", f"receive_delete_{frame_messages}"
            for _ in range(load.repeats):
                with recorder.timing(send, count):
                    await _send(channel, count, frame_messages, loads.WINDOW)
                with recorder.timing(receive, count):
                    await _receive(channel, count, frame_messages)
            frames = f"{frame_messages} at each hop; {loads.WINDOW} frames under way"
            emit(recorder.row(send, f"send, {frame_messages} a frame", frames))
            emit(recorder.row(receive, f"receive+delete, {frame_messages} a frame", frames))
        took: list[float] = []
        await _send(channel, load.single_sends, 1, 1, took)
        for each in row.latency_rows(SYSTEM, "single_send", "one send at a time", took):
            emit(each)


async def _send(
    channel: grpc.aio.Channel,
    count: int,
    frame_messages: int,
    window: int,
    took: list[float] | None = None,
) -> None:
    call: Any = channel.stream_stream(METHOD)()
    body, sent = os.urandom(loads.BODY_BYTES), 0
    room, began = asyncio.Semaphore(window), 0.0

    async def acknowledgements() -> None:
        acknowledged = 0
        while acknowledged < count:
            acknowledged += Frame.FromString(await call.read()).credit
            if took is not None:
                took.append(time.perf_counter() - began)
            room.release()

    reading = asyncio.create_task(acknowledgements())
    while sent < count:
        await room.acquire()
        began = time.perf_counter()
        partition = 1 + sent // frame_messages % loads.PARTITIONS
        messages = [body] * min(frame_messages, count - sent)
        await call.write(Frame(partition=partition, messages=messages).SerializeToString())
        sent += len(messages)
    await reading
    call.cancel()


async def _receive(channel: grpc.aio.Channel, count: int, frame_messages: int) -> None:
    call: Any = channel.stream_stream(METHOD)()
    gone = 0
    for number in range(loads.WINDOW):
        partition = 1 + number % loads.PARTITIONS
        await call.write(Frame(partition=partition, credit=frame_messages).SerializeToString())
    while gone < count:
        frame = Frame.FromString(await call.read())
        if frame.credit:
            gone += frame.credit
            answer = Frame(partition=frame.partition, credit=frame_messages)
            await call.write(answer.SerializeToString())
        elif frame.numbers:
            assert all(len(message) == loads.BODY_BYTES for message in frame.messages)
            answer = Frame(partition=frame.partition, numbers=frame.numbers)
            await call.write(answer.SerializeToString())
    call.cancel()
