"""The partitions of a process, and the way to hand a command to one of them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import grpc

from bendybus.domain import errors
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.replies import Call
from bendybus.partition_server.state.answers import Held
from bendybus.partition_server.state.commands import Command, StopDelivering
from bendybus.wire.streams import Drain

logger = logging.getLogger(__name__)
ASKED_EVERY_S: Final = 0.05
# Until when front ends have said which of the messages they have their clients got.
REPORTED_WITHIN_S: Final = 0.5
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

    async def settled(self, most_s: float) -> None:
        """Deliver nothing more, and wait until receivers hold nothing; for `most_s` at most.

        Locks end with the process. A program that settles a message a moment after it got it sees
        nothing of a graceful end; one that works on it for longer gets MessageLockLost.
        """
        loop = asyncio.get_running_loop()
        reported_s = loop.time() + REPORTED_WITHIN_S
        try:
            async with asyncio.timeout(most_s):
                held = await self._stop_delivering_all()
                while held.delivered or (held.reserved and loop.time() < reported_s):
                    # Without a stream nobody could settle anything.
                    if await self.traffic.ended(ASKED_EVERY_S):
                        break
                    held = await self._stop_delivering_all()
        except TimeoutError:
            logger.info("receivers still hold messages; they are delivered again")

    async def _stop_delivering_all(self) -> Held:
        held = await asyncio.gather(*map(self._stop_delivering, self.threads))
        return Held(sum(each.delivered for each in held), sum(each.reserved for each in held))

    async def _stop_delivering(self, partition: int) -> Held:
        try:
            held: Held = await self.ask(partition, StopDelivering)
        except errors.BusError:
            # Its store is closed: it delivers nothing, and its locks are gone.
            return Held(0, 0)
        return held


def submit(thread: PartitionThread, *handed: Command) -> None:
    """Hand commands in, all or none. Raises ServerBusy when too much waits."""
    if not thread.submit(*handed):
        raise errors.ServerBusy(
            f"partition {thread.index}: request queue is full. Retry.", retry_after_ms=500
        )
