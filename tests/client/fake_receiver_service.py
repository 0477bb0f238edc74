"""The receiver service of the front end in the test's process."""

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import MessageState
from bendybus.v1 import receiver_pb2, receiver_pb2_grpc
from bendybus.wire import batch_deletes, statuses
from bendybus.wire.streams import ADMITTED
from tests.client import memory_queue
from tests.client.memory_queue import MemoryQueue

if TYPE_CHECKING:
    from tests.client.fake_front_end import FakeFrontEnd


class _Stream:
    """One receiver stream: a reader that settles and queues asks, a writer that answers."""

    def __init__(self, fake: "FakeFrontEnd", context: Any) -> None:
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


class ReceiverService(receiver_pb2_grpc.ReceiverServiceServicer):
    """Serves receivers from the queues of a FakeFrontEnd."""

    def __init__(self, fake: "FakeFrontEnd") -> None:
        self._fake = fake

    async def ReceiveStream(  # type: ignore[override]  # writes through the context
        self, request_iterator: Any, context: Any
    ) -> None:
        if self._fake.hold_receivers is not None:
            await self._fake.hold_receivers.wait()
        self._fake.metadata["ReceiveStream"] = tuple(context.invocation_metadata() or ())
        await context.send_initial_metadata((ADMITTED, *self._fake.said))
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
        before = batch_deletes.before_ms(request) or 1 << 62
        states = batch_deletes.states(request)
        doomed = [
            one.number
            for one in queue.messages.values()
            if not one.token and one.enqueued_ms <= before and _state_of(one) in states
        ][: request.max_messages]
        for number in doomed:
            del queue.messages[number]
        return receiver_pb2.DeleteMessagesResponse(deleted=len(doomed))


def _state_of(message: Any) -> MessageState:
    if message.scheduled_ms:
        return MessageState.SCHEDULED
    return MessageState.DEFERRED if message.deferred else MessageState.ACTIVE
