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
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from bendybus.amqp import values
from bendybus.amqp.events import Delivered
from bendybus.amqp.links import IncomingLink
from bendybus.amqp.performatives import TransactionalState
from bendybus.amqp.sections import Message
from bendybus.amqp.values import Array, Int, Symbol, Timestamp
from bendybus.domain import errors, limits, lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import batch_delete, by_number, columns, peek, transact
from bendybus.frontend.core.call_ledger import REQUESTS
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.send import SendRequest
from bendybus.frontend.core.settle import SettleRequest
from bendybus.frontend.core.transact import Operation as Collected
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.amqp import (
    addresses,
    conditions,
    coordinator,
    incoming_messages,
    outgoing_messages,
    rule_requests,
)
from bendybus.frontend.listeners.amqp.fields import Fields
from bendybus.frontend.listeners.amqp.incoming_messages import Columns
from bendybus.frontend.listeners.amqp.request_links import RequestLink
from bendybus.frontend.security.authenticator import Operation
from bendybus.frontend.upstreams.unary_calls import SendPart

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

logger = logging.getLogger(__name__)
VENDOR: Final = "com.microsoft:"
# Of a request that names no server-timeout.
TIMEOUT_MS: Final = 60_000
# Requests of one connection in flight; the bytes of requests up to SMALL_BYTES are not counted.
UNDER_WAY_MAX: Final = 100
SMALL_BYTES: Final = 4 * 1024
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


class ManagementLink(RequestLink):
    """The link for requests about one entity."""

    def __init__(self, connection: "ClientConnection", link: IncomingLink, path: str) -> None:
        super().__init__(connection, link, path)
        self._under_way: set[asyncio.Task[None]] = set()
        # Repeats of settlements are recognised by it.
        self.settler_id = os.urandom(limits.SETTLER_ID_BYTES_MAX)
        # The last page of a listing of sessions: its time, how many were listed so far, page token.
        self.listing: tuple[int, int, bytes] | None = None

    @property
    def path(self) -> str:
        """The path of the entity or sub-queue."""
        return self.address

    def request(self, request: Message, event: Delivered) -> None:
        """Perform a request in a task of its own."""
        connection, size = self.connection, len(event.payload)
        holder = connection.holder if size > SMALL_BYTES else None
        requests = connection.front_end.calls.requests
        if connection.requests >= UNDER_WAY_MAX or (holder and not requests.take(holder, size)):
            most = f"at most {UNDER_WAY_MAX}, and {REQUESTS.connection // limits.MB} MB of them"
            self._fail(request, errors.ServerBusy(f"too many requests are in flight: {most}."))
            return
        connection.requests += 1

        def over(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            connection.answered(requests=1)
            if holder:
                requests.give(holder, size)

        task = asyncio.get_running_loop().create_task(
            self._answer(request, event.state), name="amqp-request"
        )
        self._under_way.add(task)
        task.add_done_callback(over)

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached."""
        for task in self._under_way:
            task.cancel()

    async def _answer(self, request: Message, state: TransactionalState | None) -> None:
        holder, answers = self.connection.holder, self.connection.front_end.calls.answers
        asked = request.application_properties
        name = asked.get("operation") if isinstance(asked, dict) else None
        size = ANSWER_BYTES.get(name, 0) if isinstance(name, str) else 0
        if size:
            try:
                async with asyncio.timeout(TIMEOUT_MS / 1_000):
                    await answers.wait(holder, size)
            except TimeoutError:
                text = "answers that are not read fill what a connection, or a policy, may have"
                self._fail(request, errors.ServerBusy(f"{text}."))
                return
        try:
            await self._answered(request, state)
        finally:
            if size:
                answers.give(holder, size)

    async def _answered(self, request: Message, state: TransactionalState | None) -> None:
        try:
            body = await self._perform(request, state)
        except BusError as error:
            self.connection.front_end.metrics.refused(self.path, error)
            self._fail(request, error)
        except Exception as error:
            # The boundary of this task: the client must not wait for ever.
            logger.exception("AMQP request: failed")
            self._fail(request, BusError(f"the request failed: {error!r}"))
        else:
            if body is None:
                self._say(request, _NO_CONTENT, "No content.")
            else:
                self._say(request, 200, "OK", body)

    async def _perform(self, request: Message, state: TransactionalState | None) -> Reply:
        given = request.application_properties
        properties = given if isinstance(given, dict) else {}
        name = properties.get("operation")
        row = OPERATIONS.get(name.removeprefix(VENDOR)) if isinstance(name, str) else None
        if row is None:
            raise errors.InvalidOperation(f"unknown operation {name!r:.80}.")
        self.connection.claims.check(row.operation, addresses.management_of(self.path))
        body = request.value
        if not isinstance(body, dict):
            raise errors.InvalidArgument("body", "must be a map.")
        link_name = properties.get("associated-link-name")
        fields = Fields(body, link_name if isinstance(link_name, str) else "")
        if state is not None:
            if row.collected is None:
                raise errors.InvalidOperation(f"{name} cannot be part of a transaction.")
            coordinators = self.connection.coordinators
            try:
                operation, reply = row.collected(self, fields)
                coordinator.collect(coordinators, state, operation)
            except BusError as error:
                coordinator.spoil(coordinators, state, error)
                raise
            return reply
        timeout_ms = properties.get(f"{VENDOR}server-timeout")
        limit_ms = timeout_ms if isinstance(timeout_ms, int) and timeout_ms > 0 else TIMEOUT_MS
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                return await row.perform(self, fields)
        except TimeoutError:
            raise errors.OutcomeUnknown(f"{name}: not done within {limit_ms} ms.") from None

    def _say(self, request: Message, status: int, text: str, body: Any = None) -> None:
        properties = {"statusCode": Int(status), "statusDescription": text}
        self.reply(request, properties, body)

    def _fail(self, request: Message, error: BusError) -> None:
        told = coordinator.refusal(error, self.path)
        self.reply(
            request,
            {
                "statusCode": Int(conditions.status_of(error)),
                "statusDescription": told.description or "",
                "errorCondition": Symbol(told.condition),
            },
        )

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
        fields.optional("deadletter-reason", str) or "",
        fields.optional("deadletter-description", str) or "",
        session_token=link.lock_session(fields),
    )


def _tokens(fields: Fields) -> bytes:
    return b"".join([token.bytes for token in fields.listed("lock-tokens", UUID)])


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
    outcome = await link.connection.repeated_settles.settle(request)
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
    messages = [{"message": payload} for payload in _payloads(shown.batches)]
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
    for batch in batches:
        tokens, size = batch.lock_tokens, lock_token.TOKEN_BYTES
        for index, payload in enumerate(_payloads([batch])):
            token = tokens[index * size : index * size + size]
            named = {"lock-token": UUID(bytes=token)} if token else {}
            messages.append({**named, "message": payload})
    return {"messages": messages}


def _payloads(batches: Iterable[columns.DeliveredBatch]) -> list[bytes]:
    deliveries = map(outgoing_messages.Delivery, batches)
    return [each.encode(index) for each in deliveries for index in range(len(each))]


def _messages(fields: Fields) -> Columns:
    messages = Columns()
    for entry in fields.listed("messages", dict):
        messages.add(Fields(entry).required("message", bytes))
    return messages


async def _schedule(link: ManagementLink, fields: Fields) -> Reply:
    name, sub_queue = request_values.entity_and_sub_queue(link.path)
    outcome = await link.connection.repeated_sends.send(
        SendRequest(name, sub_queue, _messages(fields).batch(link.connection.new_id)),
        client=link.connection.client,
    )
    for error in outcome.failures.values():
        raise error
    return {"sequence-numbers": Array(values.LONG, list(outcome.numbers))}


def _collected_schedule(link: ManagementLink, fields: Fields) -> tuple[Collected, Reply]:
    messages = _messages(fields)
    operation = Collected(
        *request_values.entity_and_sub_queue(link.path),
        SendPart(messages.batch(link.connection.new_id)),
    )
    # Sequence numbers are assigned at the commit.
    return operation, {"sequence-numbers": Array(values.LONG, [0] * len(messages))}


async def _cancel_scheduled(link: ManagementLink, fields: Fields) -> Reply:
    await by_number.cancel_scheduled(
        link.connection.front_end,
        by_number.Operation(
            *request_values.entity_and_sub_queue(link.path),
            fields.listed("sequence-numbers", int),
        ),
    )
    return {}


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
    fields.required("session-id", str)
    sessions, name = link.connection.front_end.sessions, request_values.entity(link.path)
    # Empty is none, as on the service: the SDK for Go clears it so.
    state = fields.optional("session-state", bytes) or None
    await sessions.keep(name, link.token_of(fields), state)
    return {}


async def _list_sessions(link: ManagementLink, fields: Fields) -> Reply:
    after_ms = fields.required("last-updated-time", int)
    skip, top = fields.required("skip", int), fields.required("top", int)
    if skip < 0 or not top > 0:
        raise errors.InvalidArgument("top", "must be at least 1, and skip at least 0.")
    top = min(top, SESSIONS_MAX)
    asked_ms = 0 if after_ms >= _ANY_TIME_MS else max(1, after_ms)
    sessions, name = link.connection.front_end.sessions, request_values.entity(link.path)
    found: list[str] = []
    passed, page_token, more = 0, b"", True
    known, link.listing = link.listing, None
    if known is not None and known[0] == asked_ms and known[1] == skip:
        # Continue where the previous page ended.
        passed, page_token, more = skip, known[2], bool(known[2])
    while more and len(found) < top:
        wanted = min(1_000, skip - passed if passed < skip else top - len(found))
        ids, page_token = await sessions.page(name, wanted, page_token, asked_ms)
        if passed < skip:
            passed += len(ids)
        else:
            found += ids
        more = bool(page_token)
    if not found:
        return None
    link.listing = (asked_ms, skip + len(found), page_token)
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


@dataclass(frozen=True, slots=True)
class Row:
    """An operation: the right that it needs, and what it does."""

    operation: Operation
    perform: Callable[[ManagementLink, Fields], Awaitable[Reply]]
    # Returns it as a part of a transaction, with the reply; None: it cannot be part of one.
    collected: Callable[[ManagementLink, Fields], tuple[Collected, Reply]] | None = None


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
    "cancel-scheduled-message": Row(Operation.CANCEL_SCHEDULED, _cancel_scheduled),
    "renew-session-lock": Row(Operation.RENEW_SESSION, _renew_session),
    "get-session-state": Row(Operation.GET_SESSION_STATE, _get_state),
    "set-session-state": Row(Operation.SET_SESSION_STATE, _set_state),
    "get-message-sessions": Row(Operation.LIST_SESSIONS, _list_sessions),
    "add-rule": Row(Operation.CHANGE_RULES, _of_rules(rule_requests.add)),
    "remove-rule": Row(Operation.CHANGE_RULES, _of_rules(rule_requests.remove)),
    "enumerate-rules": Row(Operation.CHANGE_RULES, _of_rules(rule_requests.listed)),
    "batch-delete-messages": Row(Operation.DELETE_MESSAGES, _delete_messages),
}
