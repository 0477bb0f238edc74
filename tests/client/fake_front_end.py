"""A front end in the test's process: the public services over queues in memory, and faults.

Runs in a thread of its own on a free loopback port. Faults are attributes that tests set.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from bendybus.domain import entity, errors
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import BusError
from bendybus.v1 import (
    management_pb2_grpc,
    message_pb2,
    receiver_pb2,
    receiver_pb2_grpc,
    sender_pb2,
    sender_pb2_grpc,
)
from bendybus.wire import statuses
from bendybus.wire.contract_versions import CLIENT
from bendybus.wire.streams import ADMITTED
from tests.client.fake_management_service import ManagementService
from tests.client.fake_receiver_service import ReceiverService
from tests.client.memory_queue import PARTITION, MemoryQueue

_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.so_reuseport", 0),
)


class FakeFrontEnd:
    """The server, its queues and its faults."""

    def __init__(self) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self.entities: dict[str, Entity] = {}
        self.port = 0
        # Every frame that arrived, as it was: (producer_id, frame_id, age_ms, group sizes, ids).
        self.frames: list[tuple[bytes, int, int, list[int], list[str]]] = []
        self.settle_frames: list[receiver_pb2.SettleFrame] = []
        self.asks: list[receiver_pb2.Ask] = []
        # Commands of each frame of receivers, by kind.
        self.receiver_frames: list[list[str]] = []
        # The metadata that it sends of its contract. And the metadata of clients.
        self.said: tuple[tuple[str, str], ...] = (CLIENT.said,)
        self.metadata: dict[str, tuple[Any, ...]] = {}
        # Faults: how many answers to swallow or streams to break; errors to give, one each.
        self.break_send_streams = 0
        self.break_receive_streams = 0
        self.swallow_frames = 0
        # Errors to give to receives, and to receivers when they open.
        self.ask_errors: list[BusError] = []
        self.open_errors: list[BusError] = []
        self.hang_receives = False
        self.hold_receivers: asyncio.Event | None = None
        self.hold_frames: asyncio.Event | None = None
        self.hold_settlements: asyncio.Event | None = None
        self.frame_errors: list[BusError] = []
        self.refuse_repeats: BusError | None = None
        self.possible_duplicates: list[int] = []
        self.lose_cancels = 0
        self.group_errors: dict[str, list[BusError]] = {}
        self.call_errors: list[BusError] = []
        # What send streams carried as authorization.
        self.tokens: set[str] = set()
        self.keep_numbers = True
        self._seen: dict[tuple[bytes, int], sender_pb2.SendStreamResponse] = {}
        self._started = threading.Event()
        self._arrived: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="fake-front-end", daemon=True)

    @property
    def connection_string(self) -> str:
        """What clients connect with."""
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName=k;SharedAccessKey=s;"
            "UseDevelopmentEmulator=true"
        )

    def start(self) -> "FakeFrontEnd":
        """Start listening."""
        self._thread.start()
        assert self._started.wait(10)
        return self

    def stop(self) -> None:
        """Stop listening."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def call(self, function: Callable[[], Any]) -> None:
        """Run something on the server's loop."""
        self._loop.call_soon_threadsafe(function)

    def add_queue(self, name: str, *, lock_ms: int = 30_000) -> MemoryQueue:
        """Make a queue with its dead-letter queue."""
        queue = self.queues[name] = MemoryQueue(lock_ms)
        queue.dead = self.queues[f"{name}/{entity.DEAD_LETTER_SUFFIX}"] = MemoryQueue(lock_ms)
        description = QueueDescription(lock_duration_ms=lock_ms)
        self.entities[name] = Entity(
            name, f"uid-{name}", 1, Origin.CLIENT, description, 1, PARTITION, 1, 1
        )
        return queue

    def queue(self, path: str) -> MemoryQueue:
        """Return a queue. Raises EntityNotFound."""
        if path not in self.queues:
            raise errors.EntityNotFound(f"There is no queue {path!r}.", metadata={"entity": path})
        return self.queues[path]

    def stored(self, frame: sender_pb2.SendStreamRequest) -> sender_pb2.SendStreamResponse:
        """Store a frame once; a repeat gets the first answer."""
        key = (frame.producer_id, frame.frame_id)
        if key in self._seen:
            return self._seen[key]
        response = sender_pb2.SendStreamResponse(frame_id=frame.frame_id)
        try:
            queue = self.queue(frame.entity_path)
            if self.frame_errors:
                raise self.frame_errors.pop(0)
        except BusError as exc:
            response.error.CopyFrom(statuses.to_error(exc))
            return response
        batch = frame.batch
        sizes = list(frame.group_sizes) or [len(batch.messages)]
        bad: set[int] = set()
        start = 0
        for group, size in enumerate(sizes):
            for message_id in batch.message_ids[start : start + size]:
                if self.group_errors.get(message_id) and group not in bad:
                    error = statuses.to_error(self.group_errors[message_id].pop(0))
                    response.failures.add(group=group, error=error)
                    bad.add(group)
            start += size
        if not bad:
            response.sequence_numbers.extend(queue.append(batch))
        else:
            self._store_good(queue, batch, sizes, bad, response)
        if not any(f.error.outcome == message_pb2.OUTCOME_UNKNOWN for f in response.failures):
            self._seen[key] = response
        self.arrived()
        return response

    def arrived(self) -> None:
        """Wake the asks."""
        assert self._arrived is not None
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def wait(self, timeout_s: float) -> None:
        """Wait until something may have arrived."""
        assert self._arrived is not None
        try:
            await asyncio.wait_for(self._arrived.wait(), max(0.001, timeout_s))
        except TimeoutError:
            return

    def _store_good(
        self,
        queue: MemoryQueue,
        batch: message_pb2.MessageBatch,
        sizes: list[int],
        bad: set[int],
        response: sender_pb2.SendStreamResponse,
    ) -> None:
        start = 0
        for group, size in enumerate(sizes):
            stop = start + size
            if group in bad:
                response.sequence_numbers.extend([0] * size)
            else:
                part = message_pb2.MessageBatch(
                    messages=batch.messages[start:stop],
                    message_ids=batch.message_ids[start:stop],
                )
                response.sequence_numbers.extend(queue.append(part))
            start = stop

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._arrived = asyncio.Event(), asyncio.Event()
        server = grpc.aio.server(options=_OPTIONS)
        # Calls that no client makes stay unimplemented.
        sender: Any = _Sender(self)  # type: ignore[abstract]  # not every method is served
        receiver: Any = ReceiverService(self)  # type: ignore[abstract]  # not every method is served
        sender_pb2_grpc.add_SenderServiceServicer_to_server(sender, server)
        receiver_pb2_grpc.add_ReceiverServiceServicer_to_server(receiver, server)
        management_pb2_grpc.add_ManagementServiceServicer_to_server(ManagementService(self), server)  # type: ignore[abstract]
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._started.set()
        await self._stop.wait()
        await server.stop(0.1)


class _Sender(sender_pb2_grpc.SenderServiceServicer):
    def __init__(self, fake: FakeFrontEnd) -> None:
        self._fake = fake

    async def SendStream(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        fake = self._fake
        fake.metadata["SendStream"] = tuple(context.invocation_metadata() or ())
        fake.tokens |= {
            str(value)
            for name, value in context.invocation_metadata() or ()
            if name == "authorization"
        }
        await context.send_initial_metadata((ADMITTED, *fake.said))
        async for frame in request_iterator:
            ids = list(frame.batch.message_ids)
            fake.frames.append(
                (frame.producer_id, frame.frame_id, frame.age_ms, list(frame.group_sizes), ids)
            )
            if fake.hold_frames is not None:
                await fake.hold_frames.wait()
            if fake.break_send_streams:
                fake.break_send_streams -= 1
                fake.stored(frame)
                await context.abort(grpc.StatusCode.UNAVAILABLE, "broken on purpose")
            response = fake.stored(frame)
            if fake.refuse_repeats is not None and frame.age_ms:
                refused = statuses.to_error(fake.refuse_repeats)
                response = sender_pb2.SendStreamResponse(frame_id=frame.frame_id, error=refused)
            response.possible_duplicates.extend(fake.possible_duplicates)
            if fake.swallow_frames:
                fake.swallow_frames -= 1
                continue
            yield response

    async def CancelScheduledMessages(self, request: Any, context: Any) -> Any:
        if self._fake.lose_cancels:
            self._fake.lose_cancels -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        try:
            queue = self._fake.queue(request.entity_path)
            for number in request.sequence_numbers:
                if number not in queue.messages:
                    raise errors.MessageNotFound(f"There is no message {number}.")
            for number in request.sequence_numbers:
                del queue.messages[number]
        except BusError as exc:
            await statuses.abort(context, exc)
        return sender_pb2.CancelScheduledMessagesResponse()
