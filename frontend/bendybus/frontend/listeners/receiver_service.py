"""bendybus.v1.ReceiverService: receivers as streams, and unary calls. No rules here."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from bendybus.domain import bounds, errors, limits
from bendybus.frontend.core import (
    batch_delete,
    by_number,
    peek,
    receive_cache,
    settle,
)
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.flow_control import charged_tokens
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.settle import SettleRequest
from bendybus.frontend.listeners import receiver_stream, request_values
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.listeners.receiver_stream import ReceiverStream
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import receiver_pb2, receiver_pb2_grpc
from bendybus.wire import batch_deletes, statuses, streams
from bendybus.wire.contract_versions import CLIENT
from bendybus.wire.streams import ADMITTED

# What a unary receive leaves of its call's time for the answer.
ANSWER_MS: Final = 200 + receive_cache.DRAIN_MS


class ReceiverService(receiver_pb2_grpc.ReceiverServiceServicer):
    """Gives messages to clients."""

    def __init__(self, front_end: FrontEnd, streams: ClientStreams) -> None:
        self._front_end = front_end
        self._streams = streams

    @statuses.unary
    async def Receive(
        self, request: receiver_pb2.ReceiveRequest, context: Context
    ) -> receiver_pb2.ReceiveResponse:
        """Wait for messages on the server; calls of one client share a cache."""
        wait_ms = min(request.max_wait_ms, max(0, request_values.remaining_ms(context) - ANSWER_MS))
        with self._front_end.metrics.refusals(request.entity_path):
            bounds.check_text("client_id", request.client_id, limits.KEY_CHARS_MAX)
            # Never equal to another caller's connection, nor to a client of another policy.
            policy = request_values.HOLDER.get().policy
            named = ("client", policy, request.client_id)
            owner = named if request.client_id else context.peer()
            name, sub_queue = request_values.entity_and_sub_queue(request.entity_path)
            source = Source(name, sub_queue, request_values.receive_mode(request.receive_mode))
            batches = await self._front_end.receives.receive(
                source, request.max_messages, wait_ms, owner
            )
        return receiver_pb2.ReceiveResponse(batches=batches)

    async def ReceiveStream(
        self, _: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[receiver_pb2.ReceiveStreamResponse]:
        """One receiver."""
        async with statuses.errors_as_status(context):
            with (
                self._streams.opened(context) as opened,
                self._front_end.deliveries.of(context.peer()) as connection,
                connection.stream() as flow,
                self._front_end.send_answers.of(context.peer()) as answers,
                answers.stream() as outcomes,
            ):
                await context.send_initial_metadata(
                    (ADMITTED, CLIENT.said, streams.clock(now_ms()))
                )
                async with ReceiverStream(
                    self._front_end, opened.caller, opened.holder, flow, outcomes
                ) as stream:
                    reader = asyncio.get_running_loop().create_task(
                        stream.read(opened.frames(context, receiver_pb2.ReceiveStreamRequest)),
                        name="receive-stream-reader",
                    )
                    open_ = self._front_end.metrics.connections.track_inprogress()
                    try:
                        with open_, self._streams.stream(opened, stream.move):
                            async for frame in stream.frames():
                                yield frame
                    finally:
                        reader.cancel()

    @statuses.unary
    async def Settle(
        self, request: receiver_pb2.SettleRequest, context: Context
    ) -> receiver_pb2.SettleResponse:
        """Settle by tokens as text."""
        bounds.check_count("lock_tokens", len(request.lock_tokens), bounds.TOKENS_A_FRAME_MAX)
        settling = SettleRequest(
            request_values.disposition(request.disposition),
            b"".join(_token(text) for text in request.lock_tokens),
            request.changed_properties,
            request.dead_letter_reason,
            request.dead_letter_error_description,
            delay_ms=request.delay_ms,
        )
        settle.check(settling)
        room, holder = self._front_end.quota.settling, request_values.HOLDER.get()
        taken = charged_tokens(len(request.lock_tokens))
        await room.wait(holder, taken)
        outcome = await self._front_end.settles.settle(settling, partial(room.give, holder, taken))
        return receiver_pb2.SettleResponse(
            failures=receiver_stream.to_failures(outcome), locked_until_ms=outcome.locked_until_ms
        )

    @statuses.unary
    async def ReceiveDeferred(
        self, request: receiver_pb2.ReceiveDeferredRequest, context: Context
    ) -> receiver_pb2.ReceiveDeferredResponse:
        """Lock deferred messages, each in the partition of its number."""
        with self._front_end.metrics.refusals(request.entity_path):
            batches = await by_number.receive_deferred(
                self._front_end,
                by_number.Operation(
                    *request_values.entity_and_sub_queue(request.entity_path),
                    request.sequence_numbers,
                    request.operation_id,
                    request.age_ms,
                ),
                request_values.receive_mode(request.receive_mode),
                request.session_token,
            )
        return receiver_pb2.ReceiveDeferredResponse(batches=batches)

    @statuses.unary
    async def RenewSessionLock(
        self, request: receiver_pb2.RenewSessionLockRequest, context: Context
    ) -> receiver_pb2.RenewSessionLockResponse:
        """Renew the lock of a session."""
        with self._front_end.metrics.refusals(request.entity_path):
            until_ms, lasts_ms = await self._front_end.sessions.renew(
                request_values.entity(request.entity_path), request.session_token
            )
        return receiver_pb2.RenewSessionLockResponse(
            locked_until_ms=until_ms, lock_remaining_ms=lasts_ms
        )

    @statuses.unary
    async def GetSessionState(
        self, request: receiver_pb2.GetSessionStateRequest, context: Context
    ) -> receiver_pb2.GetSessionStateResponse:
        """Return what is kept for a session."""
        with self._front_end.metrics.refusals(request.entity_path):
            name = request_values.entity(request.entity_path)
            state = await self._front_end.sessions.state(name, request.session_token)
        return receiver_pb2.GetSessionStateResponse(state=state)

    @statuses.unary
    async def SetSessionState(
        self, request: receiver_pb2.SetSessionStateRequest, context: Context
    ) -> receiver_pb2.SetSessionStateResponse:
        """Keep something for a session, or nothing."""
        state = request.state if request.HasField("state") else None
        with self._front_end.metrics.refusals(request.entity_path):
            name = request_values.entity(request.entity_path)
            await self._front_end.sessions.keep(name, request.session_token, state)
        return receiver_pb2.SetSessionStateResponse()

    @statuses.unary
    async def ListSessions(
        self, request: receiver_pb2.ListSessionsRequest, context: Context
    ) -> receiver_pb2.ListSessionsResponse:
        """List sessions."""
        with self._front_end.metrics.refusals(request.entity_path):
            name = request_values.entity(request.entity_path)
            session_ids, following = await self._front_end.sessions.page(
                name, request.page_size, request.page_token, request.state_updated_after_ms
            )
        return receiver_pb2.ListSessionsResponse(session_ids=session_ids, next_page_token=following)

    @statuses.unary
    async def ListSessionCounts(
        self, request: receiver_pb2.ListSessionCountsRequest, context: Context
    ) -> receiver_pb2.ListSessionCountsResponse:
        """List what sessions hold."""
        with self._front_end.metrics.refusals(request.entity_path):
            name = request_values.entity(request.entity_path)
            sessions, following = await self._front_end.sessions.counts(
                name, request.page_size, request.page_token
            )
        return receiver_pb2.ListSessionCountsResponse(sessions=sessions, next_page_token=following)

    @statuses.unary
    async def Peek(
        self, request: receiver_pb2.PeekRequest, context: Context
    ) -> receiver_pb2.PeekResponse:
        """Show messages."""
        with self._front_end.metrics.refusals(request.entity_path):
            shown = await peek.peek(
                self._front_end,
                peek.Peek(
                    *request_values.entity_and_sub_queue(request.entity_path),
                    request.max_messages,
                    request.from_sequence_number,
                    request.cursor,
                    request.session_id if request.HasField("session_id") else None,
                ),
            )
        return receiver_pb2.PeekResponse(batches=shown.batches, cursor=shown.cursor)

    @statuses.unary
    async def DeleteMessages(
        self, request: receiver_pb2.DeleteMessagesRequest, context: Context
    ) -> receiver_pb2.DeleteMessagesResponse:
        """Delete the oldest messages."""
        with self._front_end.metrics.refusals(request.entity_path):
            deleted = await batch_delete.delete_messages(
                self._front_end,
                batch_delete.BatchDelete(
                    *request_values.entity_and_sub_queue(request.entity_path),
                    request.max_messages,
                    batch_deletes.before_ms(request),
                    batch_deletes.states(request),
                    request.operation_id,
                    request.age_ms,
                ),
            )
        return receiver_pb2.DeleteMessagesResponse(deleted=deleted)


def _token(text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError as exc:
        raise errors.InvalidArgument("lock_tokens", f"invalid UUID: {text[:64]!r}.") from exc
