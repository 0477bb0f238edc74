"""bendybus.v1.ReceiverService: receivers as streams, and unary calls. No rules here."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import grpc

from bendybus.domain import bounds, errors, limits, sequence_number
from bendybus.domain.errors import BusError
from bendybus.domain.shared_access import Right
from bendybus.frontend import browsing
from bendybus.frontend.access import Pass, enter
from bendybus.frontend.calls import gather, remaining_ms
from bendybus.frontend.client_streams import ClientStreams
from bendybus.frontend.gateway import Gateway
from bendybus.frontend.leases import Leases
from bendybus.frontend.receive_desk import Receiver
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2, receiver_pb2_grpc
from bendybus.wire import draining, statuses

Context = grpc.aio.ServicerContext[Any, Any]
# Settlements of one stream under way; the reader waits beyond that.
SETTLES_MAX: Final = 256
# Bytes handed over that the client has not taken off the wire; the receiver pauses beyond that.
UNREAD_BYTES_MAX: Final = 16 * limits.MB

Out = asyncio.Queue[receiver_pb2.ReceiveStreamResponse | BusError | None]


class ReceiverService(receiver_pb2_grpc.ReceiverServiceServicer):
    """Gives messages to clients."""

    def __init__(self, gateway: Gateway, leases: Leases, streams: ClientStreams) -> None:
        self._gateway = gateway
        self._leases = leases
        self._streams = streams

    async def Receive(
        self, request: receiver_pb2.ReceiveRequest, context: Context
    ) -> receiver_pb2.ReceiveResponse:
        """Wait for messages on the server; calls of one client share a cache."""
        try:
            wait_ms = min(request.max_wait_ms, max(0, remaining_ms(context) - 200))
            batches = await self._leases.receive(request, wait_ms)
        except BusError as error:
            self._gateway.figures.refused(request.entity_path, error)
            await statuses.abort(context, error)
            raise
        return receiver_pb2.ReceiveResponse(batches=batches)

    async def ReceiveStream(
        self, request_iterator: AsyncIterator[receiver_pb2.ReceiveStreamRequest], context: Context
    ) -> AsyncIterator[receiver_pb2.ReceiveStreamResponse]:
        """One receiver."""
        caller = await enter(self._streams.access, context)
        stream = _Stream(self._gateway, caller)
        await context.send_initial_metadata(())
        with self._gateway.figures.connections.track_inprogress():
            async with stream:
                held = self._streams.stream(caller, stream.move)
                reader = asyncio.get_running_loop().create_task(
                    stream.read(request_iterator), name="receive-stream-reader"
                )
                try:
                    with held:
                        while (frame := await stream.out.get()) is not None:
                            if isinstance(frame, BusError):
                                error = statuses.to_error(frame)
                                yield receiver_pb2.ReceiveStreamResponse(error=error)
                                return
                            yield frame
                            stream.written(frame)
                finally:
                    reader.cancel()

    async def Settle(
        self, request: receiver_pb2.SettleRequest, context: Context
    ) -> receiver_pb2.SettleResponse:
        """Settle by tokens as text."""
        try:
            tokens = b"".join(_token(text) for text in request.lock_tokens)
            result = await self._gateway.settles.settle(
                receiver_pb2.SettleFrame(
                    disposition=request.disposition,
                    lock_tokens=tokens,
                    changed_properties=request.changed_properties,
                    dead_letter_reason=request.dead_letter_reason,
                    dead_letter_error_description=request.dead_letter_error_description,
                )
            )
        except BusError as error:
            await statuses.abort(context, error)
            raise
        return receiver_pb2.SettleResponse(
            failures=result.failures, locked_until_ms=result.locked_until_ms
        )

    async def ReceiveDeferred(
        self, request: receiver_pb2.ReceiveDeferredRequest, context: Context
    ) -> receiver_pb2.ReceiveDeferredResponse:
        """Lock deferred messages, each in the partition of its number."""
        try:
            batches = await self._receive_deferred(request)
        except BusError as error:
            self._gateway.figures.refused(request.entity_path, error)
            await statuses.abort(context, error)
            raise
        return receiver_pb2.ReceiveDeferredResponse(batches=batches)

    async def Peek(
        self, request: receiver_pb2.PeekRequest, context: Context
    ) -> receiver_pb2.PeekResponse:
        """Show messages."""
        try:
            return await browsing.peek(self._gateway, request)
        except BusError as error:
            self._gateway.figures.refused(request.entity_path, error)
            await statuses.abort(context, error)
            raise

    async def DeleteMessages(
        self, request: receiver_pb2.DeleteMessagesRequest, context: Context
    ) -> receiver_pb2.DeleteMessagesResponse:
        """Delete the oldest messages."""
        try:
            return await browsing.delete_messages(self._gateway, request)
        except BusError as error:
            self._gateway.figures.refused(request.entity_path, error)
            await statuses.abort(context, error)
            raise

    async def _receive_deferred(
        self, request: receiver_pb2.ReceiveDeferredRequest
    ) -> list[message_pb2.DeliveredBatch]:
        gateway = self._gateway
        entity, dead_letter = gateway.directory.lookup(request.entity_path)
        bounds.check_numbers("sequence_numbers", request.sequence_numbers)
        by_partition: dict[int, list[int]] = {}
        for number in request.sequence_numbers:
            by_partition.setdefault(sequence_number.partition_of(number), []).append(number)
        if len(by_partition) > 1:
            # Locking in one partition and failing in another would leave locks behind.
            raise errors.InvalidOperation(
                f"queue {entity.name!r}: the numbers are of partitions "
                f"{sorted(by_partition)}; one call receives deferred messages of one partition. "
                "Make a call for each.",
                metadata={"entity": entity.name, "field": "sequence_numbers"},
            )
        ref = partition_pb2.EntityRef(
            uid=entity.uid, generation=entity.generation, dead_letter=dead_letter
        )
        answers = await gather(
            gateway,
            by_partition,
            lambda calls, partition: calls.ReceiveDeferred(
                partition_pb2.ReceiveDeferredRequest(
                    partition=partition,
                    entity=ref,
                    receive_mode=request.receive_mode,
                    sequence_numbers=by_partition[partition],
                ),
                timeout=gateway.settings.unary_timeout_s,
            ),
            what="sequence_numbers",
        )
        return [answer.batch for answer in answers.values()]


class _Stream:
    """One ReceiveStream: its receiver, its settlements, what it has to say."""

    def __init__(self, gateway: Gateway, caller: Pass) -> None:
        self.out: Out = asyncio.Queue()
        self._gateway = gateway
        self._caller = caller
        self._finishing = False
        self._receiver: Receiver | None = None
        self._settles: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(SETTLES_MAX)
        self._unread_bytes = 0

    async def __aenter__(self) -> "_Stream":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._receiver is not None:
            self._gateway.receives.close(self._receiver)
        for task in self._settles:
            task.cancel()

    def move(self) -> None:
        """Ask the client to half-close; end in any case when it does not."""
        self.out.put_nowait(receiver_pb2.ReceiveStreamResponse(moving=True))
        asyncio.get_running_loop().call_later(draining.MOVE_S, self.finish)

    def finish(self) -> None:
        """Take nothing more, hand nothing more over; end when all is answered."""
        self._finishing = True
        if self._receiver is not None:
            self._receiver.pause()
        self._end_if_done()

    def _end_if_done(self) -> None:
        # What partitions are deleting for this client must get to it.
        handing = self._receiver is not None and self._receiver.handing
        if self._finishing and not self._settles and not handing:
            self.out.put_nowait(None)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settles.discard(task)
        self._end_if_done()

    def written(self, frame: receiver_pb2.ReceiveStreamResponse) -> None:
        """Note that the client took a frame; go on if it had fallen behind."""
        if not frame.HasField("delivery"):
            return
        behind = self._unread_bytes >= UNREAD_BYTES_MAX
        self._unread_bytes -= frame.delivery.ByteSize()
        caught_up = behind and self._unread_bytes < UNREAD_BYTES_MAX
        if caught_up and self._receiver is not None and not self._finishing:
            self._receiver.resume()

    async def read(self, requests: AsyncIterator[receiver_pb2.ReceiveStreamRequest]) -> None:
        """Take what the client says until it ends."""
        try:
            async for request in requests:
                if not self._finishing:
                    await self._take(request)
            self.finish()
        except BusError as error:
            self.out.put_nowait(error)

    async def _take(self, request: receiver_pb2.ReceiveStreamRequest) -> None:
        kind = request.WhichOneof("kind")
        if kind == "open":
            self._open(request.open)
            return
        if kind == "settle":
            if self._receiver is None:
                # Whose messages these are is not said.
                self._caller.check("", Right.LISTEN)
            await self._room.acquire()
            task = asyncio.get_running_loop().create_task(
                self._settle(request.settle), name="settle"
            )
            self._settles.add(task)
            task.add_done_callback(self._settled)
            return
        if self._receiver is None:
            raise errors.InvalidArgument("kind", "the first frame of a receiver opens it.")
        if kind == "ask":
            ask = request.ask
            bounds.check_number("max_bytes", ask.max_bytes, bounds.BYTES_MAX)
            bounds.check_number(
                "max_wait_ms", ask.max_wait_ms, bounds.TIME_MS_MAX, -bounds.TIME_MS_MAX
            )
            self._receiver.ask(ask.ask_id, ask.max_messages, ask.max_bytes, ask.max_wait_ms)
        elif kind == "cancel_ask":
            self._receiver.cancel(request.cancel_ask.ask_id)
        else:
            raise errors.InvalidArgument("kind", "a frame says what it is.")

    def _open(self, request: receiver_pb2.OpenReceiver) -> None:
        if self._receiver is not None:
            raise errors.InvalidArgument("open", "a receiver is opened once.")
        self._caller.check(request.entity_path, Right.LISTEN)
        self._receiver = self._gateway.receives.open(
            request.entity_path, request.receive_mode, self._hand, self.out.put_nowait
        )
        opened = receiver_pb2.ReceiverOpened(
            lock_duration_ms=self._receiver.entity.queue.lock_duration_ms
        )
        self.out.put_nowait(receiver_pb2.ReceiveStreamResponse(opened=opened))

    def _hand(self, tag: int, batches: Sequence[message_pb2.DeliveredBatch]) -> None:
        delivery = receiver_pb2.Delivery(ask_id=tag, batches=batches)
        self._unread_bytes += delivery.ByteSize()
        if self._unread_bytes >= UNREAD_BYTES_MAX and self._receiver is not None:
            self._receiver.pause()
        self.out.put_nowait(receiver_pb2.ReceiveStreamResponse(delivery=delivery))
        self._end_if_done()

    async def _settle(self, frame: receiver_pb2.SettleFrame) -> None:
        try:
            # A token can be guessed; what the receiver was opened for was checked.
            uid = self._receiver.entity.uid if self._receiver is not None else ""
            result = await self._gateway.settles.settle(frame, entity_uid=uid)
            self.out.put_nowait(receiver_pb2.ReceiveStreamResponse(settle_result=result))
        except BusError as error:
            self.out.put_nowait(error)
        finally:
            self._room.release()


def _token(text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError as exc:
        raise errors.InvalidArgument("lock_tokens", f"{text!r} is no UUID.") from exc
