"""The sends of a front end in this process, whose partitions a test plays."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import BusError
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.repeated_sends import RepeatedSends
from bendybus.frontend.core.send import SendDispatcher, SendOutcome, SendRequest
from bendybus.frontend.core.shared_sends import SharedSends
from bendybus.frontend.upstreams import send_frames
from bendybus.frontend.upstreams.stream import Lane
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue


class Partition:
    """Takes frames; a test answers them."""

    clock_offset_ms = 0

    def __init__(self, came: asyncio.Event) -> None:
        self.available = True
        self.frames: list[partition_pb2.SendFramesRequest] = []
        self._came = came

    @property
    def sends(self) -> "Partition":
        return self

    def put(self, frame: partition_pb2.SendFramesRequest, lane: Lane) -> bool:
        self.frames.append(frame)
        self._came.set()
        return True

    def miss(self, why: str) -> None:
        raise AssertionError(why)


class FrontEnd:
    """The sends of a front end with a plain queue and one of four partitions."""

    def __init__(self, entities: Sequence[Entity] = ()) -> None:
        directory = Directory()
        fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
        made = entities or [queue("plain", partitions=1), queue("parted"), queue("other")]
        directory.update(0, fingerprint, made, snapshot=True)
        self._came = asyncio.Event()
        self.partitions = {each: Partition(self._came) for each in range(4)}
        self.metrics = Metrics()
        upstreams: Any = self.partitions
        self.sends = SendDispatcher(upstreams, directory, self.metrics)
        self.shared = SharedSends(self.sends)
        self.repeated = RepeatedSends(self.shared, self.sends)
        self.numbers = 0
        self._answered: set[int] = set()

    def send(
        self,
        client: str,
        *bodies: str,
        to: str = "plain",
        policy: str = "",
        timeout_ms: int = 0,
        **columns: Any,
    ) -> "Sent":
        """Send messages of a connection, each a unit of its own."""
        batch = message_pb2.MessageBatch(messages=[each.encode() for each in bodies], **columns)
        sizes = [1] * len(bodies) if len(bodies) > 1 else ()
        sent = Sent()
        self.repeated.submit(
            SendRequest(
                to,
                SubQueue.MAIN,
                batch,
                group_sizes=sizes,
                timeout_ms=timeout_ms,
                measured=True,
            ),
            sent.results.append,
            Holder(client, policy),
        )
        return sent

    @property
    def frames(self) -> list[partition_pb2.SendFramesRequest]:
        """The frames that the partitions got, in order."""
        found = [each for partition in self.partitions.values() for each in partition.frames]
        return sorted(found, key=lambda frame: frame.frame_id)

    @property
    def bodies(self) -> list[list[str]]:
        """The messages of each frame."""
        return [[each.decode() for each in frame.batch.messages] for frame in self.frames]

    async def repeat(self) -> partition_pb2.SendFramesRequest:
        """Return the next frame that repeats another."""
        self._came.clear()
        await self._came.wait()
        assert self.frames[-1].age_ms
        return self.frames[-1]

    def answer_once(self, frame_id: int) -> None:
        """Answer a frame, unless it is answered."""
        if frame_id not in self._answered:
            self._answered.add(frame_id)
            self.answer(frame_id)

    def answer(self, frame_id: int, failures: Mapping[int, BusError] | None = None) -> None:
        """Answer a frame: all its units are stored but these."""
        [frame] = [each for each in self.frames if each.frame_id == frame_id]
        count = len(frame.batch.messages)
        numbers = list(range(self.numbers + 1, self.numbers + count + 1))
        for unit in failures or ():
            # Each unit of these tests is a message.
            numbers[unit] = 0
        self.numbers += count
        self.sends.answered(
            frame.partition,
            send_frames.Answer(frame_id, numbers, [], list((failures or {}).items()), None),
        )


class Sent:
    """A send, and what it was answered."""

    def __init__(self) -> None:
        self.results: list[SendOutcome | BusError] = []

    @property
    def numbers(self) -> list[int]:
        [result] = self.results
        assert isinstance(result, SendOutcome)
        return list(result.numbers)

    @property
    def error(self) -> BusError:
        [result] = self.results
        if isinstance(result, BusError):
            return result
        [error] = result.failures.values()
        return error


class LaterLoop:
    """A loop whose time and timers a test has."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._now_s = loop.time()
        self.later_s = 0.0
        self.timers: list[Callable[[], None]] = []
        self.call_soon = loop.call_soon

    def time(self) -> float:
        return self._now_s + self.later_s

    def call_later(self, _: float, action: Callable[[], None]) -> None:
        self.timers.append(action)
