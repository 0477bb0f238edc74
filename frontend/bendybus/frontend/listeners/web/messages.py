"""Messages over HTTP: a request is one send, one receive, or one settlement.

    request ──► token ──► right on the entity of the path ──► core ──► status, headers, body

No rule of messages is here, and no bound; see the core, and `core/quota`. Source: the REST pages of
Service Bus; the REST clients for Python and Rust.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from aiohttp import web

from bendybus.domain import errors, limits, lock_token, message_access, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.domain.message_access import Access
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.columns import MessageBatch
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import ANSWER_S, REQUEST_S_PER_MB
from bendybus.frontend.core.quota.flow_control import charged_tokens
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.receive_cache import DRAIN_MS
from bendybus.frontend.core.repeated_settles import RepeatedSettles
from bendybus.frontend.core.send import SendRequest
from bendybus.frontend.core.settle import SettleRequest
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.amqp import lock_names
from bendybus.frontend.listeners.web import (
    message_responses,
    property_values,
    requests,
    sent_messages,
)
from bendybus.frontend.listeners.web.connection_receives import (
    ConnectionReceives,
    Received,
    stopping,
)
from bendybus.frontend.listeners.web.http_statuses import About
from bendybus.frontend.listeners.web.message_paths import MessageCall, MessagePath
from bendybus.frontend.security.authenticator import Authenticator, Caller, Operation

if TYPE_CHECKING:
    from bendybus.frontend.listeners.web.server import Guard

# Clients give up at 60 s, or a little later: what a receive may wait, so that it ends before.
WAIT_MS_MAX: Final = limits.SEND_TIMEOUT_MS_DEFAULT - DRAIN_MS - 1_000
# A send has some time, whatever it says: one that has none was never tried.
_SEND_MS_MIN: Final = 1_000
_TIMEOUT: Final = "timeout"
_TIMEOUT_S_MAX: Final = 3_600.0
_TIMEOUT_CHARS_MAX: Final = 20
_OPERATIONS: Final = {
    MessageCall.SEND: Operation.SEND,
    MessageCall.LOCK: Operation.RECEIVE,
    MessageCall.TAKE: Operation.RECEIVE,
}
_DISPOSITIONS: Final = {
    MessageCall.UNLOCK: Disposition.ABANDON,
    MessageCall.RENEW: Disposition.RENEW_LOCK,
    MessageCall.COMPLETE: Disposition.COMPLETE,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request about messages, whose caller has the right to it."""

    request: web.Request
    guard: "Guard"
    path: MessagePath
    name: str
    sub_queue: SubQueue
    caller: Caller
    holder: Holder

    @property
    def timeout_ms(self) -> int:
        """The time that the caller gives the request. Raises InvalidArgument."""
        query = self.request.query
        text = query.get(_TIMEOUT) or ""
        if not text:
            text = next((query[name] for name in query if name.lower() == _TIMEOUT), "")
        if not text:
            return limits.SEND_TIMEOUT_MS_DEFAULT
        try:
            seconds = float(text) if len(text) <= _TIMEOUT_CHARS_MAX else -1.0
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= _TIMEOUT_S_MAX:
            raise InvalidArgument(
                _TIMEOUT, f"must be 0 to {_TIMEOUT_S_MAX:.0f} seconds (got {text[:40]!r})."
            )
        return round(seconds * 1_000)


class Messages:
    """Sends, receives and settlements over HTTP, of one front end."""

    def __init__(self, front_end: FrontEnd, authenticator: Authenticator) -> None:
        self._front_end = front_end
        self._authenticator = authenticator
        self._settles = RepeatedSettles(front_end.settles)
        self._connections: dict[Guard, ConnectionReceives] = {}
        self._stopping = False
        # One: more of them would only take the processor from the loop.
        self._maker = ThreadPoolExecutor(1, "http-responses")

    async def handle(
        self, request: web.Request, path: MessagePath, guard: "Guard"
    ) -> web.StreamResponse:
        """Answer a request about messages."""
        try:
            with self._front_end.metrics.refusals(path.entity):
                caller = self._authenticator.authenticate(
                    requests.token_of(request.headers.get("Authorization"))
                )
                guard.known(caller.policy)
                requests.check_host(request)
                self._check_right(caller, path)
                name, sub_queue = request_values.entity_and_sub_queue(path.entity)
                holder = Holder(request.protocol, caller.policy)
                asked = Asked(request, guard, path, name, sub_queue, caller, holder)
                with requests.call(self._front_end.quota, holder):
                    return await _PERFORM[path.call](self, asked)
        except BusError as error:
            return requests.error_response(error, About.MESSAGES)

    def recheck(self) -> None:
        """End the receives that wait with a token that is no longer good, or allows something else.

        Called when policies have changed.
        """
        for guard, receives in list(self._connections.items()):
            caller = guard.waits
            if caller is not None and not self._authenticator.allows_the_same(caller):
                receives.refuse(_changed(caller))

    def stop(self) -> None:
        """End the receives that wait: this front end stops."""
        self._stopping = True
        for each in list(self._connections.values()):
            each.stop()

    def _check_right(self, caller: Caller, path: MessagePath) -> None:
        """Raise Unauthorized unless the caller may do that to the entity of the path.

        Clients sign tokens for an entity, for the URL of a request, or for a beginning of that. One
        that is the path of another entity is for that one.
        """
        url, resources = path.written, []
        for segment in path.below:
            url = f"{url}/{segment}"
            if self._front_end.directory.known(unquote(url)) is None:
                resources += [url, unquote(url)]
        operation = _OPERATIONS.get(path.call, Operation.SETTLE_OF_ENTITY)
        caller.check(operation, path.entity, resources=resources)

    async def _send(self, asked: Asked) -> web.StreamResponse:
        front_end, timeout_ms = self._front_end, asked.timeout_ms
        message_bytes, batch_bytes = front_end.send_limits(asked.name)
        is_batch = asked.request.content_type == sent_messages.BATCH_TYPE
        bytes_max = batch_bytes if is_batch else message_bytes
        with requests.Counted(front_end.quota.requests, asked.holder) as counted:
            body = await requests.read_body(asked.request, bytes_max, counted.take)
            batch = await self._batch(asked, body, is_batch=is_batch)
            del body
            request = SendRequest(
                asked.name, asked.sub_queue, batch, timeout_ms=max(_SEND_MS_MIN, timeout_ms)
            )
            outcome = await front_end.nameless_sends.send(request, asked.holder)
        for error in outcome.failures.values():
            # Its own: others may fail with the same one.
            raise copy.copy(error)
        return web.Response(status=201)

    async def _batch(self, asked: Asked, body: bytes, *, is_batch: bool) -> MessageBatch:
        if is_batch:
            # The values of one batch are freed before the next one of the policy is parsed.
            async with self._front_end.quota.walking(asked.holder.policy):
                await asked.guard.own_turn()
                return await asked.guard.do(sent_messages.batch(body))
        return sent_messages.single(asked.request.raw_headers, body)

    async def _receive(self, asked: Asked) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(asked.timeout_ms, WAIT_MS_MAX) / 1_000
        source = Source(asked.name, asked.sub_queue, ReceiveMode.PEEK_LOCK)
        receives = self._receives(asked.guard)
        expired = partial(receives.refuse, _changed(asked.caller))
        while True:
            if self._stopping:
                raise stopping()
            with asked.guard.waiting(asked.caller, expired):
                wait_ms = round(max(0.0, until_s - loop.time()) * 1_000)
                received = await receives.next(source, asked.holder, wait_ms)
            if received is None:
                return web.Response(status=204)
            try:
                # Thousands may be served by one answer of a partition.
                await asked.guard.own_turn()
                if await self._may_be_seen(asked, receives, received):
                    response = await self._response(asked, received)
                    if received.size_bytes <= requests.PIECE_BYTES:
                        # It fits into what one connection may leave unread.
                        return response
                    assert isinstance(response.body, bytes), "bodies are bytes"
                    receives.answered(received, len(response.body))
                    return await self._written(asked, response, len(response.body))
            finally:
                receives.read(received)

    async def _may_be_seen(
        self, asked: Asked, receives: ConnectionReceives, received: Received
    ) -> bool:
        """Whether the client may have a message, which is deleted by now if it wants that.

        False: its lock is lost, and another one is to be tried. Raises why it is not known.
        """
        if asked.guard.has_ended:
            receives.release(received)
            raise ConnectionResetError("the client has gone")
        if asked.path.call is MessageCall.LOCK:
            return True
        entity, token = received.entity, received.batch.lock_tokens
        settling = SettleRequest(
            Disposition.COMPLETE,
            token,
            entity_uid=entity.uid,
            settler_id=receives.settler_id(entity),
        )
        outcome = await self._settles.settle(settling)
        for _, error in outcome.failures:
            if isinstance(error, errors.MessageLockLost):
                return False
            if isinstance(error, errors.OutcomeUnknown):
                raise _maybe_deleted(received)
            # It is not deleted, so others may have it.
            receives.release(received)
            raise error
        received.batch.ClearField("lock_tokens")
        return True

    async def _response(self, asked: Asked, received: Received) -> web.Response:
        request = asked.request
        make = partial(
            message_responses.response,
            received.batch,
            received.parts,
            f"{asked.path.written}/messages",
            status=201 if asked.path.call is MessageCall.LOCK else 200,
            origin=f"{request.scheme}://{request.host}",
        )
        if received.parts.is_small:
            return make()
        # Values and properties by the thousand take some time: one of a policy after the other.
        loop = asyncio.get_running_loop()
        async with self._front_end.quota.walking(asked.caller.policy):
            return await loop.run_in_executor(self._maker, make)

    @staticmethod
    async def _written(asked: Asked, response: web.Response, size_bytes: int) -> web.StreamResponse:
        """Write a message that its client may take some time to read."""
        time_s = ANSWER_S + size_bytes / limits.MB * REQUEST_S_PER_MB
        try:
            async with asyncio.timeout(time_s):
                return await requests.write(asked.request, response)
        except TimeoutError:
            # A response that has begun cannot become an error.
            asked.guard.abort()
            raise ConnectionResetError("the client takes too long") from None

    async def _settle(self, asked: Asked) -> web.StreamResponse:
        path, disposition = asked.path, _DISPOSITIONS[asked.path.call]
        entity = self._front_end.directory.find(asked.name)
        message_access.check(entity, Access.RECEIVE)
        assert path.lock is not None, "the path of a settlement has one"
        token = lock_names.token_of(path.lock.bytes)
        settling = SettleRequest(
            disposition,
            token,
            entity_uid=entity.uid,
            settler_id=self._receives(asked.guard).settler_id(entity),
            sub_queue=asked.sub_queue,
            message_id="" if path.message == str(_number(entity, token)) else path.message,
        )
        room, taken = self._front_end.quota.settling, charged_tokens(1)
        await room.wait(asked.holder, taken)
        outcome = await self._settles.settle(settling, partial(room.give, asked.holder, taken))
        for _, error in outcome.failures:
            raise error
        headers = {}
        if disposition is Disposition.RENEW_LOCK:
            until = property_values.date(outcome.locked_until_ms)
            headers[sent_messages.BROKER_PROPERTIES] = f'{{"LockedUntilUtc":"{until}"}}'
        return web.Response(headers=headers)

    def _receives(self, guard: "Guard") -> ConnectionReceives:
        """Return those of a connection; of one that has ended, some that nothing waits for."""
        found = self._connections.get(guard)
        if found is None:
            found = ConnectionReceives(self._front_end)
            if guard.has_ended:
                found.close()
            else:
                self._connections[guard] = found
                guard.at_end.append(partial(self._ended, guard))
        return found

    def _ended(self, guard: "Guard") -> None:
        self._connections.pop(guard).close()


def _changed(caller: Caller) -> BusError:
    return errors.Unauthenticated(
        f"the token of policy {caller.policy!r} expired, or its rights changed, while the request "
        "waited for a message. Repeat it with a new one."
    )


def _number(entity: Entity, token: bytes) -> int:
    """Return the sequence number of a message of an entity that is locked under a token."""
    [lock] = lock_token.unpack(token)
    return sequence_number.base_of(lock.partition, plain=entity.plain_numbers) + lock.counter


def _maybe_deleted(received: Received) -> BusError:
    number = received.batch.sequence_numbers[0]
    return errors.OutcomeUnknown(
        f"message {number} may be deleted: its partition did not answer. If it is not there any "
        "more it is lost; a client that locks a message and deletes it then loses none.",
        metadata={"sequence_number": str(number)},
    )


_Perform = Callable[[Messages, Asked], Awaitable[web.StreamResponse]]
_PERFORM: Final[dict[MessageCall, _Perform]] = {
    MessageCall.SEND: Messages._send,
    **dict.fromkeys((MessageCall.LOCK, MessageCall.TAKE), Messages._receive),
    **dict.fromkeys(_DISPOSITIONS, Messages._settle),
}
