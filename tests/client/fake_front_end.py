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
from bendybus.domain.errors import BusError
from bendybus.v1 import (
    management_pb2,
    management_pb2_grpc,
    message_pb2,
    receiver_pb2,
    receiver_pb2_grpc,
    sender_pb2,
    sender_pb2_grpc,
)
from bendybus.wire import entities, merged_frames, statuses
from bendybus.wire.admission import ADMITTED
from tests.client import memory_queue
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
        # Whether it reads merged frames, as front ends since 0.4 do.
        self.merges = False
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
        description = entity.QueueDescription(lock_duration_ms=lock_ms)
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
        receiver: Any = _Receiver(self)  # type: ignore[abstract]  # not every method is served
        sender_pb2_grpc.add_SenderServiceServicer_to_server(sender, server)
        receiver_pb2_grpc.add_ReceiverServiceServicer_to_server(receiver, server)
        management_pb2_grpc.add_ManagementServiceServicer_to_server(_Management(self), server)
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
        fake.tokens |= {
            str(value)
            for name, value in context.invocation_metadata() or ()
            if name == "authorization"
        }
        await context.send_initial_metadata((ADMITTED,))
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


class _Stream:
    """One receiver stream: a reader that settles and queues asks, a writer that answers."""

    def __init__(self, fake: FakeFrontEnd, context: Any) -> None:
        self._fake = fake
        self._context = context
        self._write = asyncio.Lock()
        self._cancelled: set[int] = set()
        self._asks: asyncio.Queue[receiver_pb2.Ask] = asyncio.Queue()

    async def run(self, requests: Any) -> None:
        first = await anext(aiter(requests), None)
        if first is None:
            return
        opening = first.open
        try:
            queue = self._fake.queue(opening.entity_path)
            if self._fake.open_errors:
                raise self._fake.open_errors.pop(0)
        except BusError as exc:
            await statuses.abort(self._context, exc)
            raise
        delete = opening.receive_mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE
        opened = receiver_pb2.ReceiverOpened(lock_duration_ms=queue.lock_ms)
        await self._say(receiver_pb2.ReceiveStreamResponse(opened=opened))
        writer = asyncio.create_task(self._answer(queue, delete))
        try:
            async for request in requests:
                parts = [request, *request.further]
                self._fake.receiver_frames.append([str(p.WhichOneof("kind")) for p in parts])
                for part in parts:
                    await self._take(queue, part)
        finally:
            writer.cancel()

    async def _take(self, queue: MemoryQueue, request: Any) -> None:
        fake = self._fake
        if fake.break_receive_streams:
            fake.break_receive_streams -= 1
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, "broken on purpose")
        kind = request.WhichOneof("kind")
        if fake.hang_receives:
            return
        if kind == "ask" and fake.ask_errors:
            error = statuses.to_error(fake.ask_errors.pop(0))
            delivery = receiver_pb2.Delivery(ask_id=request.ask.ask_id, error=error)
            await self._say(receiver_pb2.ReceiveStreamResponse(delivery=delivery))
        elif kind == "ask":
            fake.asks.append(request.ask)
            self._asks.put_nowait(request.ask)
        elif kind == "cancel_ask":
            self._cancelled.add(request.cancel_ask.ask_id)
            fake.arrived()
        elif kind == "settle":
            fake.settle_frames.append(request.settle)
            if fake.hold_settlements is not None:
                await fake.hold_settlements.wait()
            result = receiver_pb2.SettleResult(frame_id=request.settle.frame_id)
            tokens = request.settle.lock_tokens
            for index in range(len(tokens) // 16):
                try:
                    queue.settle(request.settle, tokens[index * 16 : index * 16 + 16])
                except BusError as exc:
                    result.failures.add(indexes=[index], error=statuses.to_error(exc))
            if request.settle.disposition == receiver_pb2.DISPOSITION_RENEW_LOCK:
                result.locked_until_ms = memory_queue.now_ms() + queue.lock_ms
                result.lock_remaining_ms = queue.lock_ms
            await self._say(receiver_pb2.ReceiveStreamResponse(settle_result=result))
            fake.arrived()

    async def _answer(self, queue: MemoryQueue, delete: bool) -> None:
        loop = asyncio.get_running_loop()
        while True:
            ask = await self._asks.get()
            end = loop.time() + ask.max_wait_ms / 1_000 if ask.max_wait_ms >= 0 else 1e12
            found = queue.lock(ask.max_messages, delete=delete)
            while not found and ask.ask_id not in self._cancelled and loop.time() < end:
                await self._fake.wait(min(end - loop.time(), 0.1))
                if ask.ask_id not in self._cancelled:
                    found = queue.lock(ask.max_messages, delete=delete)
            delivery = receiver_pb2.Delivery(ask_id=ask.ask_id)
            if found:
                delivery.batches.append(queue.delivered(found))
            await self._say(receiver_pb2.ReceiveStreamResponse(delivery=delivery))

    async def _say(self, response: receiver_pb2.ReceiveStreamResponse) -> None:
        async with self._write:
            await self._context.write(response)


class _Receiver(receiver_pb2_grpc.ReceiverServiceServicer):
    def __init__(self, fake: FakeFrontEnd) -> None:
        self._fake = fake

    async def ReceiveStream(  # type: ignore[override]  # writes through the context
        self, request_iterator: Any, context: Any
    ) -> None:
        if self._fake.hold_receivers is not None:
            await self._fake.hold_receivers.wait()
        said = (ADMITTED, merged_frames.READS) if self._fake.merges else (ADMITTED,)
        await context.send_initial_metadata(said)
        await _Stream(self._fake, context).run(request_iterator)

    async def ReceiveDeferred(self, request: Any, context: Any) -> Any:
        try:
            queue = self._fake.queue(request.entity_path)
            found = [queue.messages.get(number) for number in request.sequence_numbers]
            if any(one is None or not one.deferred or one.token for one in found):
                raise errors.MessageNotFound("There is no deferred message of that number.")
        except BusError as exc:
            await statuses.abort(context, exc)
        delete = request.receive_mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE
        given = [queue.give(one, delete=delete) for one in found if one is not None]
        return receiver_pb2.ReceiveDeferredResponse(batches=[queue.delivered(given)])

    async def Peek(self, request: Any, context: Any) -> Any:
        try:
            if self._fake.call_errors:
                raise self._fake.call_errors.pop(0)
            queue = self._fake.queue(request.entity_path)
        except BusError as exc:
            await statuses.abort(context, exc)
        start = request.from_sequence_number or int(request.cursor or b"0")
        found = [one for number, one in sorted(queue.messages.items()) if number >= start]
        found = found[: request.max_messages or 1]
        batch = queue.delivered(found)
        batch.ClearField("lock_tokens")
        batch.ClearField("locked_until_ms")
        end = found[-1].number + 1 if found else start
        return receiver_pb2.PeekResponse(batches=[batch] if found else [], cursor=b"%d" % end)

    async def DeleteMessages(self, request: Any, context: Any) -> Any:
        queue = self._fake.queue(request.entity_path)
        before = request.enqueued_before_ms or 1 << 62
        doomed = [
            one.number
            for one in queue.messages.values()
            if not one.token
            and one.enqueued_ms <= before
            and (request.include_deferred_and_scheduled or not (one.deferred or one.scheduled_ms))
        ][: request.max_messages]
        for number in doomed:
            del queue.messages[number]
        return receiver_pb2.DeleteMessagesResponse(deleted=len(doomed))


class _Management(management_pb2_grpc.ManagementServiceServicer):
    def __init__(self, fake: FakeFrontEnd) -> None:
        self._fake = fake

    def _shown(self, name: str, runtime: bool) -> Any:
        shown = entities.queue_to_proto(self._fake.entities[name])
        if runtime:
            queue = self._fake.queues[name]
            counts = shown.runtime.count_details
            counts.active_message_count = sum(
                1 for one in queue.messages.values() if not one.deferred and not one.scheduled_ms
            )
            counts.dead_letter_message_count = len(queue.dead.messages) if queue.dead else 0
            counts.scheduled_message_count = sum(
                1 for one in queue.messages.values() if one.scheduled_ms
            )
            shown.runtime.size_in_bytes = sum(len(one.payload) for one in queue.messages.values())
            shown.runtime.created_at_ms = 1_700_000_000_000
            shown.runtime.updated_at_ms = 1_700_000_000_000
            shown.runtime.availability_status = management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE
        return shown

    async def _known(self, name: str, context: Any) -> None:
        if name not in self._fake.entities:
            await statuses.abort(context, errors.EntityNotFound(f"There is no queue {name!r}."))

    async def GetNamespace(self, request: Any, context: Any) -> Any:
        return management_pb2.GetNamespaceResponse(
            name="test", uid="u", tier="Standard", partition_count=16, version="0"
        )

    async def CreateQueue(self, request: Any, context: Any) -> Any:
        known = self._fake.entities.get(request.name)
        if known is not None and known.uid == request.uid:
            return management_pb2.CreateQueueResponse(queue=self._shown(request.name, False))
        if known is not None:
            taken = errors.EntityAlreadyExists(f"The name {request.name!r} is taken.")
            await statuses.abort(context, taken)
        try:
            wanted = entities.description_from_proto(request.description)
            for field in entity.NOT_YET:
                if getattr(wanted, field):
                    raise errors.InvalidArgument(entity.MANIFEST_NAMES[field], "is refused.")
        except BusError as exc:
            await statuses.abort(context, exc)
        self._fake.add_queue(request.name, lock_ms=wanted.lock_duration_ms)
        uid = request.uid or "uid"
        made = Entity(request.name, uid, 1, Origin.CLIENT, wanted, 1, PARTITION, 1, 1)
        self._fake.entities[request.name] = made
        return management_pb2.CreateQueueResponse(queue=self._shown(request.name, False))

    async def UpdateQueue(self, request: Any, context: Any) -> Any:
        await self._known(request.name, context)
        old = self._fake.entities[request.name]
        changes = entities.description_changes(request.description)
        wanted = entity.merged(old.queue, changes)
        self._fake.entities[request.name] = Entity(
            old.name, old.uid, old.generation + 1, old.origin, wanted, 1, PARTITION, 1, 1
        )
        return management_pb2.UpdateQueueResponse(queue=self._shown(request.name, False))

    async def DeleteQueue(self, request: Any, context: Any) -> Any:
        await self._known(request.name, context)
        del self._fake.entities[request.name], self._fake.queues[request.name]
        return management_pb2.DeleteQueueResponse()

    async def GetQueue(self, request: Any, context: Any) -> Any:
        await self._known(request.name, context)
        shown = self._shown(request.name, request.include_runtime)
        return management_pb2.GetQueueResponse(queue=shown)

    async def ListQueues(self, request: Any, context: Any) -> Any:
        names = sorted(self._fake.entities)
        start = int(request.page_token or "0")
        size = request.page_size or 100
        page = [self._shown(name, request.include_runtime) for name in names[start : start + size]]
        more = str(start + size) if start + size < len(names) else ""
        return management_pb2.ListQueuesResponse(queues=page, next_page_token=more)
