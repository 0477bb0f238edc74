"""bendybus.v1.ReceiverService: receivers as streams, and unary calls. No rules here."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from bendybus.domain import bounds, errors, limits
from bendybus.domain.errors import BusError
from bendybus.frontend.core import batch_delete, browse, by_number, receive_cache, settle
from bendybus.frontend.core.accounts import Account, Accounts
from bendybus.frontend.core.gateway import Gateway
from bendybus.frontend.core.receive import Receiver
from bendybus.frontend.listeners import deadlines
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.security.authenticator import Caller
from bendybus.frontend.security.operations import Operation
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import message_pb2, receiver_pb2, receiver_pb2_grpc
from bendybus.wire import draining, statuses
from bendybus.wire.admission import ADMITTED

Context = grpc.aio.ServicerContext[Any, Any]
# Settlements of one stream under way; the reader waits beyond that.
SETTLES_MAX: Final = 256
# Answers that the client has not read; nothing more of it is read beyond that.
ANSWERS_MAX: Final = 2_048
# A delivery that waited longer than this to be written has locks that are shorter by then.
LATE_MS: Final = 100
# What a unary receive leaves of its call's time for the answer.
ANSWER_MS: Final = 200 + receive_cache.CLOSING_MS


class ReceiverService(receiver_pb2_grpc.ReceiverServiceServicer):
    """Gives messages to clients."""

    def __init__(self, gateway: Gateway, streams: ClientStreams) -> None:
        self._gateway = gateway
        self._streams = streams
        self._accounts = Accounts(gateway.receives)

    @statuses.unary
    async def Receive(
        self, request: receiver_pb2.ReceiveRequest, context: Context
    ) -> receiver_pb2.ReceiveResponse:
        """Wait for messages on the server; calls of one client share a cache."""
        wait_ms = min(request.max_wait_ms, max(0, deadlines.remaining_ms(context) - ANSWER_MS))
        with self._gateway.figures.refusals(request.entity_path):
            bounds.check_text("client_id", request.client_id, limits.KEY_CHARS_MAX)
            # Never equal to another caller's connection.
            owner = ("client", request.client_id) if request.client_id else context.peer()
            batches = await self._gateway.receives.receive(request, wait_ms, owner)
        return receiver_pb2.ReceiveResponse(batches=batches)

    async def ReceiveStream(
        self, request_iterator: AsyncIterator[receiver_pb2.ReceiveStreamRequest], context: Context
    ) -> AsyncIterator[receiver_pb2.ReceiveStreamResponse]:
        """One receiver."""
        async with statuses.errors_as_status(context):
            caller = self._streams.caller(context)
        await context.send_initial_metadata((ADMITTED,))
        with (
            self._gateway.figures.connections.track_inprogress(),
            self._accounts.of(context.peer()) as account,
        ):
            async with _Stream(self._gateway, caller, account) as stream:
                reader = asyncio.get_running_loop().create_task(
                    stream.read(request_iterator), name="receive-stream-reader"
                )
                try:
                    with self._streams.stream(caller, stream.move):
                        async for frame in stream.frames():
                            yield frame
                finally:
                    reader.cancel()

    @statuses.unary
    async def Settle(
        self, request: receiver_pb2.SettleRequest, context: Context
    ) -> receiver_pb2.SettleResponse:
        """Settle by tokens as text."""
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
        return receiver_pb2.SettleResponse(
            failures=result.failures, locked_until_ms=result.locked_until_ms
        )

    @statuses.unary
    async def ReceiveDeferred(
        self, request: receiver_pb2.ReceiveDeferredRequest, context: Context
    ) -> receiver_pb2.ReceiveDeferredResponse:
        """Lock deferred messages, each in the partition of its number."""
        with self._gateway.figures.refusals(request.entity_path):
            batches = await by_number.receive_deferred(
                self._gateway,
                by_number.Operation(
                    request.entity_path,
                    request.sequence_numbers,
                    request.operation_id,
                    request.age_ms,
                ),
                request.receive_mode,
            )
        return receiver_pb2.ReceiveDeferredResponse(batches=batches)

    @statuses.unary
    async def Peek(
        self, request: receiver_pb2.PeekRequest, context: Context
    ) -> receiver_pb2.PeekResponse:
        """Show messages."""
        with self._gateway.figures.refusals(request.entity_path):
            shown = await browse.peek(
                self._gateway,
                browse.Peek(
                    request.entity_path,
                    request.max_messages,
                    request.from_sequence_number,
                    request.cursor,
                ),
            )
        return receiver_pb2.PeekResponse(batches=shown.batches, cursor=shown.cursor)

    @statuses.unary
    async def DeleteMessages(
        self, request: receiver_pb2.DeleteMessagesRequest, context: Context
    ) -> receiver_pb2.DeleteMessagesResponse:
        """Delete the oldest messages."""
        with self._gateway.figures.refusals(request.entity_path):
            deleted = await batch_delete.delete_messages(
                self._gateway,
                batch_delete.BatchDelete(
                    request.entity_path,
                    request.max_messages,
                    request.enqueued_before_ms,
                    request.include_deferred_and_scheduled,
                    request.operation_id,
                    request.age_ms,
                ),
            )
        return receiver_pb2.DeleteMessagesResponse(deleted=deleted)


# (frame, bytes handed over, tokens settled, when); an error or None ends the stream.
Out = asyncio.Queue[tuple[receiver_pb2.ReceiveStreamResponse, int, int, int] | BusError | None]


class _Stream:
    """One ReceiveStream: its receiver, its settlements, what it has to say."""

    def __init__(self, gateway: Gateway, caller: Caller, account: Account) -> None:
        self._out: Out = asyncio.Queue()
        self._gateway = gateway
        self._caller = caller
        self._account = account
        self._finishing = False
        self._closed = False
        # Set when the client read an answer.
        self._taken = asyncio.Event()
        self._receiver: Receiver | None = None
        self._settler_id = b""
        self._settles: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(SETTLES_MAX)
        # What this stream has of its connection's account.
        self._unread_bytes = 0
        self._tokens = 0

    async def __aenter__(self) -> "_Stream":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        if self._receiver is not None:
            self._gateway.receives.close(self._receiver)
        for task in self._settles:
            task.cancel()
        self._account.read(self._unread_bytes)
        self._account.give_tokens(self._tokens)

    async def frames(self) -> AsyncIterator[receiver_pb2.ReceiveStreamResponse]:
        """Yield what the client is told, until the stream ends."""
        while (entry := await self._out.get()) is not None:
            if isinstance(entry, BusError):
                error = statuses.to_error(entry)
                yield receiver_pb2.ReceiveStreamResponse(error=error)
                return
            frame, size_bytes, tokens, put_ms = entry
            if size_bytes and (waited_ms := now_ms() - put_ms) > LATE_MS:
                _age(frame.delivery, waited_ms)
            yield frame
            self._taken.set()
            # The client took it off the wire, or there is room on the wire for it.
            if size_bytes:
                self._unread_bytes -= size_bytes
                self._account.read(size_bytes)
            if tokens:
                self._tokens -= tokens
                self._account.give_tokens(tokens)
                self._room.release()

    def move(self) -> None:
        """Ask the client to half-close; end in any case when it does not."""
        self._say(receiver_pb2.ReceiveStreamResponse(moving=True))
        asyncio.get_running_loop().call_later(draining.MOVE_S, self.finish)

    def finish(self) -> None:
        """Take nothing more, hand nothing more over; end when all is answered."""
        self._finishing = True
        if self._receiver is not None:
            self._receiver.finish()
        self._end_if_done()

    def _say(self, frame: receiver_pb2.ReceiveStreamResponse) -> None:
        self._out.put_nowait((frame, 0, 0, 0))

    def _end_if_done(self) -> None:
        # What partitions are deleting for this client must get to it.
        handing = self._receiver is not None and self._receiver.handing
        if self._finishing and not self._settles and not handing:
            self._out.put_nowait(None)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settles.discard(task)
        self._end_if_done()

    async def read(self, requests: AsyncIterator[receiver_pb2.ReceiveStreamRequest]) -> None:
        """Take what the client says until it ends."""
        try:
            async for request in requests:
                while self._out.qsize() >= ANSWERS_MAX:
                    self._taken.clear()
                    await self._taken.wait()
                if not self._finishing:
                    await self._take(request)
            self.finish()
        except BusError as error:
            self._out.put_nowait(error)
        except DecodeError as error:
            self._out.put_nowait(statuses.malformed(error))

    async def _take(self, request: receiver_pb2.ReceiveStreamRequest) -> None:
        kind = request.WhichOneof("kind")
        if kind == "open":
            self._open(request.open)
            return
        if kind == "settle":
            await self._take_settlement(request.settle)
            return
        if self._receiver is None:
            raise errors.InvalidArgument("kind", "the first frame must be `open`.")
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
            raise errors.InvalidArgument("kind", "must be set.")

    def _open(self, request: receiver_pb2.OpenReceiver) -> None:
        if self._receiver is not None:
            raise errors.InvalidArgument("open", "the receiver is already open.")
        if len(request.settler_id) > limits.SETTLER_ID_BYTES_MAX:
            raise errors.InvalidArgument(
                "settler_id", f"must be at most {limits.SETTLER_ID_BYTES_MAX} bytes."
            )
        self._caller.check(Operation.RECEIVE, request.entity_path)
        self._settler_id = request.settler_id
        self._receiver = self._gateway.receives.open(
            request.entity_path,
            request.receive_mode,
            self._hand,
            self._out.put_nowait,
            owner=self._account.owner,
        )
        opened = receiver_pb2.ReceiverOpened(
            lock_duration_ms=self._receiver.entity.queue.lock_duration_ms
        )
        self._say(receiver_pb2.ReceiveStreamResponse(opened=opened))

    def _hand(
        self, tag: int, batches: Sequence[message_pb2.DeliveredBatch], error: BusError | None
    ) -> None:
        if self._closed:
            # Nobody reads it, so nobody would uncount it.
            return
        response = receiver_pb2.ReceiveStreamResponse()
        delivery = response.delivery
        delivery.ask_id = tag
        for batch in batches:
            # Given to a constructor it would be serialised and parsed.
            delivery.batches.add().CopyFrom(batch)
        if error is not None:
            delivery.error.CopyFrom(statuses.to_error(error))
        size_bytes = delivery.ByteSize()
        self._unread_bytes += size_bytes
        self._out.put_nowait((response, size_bytes, 0, now_ms()))
        self._account.handed(size_bytes)
        self._end_if_done()

    async def _take_settlement(self, frame: receiver_pb2.SettleFrame) -> None:
        if self._receiver is None:
            # Which entity the messages are of is not known.
            self._caller.check(Operation.SETTLE)
        count = settle.check(frame)
        await self._room.acquire()
        taken = await self._account.take_tokens(count)
        self._tokens += taken
        task = asyncio.get_running_loop().create_task(self._settle(frame, taken), name="settle")
        self._settles.add(task)
        task.add_done_callback(self._settled)

    async def _settle(self, frame: receiver_pb2.SettleFrame, taken: int) -> None:
        try:
            # A token can be guessed; what the receiver was opened for was checked.
            uid = self._receiver.entity.uid if self._receiver is not None else ""
            result = await self._gateway.settles.settle(
                frame, entity_uid=uid, settler_id=self._settler_id
            )
            self._out.put_nowait(
                (receiver_pb2.ReceiveStreamResponse(settle_result=result), 0, taken, 0)
            )
        except BusError as error:
            self._out.put_nowait(error)


def _age(delivery: receiver_pb2.Delivery, waited_ms: int) -> None:
    """Take the time that a delivery waited to be written off its locks; leave out what ended."""
    kept = [
        batch
        for batch in delivery.batches
        if not batch.lock_tokens or batch.lock_remaining_ms > waited_ms
    ]
    for batch in kept:
        batch.lock_remaining_ms -= waited_ms if batch.lock_tokens else 0
    if len(kept) < len(delivery.batches):
        copies = [message_pb2.DeliveredBatch.FromString(b.SerializeToString()) for b in kept]
        del delivery.batches[:]
        delivery.batches.extend(copies)


def _token(text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError as exc:
        raise errors.InvalidArgument("lock_tokens", f"invalid UUID: {text[:64]!r}.") from exc
