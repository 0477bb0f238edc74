"""Echoes on one stream to a partition: tells a late echo from a stream that ended.

A stream that ended says nothing about the partition: the process behind the address may be a new,
healthy one already. Only an echo that is late, or a stream that cannot be opened, does. The end of
the stream is noticed at once, also between two echoes.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc

from bendybus.internal.v1 import partition_pb2

STEP_S: Final = 0.1


class EchoLate(Exception):
    """Raised when an echo is not answered in time."""


class EchoProbe:
    """The echoes of one stream. `heard`: whether one was answered."""

    def __init__(
        self,
        call: "grpc.aio.StreamStreamCall[partition_pb2.EchoRequest, partition_pb2.EchoResponse]",
        partition: int,
        timeout_s: float,
    ) -> None:
        self.heard = False
        self._call = call
        self._partition = partition
        self._timeout_s = timeout_s
        self._last_id = 0
        self._reading: asyncio.Task[Any] | None = None

    async def ask(self) -> partition_pb2.EchoResponse | None:
        """Return the answer to an echo; None when the stream ended.

        Raises EchoLate, and grpc.RpcError when the stream ended with an error.
        """
        self._last_id += 1
        request = partition_pb2.EchoRequest(partition=self._partition, echo_id=self._last_id)
        writing = asyncio.ensure_future(self._call.write(request))
        try:
            await self._in_time(writing)
        except asyncio.InvalidStateError:
            return None
        finally:
            writing.cancel()
        reading = self._next()
        await self._in_time(reading)
        return self._take(reading)

    async def pause(self, wait_s: float, wake: asyncio.Event) -> bool:
        """Wait until `wake` is set or the time is over; False: the stream ended meanwhile."""
        reading = self._next()
        waking = asyncio.ensure_future(wake.wait())
        try:
            await asyncio.wait(
                {reading, waking}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waking.cancel()
        return not reading.done()

    def end(self) -> None:
        """Cancel the stream. Waits for nothing, so that no cancellation is lost here."""
        self._call.cancel()
        if self._reading is not None:
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._reading.cancel()

    def _next(self) -> asyncio.Task[Any]:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(
                self._call.read(), name="echo-reader"
            )
        return self._reading

    def _take(self, reading: asyncio.Task[Any]) -> partition_pb2.EchoResponse | None:
        self._reading = None
        response = reading.result()
        if response is grpc.aio.EOF:
            return None
        self.heard = True
        found: partition_pb2.EchoResponse = response
        return found

    async def _in_time(self, task: "asyncio.Future[Any]") -> None:
        if not await done_in_time(task, self._timeout_s):
            raise EchoLate
        if task is not self._reading:
            task.result()


async def done_in_time(
    task: "asyncio.Future[Any]",
    timeout_s: float,
    clock: Callable[[], float] | None = None,
) -> bool:
    """Wait until `task` is done; False when it is not after `timeout_s`.

    Time in which this process was suspended does not count: what arrived meanwhile is read first.
    """
    clock = clock or asyncio.get_running_loop().time
    left_s = timeout_s
    while left_s > 0:
        step_s, began_s = min(STEP_S, left_s), clock()
        await asyncio.wait({task}, timeout=step_s)
        if task.done():
            return True
        left_s -= max(min(clock() - began_s, STEP_S), STEP_S / 10)
    return False
