"""`python -m bendybus.operator.bus.worker SOCKET MARK BYTES`: calls partitions for the operator.

A process of bounded memory between the operator and tenants' partitions. It passes on the bytes of
a request, and those of an answer if they can be understood; it keeps nothing. While it reads an
answer, the bus that sent it is written to the file MARK: if that ends the process, the operator
knows whose answer it was. Ends with the operator.
"""

import asyncio
import contextlib
import functools
import json
import mmap
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import grpc

from bendybus.internal.v1 import partition_pb2
from bendybus.operator.bus import answers, partition_channel
from bendybus.operator.bus.answers import CatalogueReader, InvalidAnswer
from bendybus.operator.bus.partition_channel import AnswerTooLarge, Direct, PartitionChannel
from bendybus.wire import memory, serving, tls

TRUST: Final = "/bendybus.operator.Worker/Trust"
MARK_BYTES: Final = 1_024
# Larger answers to a copy, which says nothing, are not understood.
EMPTY_BYTES_MAX: Final = 1_024
DETAILS_CHARS_MAX: Final = 2_000
# After so long without a call a channel is closed.
IDLE_S: Final = 60.0
# Of this process's time, which a bus may take before it gets a tenth.
RESERVE_S: Final = 5.0
# More certificates than buses have in years; another process begins without any.
MATERIALS_MAX: Final = 20_000
# A worker that is so full, and became so by one answer, ends.
FULL_SHARE: Final = 0.75
GROWN_SHARE: Final = 0.125
_STATM: Final = Path("/proc/self/statm")
OUT_OF_MEMORY: Final = 3
_DETAILS: Final = "grpc-status-details-bin"
_OPTIONS: Final = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
Context = grpc.aio.ServicerContext[Any, Any]


class Mark:
    """Whose answer is being read, where the operator finds it when this process has ended."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), MARK_BYTES)

    @contextlib.contextmanager
    def set_to(self, text: str) -> Iterator[None]:
        """Name whose answer is read inside; what takes too much memory ends this process."""
        data = text.encode()[:MARK_BYTES]
        self._map[:] = data.ljust(MARK_BYTES, b"\0")
        before = _data_bytes()
        try:
            yield
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        finally:
            self._check(before)
            self._map[:] = bytes(MARK_BYTES)

    def _check(self, before: int) -> None:
        """End this process if reading an answer filled it: others could not be read any more.

        Parsers report that memory is short as a message that cannot be parsed.
        """
        most = resource.getrlimit(resource.RLIMIT_DATA)[0]
        if most == resource.RLIM_INFINITY:
            return
        if _data_bytes() > FULL_SHARE * most:
            memory.trim()
            now = _data_bytes()
            if now > FULL_SHARE * most and now - before > GROWN_SHARE * most:
                os._exit(OUT_OF_MEMORY)


def _data_bytes() -> int:
    """Return what counts to the limit of this process, and its stack."""
    return int(_STATM.read_text("ascii").split()[5]) * resource.getpagesize()


class _Bus:
    """What the partitions of one bus share, so that it takes its share of this process only."""

    def __init__(self) -> None:
        # Held while a large answer of it is asked for, and while an answer is read.
        self.large, self._turn = asyncio.Lock(), asyncio.Lock()
        self._share = answers.Share(reserve_s=RESERVE_S)

    async def read(self, mark: AbstractContextManager[None], read: Callable[[], object]) -> float:
        """Read an answer; return how long the bus is to wait. Raises InvalidAnswer, after that."""
        pause_s = 0.0
        try:
            async with self._turn:
                began_s = time.monotonic()
                try:
                    with mark:
                        read()
                finally:
                    now_s = time.monotonic()
                    pause_s = self._share.spend(now_s - began_s, now_s)
        except InvalidAnswer:
            await asyncio.sleep(pause_s)
            raise
        return pause_s


@dataclass
class _Used:
    """A channel, by how many calls it is used, and since when by none."""

    bus: _Bus
    channel: PartitionChannel
    callers: int = 0
    idle_since_s: float = 0.0


class Worker(grpc.GenericRpcHandler):
    """Passes calls on. Metadata of a call: address, bus, partition, material and `large`."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._materials: dict[str, tls.Material] = {}
        self._channels: dict[tuple[str, str, str], _Used] = {}
        self._looked_s = time.monotonic()
        # Of buses that have a channel.
        self._buses: WeakValueDictionary[str, _Bus] = WeakValueDictionary()

    def service(self, details: Any) -> Any:
        """Return the handler of a method; requests and answers are bytes."""
        if details.method == TRUST:
            return grpc.unary_unary_rpc_method_handler(self._trust)
        if details.method == partition_channel.WATCH:
            return grpc.unary_stream_rpc_method_handler(self._watch)
        if details.method not in _READERS:
            return None

        async def one(request: bytes, context: Context) -> bytes:
            return await self._ask(details.method, request, context)

        return grpc.unary_unary_rpc_method_handler(one)

    async def _trust(self, request: bytes, _: Context) -> bytes:
        if len(self._materials) >= MATERIALS_MAX:
            os._exit(OUT_OF_MEMORY)
        found = json.loads(request)
        pem = (found[name].encode() for name in ("certificate", "key", "authorities"))
        self._materials[found["id"]] = tls.Material(*pem)
        return b""

    async def _ask(self, method: str, request: bytes, context: Context) -> bytes:
        facts = _facts(context)
        async with self._refusing(context), self._slot(facts) as (used, large):
            left_s = context.time_remaining()
            answer = await used.channel.ask(method, request, left_s, large=large)
            mark = self._mark.set_to(facts["who"])
            await used.bus.read(mark, lambda: _READERS[method](request, answer))
            return answer
        raise AssertionError("the call was aborted")

    async def _watch(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        facts, reader = _facts(context), CatalogueReader(keep=False)
        async with (
            self._refusing(context),
            self._slot(facts) as (used, large),
            contextlib.aclosing(used.channel.watch(request, large=large)) as stream,
        ):
            async for answer in stream:
                mark = self._mark.set_to(facts["who"])
                pause_s = await used.bus.read(mark, functools.partial(reader.read, answer))
                yield answer
                # The stream is not read during the pause.
                await asyncio.sleep(pause_s)

    @contextlib.asynccontextmanager
    async def _slot(self, facts: dict[str, str]) -> AsyncIterator[tuple[_Used, bool]]:
        """Give the channel to a partition; for large answers to one caller of a bus at a time."""
        await self._close_idle()
        key = (facts["bus"], facts["address"], facts["material"])
        used = self._channels.get(key)
        if used is None:
            bus = self._buses.setdefault(facts["bus"], _Bus())
            material = self._materials[key[2]] if key[2] else None
            used = _Used(bus, PartitionChannel(Direct(key[1], material), large=bus.large))
            self._channels[key] = used
        used.callers += 1
        try:
            if "large" not in facts:
                yield used, False
                return
            async with used.channel.for_large():
                yield used, True
        finally:
            used.callers -= 1
            used.idle_since_s = time.monotonic()

    async def _close_idle(self) -> None:
        """Close channels without callers: of deleted buses, or of former certificates."""
        before_s = time.monotonic() - IDLE_S
        if self._looked_s > before_s:
            return
        self._looked_s = time.monotonic()
        for key, used in list(self._channels.items()):
            if not used.callers and used.idle_since_s < before_s:
                del self._channels[key]
                await used.channel.close()

    @contextlib.asynccontextmanager
    async def _refusing(self, context: Context) -> AsyncIterator[None]:
        """Pass on why a partition refuses, or why its answer cannot be understood."""
        try:
            yield
        except AnswerTooLarge as error:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"message larger than max: {error}"
            )
        except InvalidAnswer as error:
            await context.abort(partition_channel.NOT_UNDERSTOOD, str(error))
        except grpc.RpcError as error:
            found: Any = error.trailing_metadata() or ()
            context.set_trailing_metadata(tuple(pair for pair in found if pair[0] == _DETAILS))
            await context.abort(error.code(), (error.details() or "")[:DETAILS_CHARS_MAX])


def _facts(context: Context) -> dict[str, str]:
    found = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
    found["who"] = f"{found['bus']}#{found['partition']}"
    return found


def _read_counts(request: bytes, answer: bytes) -> None:
    asked = partition_pb2.GetCountsRequest.FromString(request)
    answers.counts_page(answer, asked.after_uid)


def _read_nothing(_: bytes, answer: bytes) -> None:
    if len(answer) > EMPTY_BYTES_MAX:
        raise InvalidAnswer(f"its answer to a copy has {len(answer)} bytes")


_READERS: Final[dict[str, Callable[[bytes, bytes], object]]] = {
    partition_channel.COMMIT: lambda _, answer: answers.committed(answer),
    partition_channel.APPLY: _read_nothing,
    partition_channel.COUNTS: _read_counts,
}


async def serve(socket: str, mark: Path, stop: asyncio.Event) -> None:
    """Serve until stopped; a line on standard output says when it can be called."""
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((Worker(Mark(mark)),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    print("ready", flush=True)
    await stop.wait()
    await server.stop(0)


def main(socket: str, mark: str, data_bytes: str) -> int:
    """Bound this process, then serve."""
    most = int(data_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    # What it holds may be a tenant's answer, or a key.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serving.configure_logging("warning")
    serving.exit_with_parent()
    asyncio.run(serving.run_until_signal(lambda stop: serve(socket, Path(mark), stop)))
    return 0


if __name__ == "__main__":
    serving.leave(main(*sys.argv[1:]))
