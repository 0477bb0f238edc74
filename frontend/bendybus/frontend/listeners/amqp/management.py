"""$management of an entity: requests other than sends, receives and dispositions.

Source: Service Bus, "AMQP 1.0 in Service Bus: request-response-based operations". An operation is a
row of `OPERATIONS`; it takes a request's map and returns the map of the reply, or None for status
204, no content.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from bendybus.amqp import values
from bendybus.amqp.events import Delivered
from bendybus.amqp.links import IncomingLink
from bendybus.amqp.performatives import TransactionalState
from bendybus.amqp.sections import Message
from bendybus.amqp.values import Array, Int, Symbol, Timestamp
from bendybus.domain import errors, limits, lock_token, steps
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.steps import Steps
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import (
    batch_delete,
    by_number,
    columns,
    peek,
    reserved_numbers,
    settle,
    transact,
)
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import MANAGEMENT_REQUEST_BYTES, PERFORMED_MAX
from bendybus.frontend.core.quota.flow_control import charged_tokens
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.send import SendRequest
from bendybus.frontend.core.settle import SettleRequest
from bendybus.frontend.core.transact import Operation as Collected
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.amqp import (
    addresses,
    conditions,
    coordinator,
    incoming_messages,
    lock_names,
    outgoing_messages,
    rule_requests,
)
from bendybus.frontend.listeners.amqp.fields import Fields
from bendybus.frontend.listeners.amqp.incoming_messages import Columns
from bendybus.frontend.listeners.amqp.replies import Held
from bendybus.frontend.listeners.amqp.request_links import RequestLink
from bendybus.frontend.security.authenticator import Operation
from bendybus.frontend.upstreams.unary_calls import CancelPart, SendPart, StatePart

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

logger = logging.getLogger(__name__)
VENDOR: Final = "com.microsoft:"
# Of a request that names no server-timeout.
TIMEOUT_MS: Final = 60_000
_NO_CONTENT: Final = 204
# What SDKs send for "any time": the maximum of .NET's DateTime, in milliseconds, rounded or not.
_ANY_TIME_MS: Final = 253_402_300_799_999
_STATUSES: Final = {
    "completed": Disposition.COMPLETE,
    "abandoned": Disposition.ABANDON,
    # As the service spells it.
    "defered": Disposition.DEFER,
    "suspended": Disposition.DEAD_LETTER,
}
# Ids of sessions in one reply; SDKs ask for 100.
SESSIONS_MAX: Final = 1_000
# Memory that a large reply may take while it is built, by operation.
ANSWER_BYTES: Final = {
    f"{VENDOR}peek-message": limits.MB,
    f"{VENDOR}receive-by-sequence-number": 4 * limits.MB,
    f"{VENDOR}get-message-sessions": limits.MB,
    f"{VENDOR}enumerate-rules": 4 * limits.MB,
}
# The map of a reply; None: no content.
Reply = dict[str, Any] | None


@dataclass(slots=True, eq=False)
class Asked:
    """A request, and the room that it takes."""

    request: Message
    state: TransactionalState | None
    holder: Holder
    size_bytes: int
    # It has that room, or it waits for it.
    has_room: bool
    # On the loop's clock.
    came_s: float
    # The room in which its reply is built; None: it needs none, or the reply has it.
    held: Held | None = None

    @property
    def properties(self) -> dict[Any, Any]:
        """The application properties: what is asked for."""
        given = self.request.application_properties
        return given if isinstance(given, dict) else {}


class ManagementLink(RequestLink):
    """The link for requests about one entity."""

    def __init__(self, connection: "ClientConnection", link: IncomingLink, path: str) -> None:
        super().__init__(connection, link, path)
        self._under_way: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(PERFORMED_MAX)
        # Repeats of settlements are recognised by it.
        self.settler_id = os.urandom(limits.SETTLER_ID_BYTES_MAX)

    @property
    def path(self) -> str:
        """The path of the entity or sub-queue."""
        return self.address

    def request(self, request: Message, event: Delivered) -> None:
        """Perform a request in a task of its own.

        Without room for it the request waits, and with it all further input of the connection.
        """
        connection, size = self.connection, len(event.payload) + MANAGEMENT_REQUEST_BYTES
        rooms, holder = connection.quota.requests, connection.holder
        loop = asyncio.get_running_loop()
        has_room = rooms.take(holder, size)
        asked = Asked(request, event.state, holder, size, has_room, loop.time())
        connection.requests += 1
        connection.requests_without_room += not asked.has_room

        def over(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            if asked.has_room:
                rooms.give(holder, size)
            else:
                connection.requests_without_room -= 1
            connection.answered(requests=1)

        task = loop.create_task(self._take(asked), name="amqp-request")
        self._under_way.add(task)
        task.add_done_callback(over)
        if event.state is not None:
            coordinator.expect(connection.coordinators, event.state, task)

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached."""
        for task in self._under_way:
            task.cancel()

    async def _take(self, asked: Asked) -> None:
        if not asked.has_room:
            connection = self.connection
            try:
                async with asyncio.timeout(TIMEOUT_MS / 1_000):
                    await connection.quota.requests.wait(asked.holder, asked.size_bytes)
            except TimeoutError:
                text = "requests under way fill what a connection, a policy, or all may have"
                self._fail(asked, errors.ServerBusy(f"{text}."))
                return
            asked.has_room = True
            connection.requests_without_room -= 1
            connection.reading.go_on()
        await self._answer(asked)

    async def _answer(self, asked: Asked) -> None:
        holder, answers = self.connection.holder, self.connection.quota.answers
        name = asked.properties.get("operation")
        size = ANSWER_BYTES.get(name, 0) if isinstance(name, str) else 0
        if size:
            try:
                async with asyncio.timeout(TIMEOUT_MS / 1_000):
                    await answers.wait(holder, size)
            except TimeoutError:
                text = "answers that are not read fill what a connection, or a policy, may have"
                self._fail(asked, errors.ServerBusy(f"{text}."))
                return
            asked.held = Held(holder, size)
        try:
            await self._answered(asked)
        finally:
            if asked.held is not None:
                answers.give(*asked.held)

    async def _answered(self, asked: Asked) -> None:
        try:
            body = await self._perform(asked)
        except BusError as error:
            self.connection.front_end.metrics.refused(self.path, error)
            self._fail(asked, error)
        except Exception as error:
            # The boundary of this task: the client must not wait for ever.
            logger.exception("AMQP request: failed")
            self._fail(asked, BusError(f"the request failed: {error!r}"))
        else:
            if body is None:
                self._say(asked, _NO_CONTENT, "No content.")
            else:
                self._say(asked, 200, "OK", body)

    async def _perform(self, asked: Asked) -> Reply:
        properties = asked.properties
        name = properties.get("operation")
        row = OPERATIONS.get(name.removeprefix(VENDOR)) if isinstance(name, str) else None
        if row is None:
            raise errors.InvalidOperation(f"unknown operation {name!r:.80}.")
        self.connection.claims.check(row.operation, addresses.management_of(self.path))
        body = asked.request.value
        if not isinstance(body, dict):
            raise errors.InvalidArgument("body", "must be a map.")
        link_name = properties.get("associated-link-name")
        fields = Fields(body, link_name if isinstance(link_name, str) else "")
        if asked.state is not None and row.collected is not None:
            return await self._collect(row.collected, fields, asked.state)
        timeout_ms = properties.get(f"{VENDOR}server-timeout")
        limit_ms = timeout_ms if isinstance(timeout_ms, int) and timeout_ms > 0 else TIMEOUT_MS
        try:
            async with asyncio.timeout_at(asked.came_s + limit_ms / 1_000), self._turns:
                return await row.perform(self, fields)
        except TimeoutError:
            raise errors.OutcomeUnknown(f"{name}: not done within {limit_ms} ms.") from None

    async def _collect(
        self, collected: "Collect", fields: Fields, state: TransactionalState
    ) -> Reply:
        """Add a request to its transaction; return the reply."""
        coordinators = self.connection.coordinators
        try:
            operation, reply = collected(self, fields)
            coordinator.collect(coordinators, state, operation, self.link)
            if isinstance(operation.part, SendPart):
                await self._number(operation.entity, operation.part)
        except BusError as error:
            coordinator.spoil(coordinators, state, error)
            raise
        return reply

    async def _number(self, entity: str, part: SendPart) -> None:
        """Fill in the numbers of what its transaction has taken: nothing is asked for the rest.

        The transaction is committed after that: it waits for its requests.
        """
        assert isinstance(part.numbers, list)
        async with self._turns:
            front_end = self.connection.front_end
            part.numbers[:] = await reserved_numbers.reserve(front_end, entity, part.messages)

    def _say(self, asked: Asked, status: int, text: str, body: Any = None) -> None:
        properties = {"statusCode": Int(status), "statusDescription": text}
        self._reply(asked, properties, body)

    def _fail(self, asked: Asked, error: BusError) -> None:
        told = coordinator.refusal(error, self.path)
        properties = {
            "statusCode": Int(conditions.status_of(error)),
            "statusDescription": told.description or "",
            "errorCondition": Symbol(told.condition),
        }
        self._reply(asked, properties)

    def _reply(self, asked: Asked, properties: dict[str, Any], body: Any = None) -> None:
        if self.reply(asked.request, properties, body, asked.held):
            asked.held = None

    def lock_session(self, fields: Fields) -> bytes:
        """Return the token of the session whose lock a request's messages have, b"" for none.

        Current SDKs for JavaScript and Java name the session id of a deferred message whatever its
        entity is; only an entity with sessions has their locks, and its sub-queues have none.
        """
        name, sub_queue = request_values.entity_and_sub_queue(self.path)
        described = self.connection.front_end.directory.find(name).description
        if described.requires_session and sub_queue is SubQueue.MAIN:
            return self.token_of(fields)
        return b""

    def token_of(self, fields: Fields) -> bytes:
        """Return the token of the session that a request names, by its id or by the link that holds
        it: the SDK for Go names only the link. b"" if it names none.

        Raises SessionLockLost unless a link of this connection holds the session.
        """
        session_id = fields.optional("session-id", str)
        found = self.connection.session_token(self.path, session_id, fields.link_name)
        if session_id is None:
            return found or b""
        if found is None:
            raise errors.SessionLockLost(
                f"{self.path!r}: no link of this connection holds session {session_id!r}."
            )
        return found


async def _renew_lock(link: ManagementLink, fields: Fields) -> Reply:
    tokens = _tokens(fields)
    until_ms = await _settle(link, SettleRequest(Disposition.RENEW_LOCK, tokens))
    count = len(tokens) // lock_token.TOKEN_BYTES
    return {"expirations": Array(values.TIMESTAMP, [Timestamp(until_ms)] * count)}


def _disposition(link: ManagementLink, fields: Fields) -> SettleRequest:
    """Return the settlement that a request asks for. Raises InvalidArgument, SessionLockLost."""
    status = fields.required("disposition-status", str)
    disposition = _STATUSES.get(status)
    if disposition is None:
        raise errors.InvalidArgument(
            "disposition-status", f"must be one of {', '.join(_STATUSES)} (got {status[:40]!r})."
        )
    changes = fields.optional("properties-to-modify", dict)
    return SettleRequest(
        disposition,
        _tokens(fields),
        incoming_messages.changed_properties(changes) if changes else None,
        incoming_messages.dead_letter_text(fields.optional("deadletter-reason", str)),
        incoming_messages.dead_letter_text(fields.optional("deadletter-description", str)),
        session_token=link.lock_session(fields),
    )


def _tokens(fields: Fields) -> bytes:
    return lock_names.tokens_of(fields.listed("lock-tokens", UUID))


async def _update_disposition(link: ManagementLink, fields: Fields) -> Reply:
    await _settle(link, _disposition(link, fields))
    return {}


def _collected_disposition(link: ManagementLink, fields: Fields) -> tuple[Collected, Reply]:
    part = transact.settle_part(_disposition(link, fields))
    return Collected(*request_values.entity_and_sub_queue(link.path), part), {}


async def _settle(link: ManagementLink, request: SettleRequest) -> int:
    """Settle messages; return when renewed locks end. Raises the first failure."""
    front_end = link.connection.front_end
    name, _ = request_values.entity_and_sub_queue(link.path)
    request.entity_uid = front_end.directory.find(name).uid
    request.settler_id = link.settler_id
    # Unlike those of deliveries, these locks may be made up.
    room, holder = front_end.quota.settling, link.connection.holder
    taken = charged_tokens(settle.check(request))
    await room.wait(holder, taken)
    outcome = await link.connection.repeated_settles.settle(
        request, partial(room.give, holder, taken)
    )
    for _, error in outcome.failures:
        raise error
    return outcome.locked_until_ms


async def _peek(link: ManagementLink, fields: Fields) -> Reply:
    name, sub_queue = request_values.entity_and_sub_queue(link.path)
    first = fields.required("from-sequence-number", int)
    shown = await peek.peek(
        link.connection.front_end,
        peek.Peek(
            name,
            sub_queue,
            fields.required("message-count", int),
            # SDKs send 0 to begin at the first number. The core has another order for 0.
            max(1, first),
            session_id=fields.optional("session-id", str),
        ),
    )
    payloads = await link.connection.reading.do(_payloads(shown.batches))
    messages = [{"message": payload} for _, payload in payloads]
    return {"messages": messages} if messages else None


async def _receive_deferred(link: ManagementLink, fields: Fields) -> Reply:
    mode = (
        ReceiveMode.PEEK_LOCK
        if fields.required("receiver-settle-mode", int)
        else ReceiveMode.RECEIVE_AND_DELETE
    )
    batches = await by_number.receive_deferred(
        link.connection.front_end,
        by_number.Operation(
            *request_values.entity_and_sub_queue(link.path),
            fields.listed("sequence-numbers", int),
        ),
        mode,
        link.lock_session(fields),
    )
    messages = []
    for name, payload in await link.connection.reading.do(_payloads(batches)):
        named = {"lock-token": UUID(bytes=name)} if name else {}
        messages.append({**named, "message": payload})
    return {"messages": messages}


def _payloads(batches: Iterable[columns.DeliveredBatch]) -> Steps[list[tuple[bytes, bytes]]]:
    """Return the name of each message's lock, if it has one, and the message; a step for each."""
    found = []
    for delivery in map(outgoing_messages.Delivery, batches):
        for index in range(len(delivery)):
            name = delivery.lock_name(index)
            found.append((name, delivery.encode(index, name)))
            yield
    return found


def _messages(link: ManagementLink, fields: Fields) -> Steps[Columns]:
    """Return the messages of a request; a step for each.

    Raises MessageSizeExceeded for one that is too large.
    """
    messages, entity = Columns(), request_values.entity(link.path)
    most, _ = link.connection.front_end.send_limits(entity)
    for entry in fields.listed("messages", dict):
        payload = Fields(entry).required("message", bytes)
        if len(payload) > most:
            raise errors.MessageSizeExceeded(
                f"{entity!r}: a message of {len(payload)} bytes is larger than the {most} allowed.",
                metadata={"entity": entity, "limit": str(most)},
            )
        messages.add(payload)
        yield
    return messages


async def _schedule(link: ManagementLink, fields: Fields) -> Reply:
    connection = link.connection
    name, sub_queue = request_values.entity_and_sub_queue(link.path)
    messages = await connection.reading.do(_messages(link, fields))
    outcome = await connection.front_end.nameless_sends.send(
        SendRequest(name, sub_queue, messages.batch(connection.new_id), measured=True),
        connection.holder,
    )
    for error in outcome.failures.values():
        raise error
    return {"sequence-numbers": Array(values.LONG, list(outcome.numbers))}


def _collected_schedule(link: ManagementLink, fields: Fields) -> tuple[Collected, Reply]:
    messages = steps.whole(_messages(link, fields))
    batch = messages.batch(link.connection.new_id)
    # Filled in before the reply.
    numbers = [0] * len(messages)
    part = SendPart(batch, True, incoming_messages.via_keys(batch), numbers)
    operation = Collected(*request_values.entity_and_sub_queue(link.path), part)
    return operation, {"sequence-numbers": Array(values.LONG, numbers)}


async def _cancel_scheduled(link: ManagementLink, fields: Fields) -> Reply:
    await by_number.cancel_scheduled(
        link.connection.front_end,
        by_number.Operation(
            *request_values.entity_and_sub_queue(link.path),
            fields.listed("sequence-numbers", int),
        ),
    )
    return {}


def _collected_cancellation(link: ManagementLink, fields: Fields) -> tuple[Collected, Reply]:
    part = CancelPart(fields.listed("sequence-numbers", int))
    return Collected(*request_values.entity_and_sub_queue(link.path), part), {}


async def _renew_session(link: ManagementLink, fields: Fields) -> Reply:
    fields.required("session-id", str)
    sessions, name = link.connection.front_end.sessions, request_values.entity(link.path)
    until_ms, _ = await sessions.renew(name, link.token_of(fields))
    return {"expiration": Timestamp(until_ms)}


async def _get_state(link: ManagementLink, fields: Fields) -> Reply:
    fields.required("session-id", str)
    sessions, name = link.connection.front_end.sessions, request_values.entity(link.path)
    return {"session-state": await sessions.state(name, link.token_of(fields))}


async def _set_state(link: ManagementLink, fields: Fields) -> Reply:
    token, state = _state_asked(link, fields)
    sessions, name = link.connection.front_end.sessions, request_values.entity(link.path)
    await sessions.keep(name, token, state)
    return {}


def _collected_state(link: ManagementLink, fields: Fields) -> tuple[Collected, Reply]:
    part = StatePart(*_state_asked(link, fields))
    return Collected(request_values.entity(link.path), SubQueue.MAIN, part), {}


def _state_asked(link: ManagementLink, fields: Fields) -> tuple[bytes, bytes | None]:
    """Return the token of the session that a request names, and its new state.

    Empty is none, as on the service: the SDK for Go clears it so.
    """
    fields.required("session-id", str)
    return link.token_of(fields), fields.optional("session-state", bytes) or None


async def _list_sessions(link: ManagementLink, fields: Fields) -> Reply:
    after_ms = fields.required("last-updated-time", int)
    skip, top = fields.required("skip", int), fields.required("top", int)
    if skip < 0 or not top > 0:
        raise errors.InvalidArgument("top", "must be at least 1, and skip at least 0.")
    top = min(top, SESSIONS_MAX)
    asked_ms = 0 if after_ms >= _ANY_TIME_MS else max(1, after_ms)
    connection, name = link.connection, request_values.entity(link.path)
    found = await connection.session_lists.page(
        connection.front_end.sessions, name, asked_ms, skip, top
    )
    if not found:
        return None
    return {"skip": Int(skip + len(found)), "sessions-ids": Array(values.STRING32, found)}


async def _delete_messages(link: ManagementLink, fields: Fields) -> Reply:
    name, sub_queue = request_values.entity_and_sub_queue(link.path)
    count = await batch_delete.delete_messages(
        link.connection.front_end,
        batch_delete.BatchDelete(
            name,
            sub_queue,
            fields.required("message-count", int),
            fields.optional("enqueued-time-utc", int) or 0,
        ),
    )
    return {"message-count": Int(count)} if count else None


Collect = Callable[[ManagementLink, Fields], tuple[Collected, Reply]]


@dataclass(frozen=True, slots=True)
class Row:
    """An operation: the right that it needs, and what it does."""

    operation: Operation
    perform: Callable[[ManagementLink, Fields], Awaitable[Reply]]
    # Returns it as a part of a transaction, with the reply. None: it has nothing that could be
    # rolled back, and is done beside the transaction.
    collected: Collect | None = None


def _of_rules(
    perform: Callable[[FrontEnd, str, Fields], Awaitable[Reply]],
) -> Callable[[ManagementLink, Fields], Awaitable[Reply]]:
    return lambda link, fields: perform(link.connection.front_end, link.path, fields)


OPERATIONS: Final[Mapping[str, Row]] = {
    "renew-lock": Row(Operation.RECEIVE, _renew_lock),
    "update-disposition": Row(Operation.RECEIVE, _update_disposition, _collected_disposition),
    "peek-message": Row(Operation.PEEK, _peek),
    "receive-by-sequence-number": Row(Operation.RECEIVE_DEFERRED, _receive_deferred),
    "schedule-message": Row(Operation.SEND, _schedule, _collected_schedule),
    "cancel-scheduled-message": Row(
        Operation.CANCEL_SCHEDULED, _cancel_scheduled, _collected_cancellation
    ),
    "renew-session-lock": Row(Operation.RENEW_SESSION, _renew_session),
    "get-session-state": Row(Operation.GET_SESSION_STATE, _get_state),
    "set-session-state": Row(Operation.SET_SESSION_STATE, _set_state, _collected_state),
    "get-message-sessions": Row(Operation.LIST_SESSIONS, _list_sessions),
    "add-rule": Row(Operation.CHANGE_RULES, _of_rules(rule_requests.add)),
    "remove-rule": Row(Operation.CHANGE_RULES, _of_rules(rule_requests.remove)),
    "enumerate-rules": Row(Operation.CHANGE_RULES, _of_rules(rule_requests.listed)),
    "batch-delete-messages": Row(Operation.DELETE_MESSAGES, _delete_messages),
}
