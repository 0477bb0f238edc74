"""The way from the partitions of this process to all others, for what they forward.

A partition hands a frame over when it is committed (`Outgoing`) and gets one outcome for it
(`ForwardOutcome`) in every case; a frame that is not answered in time has one without `taken`. How
many frames are on their way is bounded in the partition, see `lanes`; the bound here is for what a
partition left behind that was opened again.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Final

import grpc

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.internal.v1 import partition_pb2, partition_pb2_grpc
from bendybus.partition_server.broker.clocks import read_clocks
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.service import forward_frames
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.state.answers import Failed, ForwardedTaken
from bendybus.partition_server.state.lanes import FLIGHTS_MAX, ForwardOutcome, Outgoing
from bendybus.wire import serving, statuses

logger = logging.getLogger(__name__)
ANSWER_S: Final = 10.0
# Until an outcome is handed in again that its partition could not take.
AGAIN_S: Final = 0.5
# To one partition, of each that is served here.
FRAMES_MAX: Final = 2 * FLIGHTS_MAX
RENEW_S: Final = 2 * ANSWER_S


class Peer:
    """Another partition server, as one partition behind it is reached."""

    def __init__(
        self, partition: int, address: str, credentials: grpc.ChannelCredentials | None
    ) -> None:
        self.partition = partition
        self._address = address
        self._channel = serving.peer_channel(address, credentials)
        self._stub = partition_pb2_grpc.PartitionServiceStub(self._channel)
        # Its monotonic clock minus ours, at most; None: not known.
        self._clock_offset_ms: int | None = None

    async def forward(self, frame: Outgoing) -> ForwardedTaken:
        """Return what became of a frame. Raises the domain error."""
        deadline_ms = 0
        if self._clock_offset_ms is not None:
            deadline_ms = read_clocks().mono_ms + round(ANSWER_S * 1000) + self._clock_offset_ms
        request = forward_frames.request(frame, max(0, deadline_ms))
        # It may have been restarted on another machine: then its clock is another one.
        self._clock_offset_ms = None
        try:
            answer: partition_pb2.ForwardResponse = await self._stub.Forward(
                request, timeout=ANSWER_S
            )
        except grpc.RpcError as error:
            raise statuses.from_rpc_error(error) from error
        self._clock_offset_ms = answer.monotonic_ms - read_clocks().mono_ms
        return forward_frames.taken(frame, answer)

    async def renew(self, credentials: grpc.ChannelCredentials) -> None:
        """Go over to a new channel; calls on the old one end by themselves."""
        old, self._channel = self._channel, serving.peer_channel(self._address, credentials)
        self._stub = partition_pb2_grpc.PartitionServiceStub(self._channel)
        await old.close(RENEW_S)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


class ForwardLinks:
    """The links of all partitions of this process, and the peers that they share."""

    def __init__(
        self,
        hosts: Hosts,
        addresses: Mapping[int, str],
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """`addresses`: of all partitions; those that are served here need none."""
        self._hosts = hosts
        self._peers = {
            partition: Peer(partition, address, credentials)
            for partition, address in addresses.items()
            if partition not in hosts.threads
        }
        self._tasks: set[asyncio.Task[None]] = set()
        # Partitions that did not take the last frame, each with why.
        self._failing: dict[int, str] = {}

    def link_all(self) -> None:
        """Give every partition of this process its link."""
        for thread in self._hosts.threads.values():
            thread.forward_link = ForwardLink(thread, self)

    def start(self, link: "ForwardLink", frame: Outgoing) -> None:
        """Send a frame and hand its outcome in, or hand in that it was not sent."""
        link.open += 1
        self.run(self._exchange(link, frame), f"forward-{link.thread.index}-{frame.partition}")

    def run(self, work: Coroutine[object, object, None], name: str) -> None:
        """Run a task that ends by itself, at the latest when the links are closed."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def renew(self, credentials: grpc.ChannelCredentials) -> None:
        """Go over to channels with other certificates."""
        for peer in self._peers.values():
            self.run(peer.renew(credentials), f"renew-{peer.partition}")

    async def close(self) -> None:
        """End what is on its way: after the next opening, it is sent again."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in self._peers.values():
            await peer.close()

    async def _exchange(self, link: "ForwardLink", frame: Outgoing) -> None:
        taken: ForwardedTaken | None = None
        why = ""
        try:
            async with asyncio.timeout(ANSWER_S + 1):
                taken = await self._forward(link, frame)
        except BusError as error:
            why = error.message
        except TimeoutError:
            why = f"no answer within {ANSWER_S:g} s"
        except Exception as error:  # costs one frame its answer: it is sent again
            logger.exception("partition %d: forwarding failed", link.thread.index)
            why = repr(error)
        finally:
            link.open -= 1
        self._note(link.thread.index, frame.partition, why)
        outcome = ForwardOutcome(
            None, frame.slot, frame.boot, frame.sequence, frame.partition, taken
        )
        outcome.reply_to = HandIn(self, link.thread, outcome)
        await self.hand_in(link.thread, outcome)

    async def _forward(self, link: "ForwardLink", frame: Outgoing) -> ForwardedTaken:
        if link.open > FRAMES_MAX * max(1, len(self._peers) + len(self._hosts.threads)):
            raise errors.ServerBusy("too many frames are in flight.")
        if frame.partition in self._hosts.threads:
            taken: ForwardedTaken = await self._hosts.ask(
                frame.partition, lambda reply: forward_frames.command_of(frame, reply)
            )
            return taken
        peer = self._peers.get(frame.partition)
        if peer is None:
            raise errors.PartitionUnavailable(
                f"the address of partition {frame.partition} is unknown. Start the "
                "partition server with --peer for every partition."
            )
        return await peer.forward(frame)

    async def hand_in(
        self, thread: PartitionThread, outcome: ForwardOutcome, after_s: float = 0.0
    ) -> None:
        """Tell a partition what became of its frame, as soon as it takes that."""
        await asyncio.sleep(after_s)
        if not thread.submit(outcome):
            again = self.hand_in(thread, outcome, AGAIN_S)
            self.run(again, f"forward-outcome-{thread.index}")

    def _note(self, index: int, partition: int, why: str) -> None:
        """Log when a partition begins and ends to take no frames."""
        known = self._failing.get(partition)
        if why and known is None:
            logger.warning(
                "partition %d: cannot forward to partition %d; retrying: %s",
                index,
                partition,
                why,
                extra={"partition": index, "to": partition, "action": "forward-failed"},
            )
        elif not why and known is not None:
            logger.info(
                "partition %d: forwards to partition %d again",
                index,
                partition,
                extra={"partition": index, "to": partition, "action": "forward-again"},
            )
        if why:
            self._failing[partition] = why
        else:
            self._failing.pop(partition, None)


class ForwardLink:
    """Takes the frames of one partition; see `PartitionState.forward_link`."""

    def __init__(self, thread: PartitionThread, links: ForwardLinks) -> None:
        self.thread = thread
        self._links = links
        # Frames that are on their way.
        self.open = 0

    def answer(self, value: Outgoing | Failed) -> None:
        """Send a committed frame; of one whose commit failed, no message is locked."""
        if not isinstance(value, Failed):
            self._links.start(self, value)


class HandIn:
    """Where a partition answers the outcome of a frame."""

    def __init__(
        self, links: ForwardLinks, thread: PartitionThread, outcome: ForwardOutcome
    ) -> None:
        self._links = links
        self._thread = thread
        self._outcome = outcome

    def answer(self, value: object) -> None:
        """Hand the outcome in again if it could not be committed; its frame waits for it."""
        if isinstance(value, Failed):
            again = self._links.hand_in(self._thread, self._outcome, AGAIN_S)
            self._links.run(again, f"forward-outcome-{self._thread.index}")
