"""The partitions of a process, and the way to hand a command to one of them."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import grpc

from bendybus.domain import errors
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.replies import Call
from bendybus.partition_server.state.commands import Command, StopDelivering
from bendybus.wire.streams import Drain

# A call of a peer, whatever its requests and answers.
Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class Hosts:
    """The partitions of this process."""

    def __init__(self, threads: Mapping[int, PartitionThread]) -> None:
        self.threads = threads
        # At the end of the process: first what carries messages, then echoes and watches, by
        # which front ends would take the partition for dead while it still answers.
        self.traffic = Drain()
        self.attendance = Drain()

    def find(self, partition: int) -> PartitionThread:
        """Return the partition's thread. Raises InvalidOperation if it is not served here."""
        thread = self.threads.get(partition)
        if thread is None:
            raise errors.InvalidOperation(
                f"this process serves partitions {sorted(self.threads)}, not {partition}."
            )
        return thread

    async def ask(self, partition: int, make: Callable[[Call], Command]) -> Any:
        """Submit the command that `make` returns for a reply; return one of `answers`."""
        call = Call()
        submit(self.find(partition), make(call))
        return await call.value()

    async def stop_delivering(self) -> int:
        """Deliver no more messages; return how many receivers hold, of partitions that answer."""
        return sum(await asyncio.gather(*map(self._stop_delivering, self.threads)))

    async def _stop_delivering(self, partition: int) -> int:
        try:
            return int(await self.ask(partition, StopDelivering))
        except errors.BusError:
            # Its store is closed: it delivers nothing, and its locks are gone.
            return 0


def submit(thread: PartitionThread, *handed: Command) -> None:
    """Hand commands in, all or none. Raises ServerBusy when too much waits."""
    if not thread.submit(*handed):
        raise errors.ServerBusy(
            f"partition {thread.index}: request queue is full. Retry.", retry_after_ms=500
        )
