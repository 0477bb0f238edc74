"""Nodes that answer requests: a link for requests, one for replies, and which replies it gets.

client ── request: message-id, reply-to ──►  node
       ◄── reply: correlation-id ──────────  on the link whose target, or name, is reply-to;
                                             without reply-to, on the link of the same session
"""

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bendybus.amqp import sections
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.events import Delivered
from bendybus.amqp.links import IncomingLink, OutgoingLink
from bendybus.amqp.performatives import Accepted, Error, Rejected, TransactionalState
from bendybus.amqp.sections import Message, Properties
from bendybus.frontend.core.quota.bounds import REPLY_BYTES
from bendybus.frontend.core.quota.room import Holder

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

# Credit for requests: ample, since the SDK for JavaScript fails a request that waits a second for
# it. The quota bounds what requests and replies hold in bytes.
CREDIT: Final = 5_000


class ReplyLink:
    """A link on which replies go to the client."""

    def __init__(self, connection: "ClientConnection", link: OutgoingLink, address: str) -> None:
        self._connection = connection
        self.link = link
        self.address = address
        # What a request may have as reply-to to name this link.
        self.names = (link.name, getattr(link.attach.target, "address", None))
        self._waiting: deque[tuple[bytes, Holder]] = deque()

    def credit_changed(self) -> None:
        """Send what waits for credit."""
        while self._waiting and self.link.credit and self.link.is_open:
            payload, holder = self._waiting.popleft()
            self._give(payload, holder)
            self._send(payload)
        if self.link.drain:
            self.link.drained()

    def reply(self, payload: bytes) -> None:
        """Send a reply, or keep it until there is credit."""
        if not self.link.is_open:
            return
        if self.link.credit and not self._waiting:
            self._send(payload)
        elif self._connection.quota.answers.take(
            holder := self._connection.holder, len(payload) + REPLY_BYTES
        ):
            self._waiting.append((payload, holder))
        else:
            text = "the replies to its requests are not read"
            self._connection.detach(self.link, Error("amqp:resource-limit-exceeded", text))
        self._connection.write_soon()

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached."""
        for payload, holder in self._waiting:
            self._give(payload, holder)
        self._waiting.clear()
        self._connection.reply_links.discard(self)

    def _give(self, payload: bytes, holder: Holder) -> None:
        self._connection.quota.answers.give(holder, len(payload) + REPLY_BYTES)

    def _send(self, payload: bytes) -> None:
        self.link.send(uuid4().bytes, payload, settled=True)


class RequestLink(ABC):
    """A link on which requests arrive. Subclasses perform them."""

    def __init__(self, connection: "ClientConnection", link: IncomingLink, address: str) -> None:
        self.connection = connection
        self.link = link
        self.address = address
        self._finishing = False

    def begin(self) -> None:
        """Grant credit."""
        self.link.grant(CREDIT)

    def finish(self) -> None:
        """Let no more requests come."""
        self._finishing = True
        self.link.grant(0)

    def credit_changed(self) -> None:
        """Let more requests come, if there is little credit left."""
        if self.link.credit < CREDIT // 2 and not self._finishing:
            self.link.grant(CREDIT)

    def delivered(self, event: Delivered) -> None:
        """Take a request."""
        self.credit_changed()
        settle = self.link.session.settle
        try:
            if event.too_large or event.no_room:
                raise DecodeError("the request is too large, or too many large ones are on the way")
            request = sections.decode(event.payload)
        except DecodeError as error:
            if not event.settled:
                settle(event.delivery_id, Rejected(Error("amqp:decode-error", str(error))))
            return
        if not event.settled:
            state = event.state
            done = Accepted()
            settle(event.delivery_id, TransactionalState(state.txn_id, done) if state else done)
        self.request(request, event)

    @abstractmethod
    def request(self, request: Message, event: Delivered) -> None:
        """Answer a request, now or later."""

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached: it gets no more credit."""
        self._finishing = True

    def reply(self, request: Message, properties: dict[str, Any], body: Any = None) -> None:
        """Send the reply to a request."""
        asked = request.properties or Properties()
        correlation_id = asked.correlation_id if asked.message_id is None else asked.message_id
        payload = sections.encode(
            Message(
                properties=Properties(correlation_id=correlation_id),
                application_properties=properties,
                value=body,
                has_value=True,
            )
        )
        found = self._reply_link(asked.reply_to)
        if found is not None:
            found.reply(payload)

    def _reply_link(self, reply_to: Any) -> ReplyLink | None:
        links = [each for each in self.connection.reply_links if each.address == self.address]
        if reply_to is not None:
            for each in links:
                if reply_to in each.names:
                    return each
        for each in links:
            if each.link.session is self.link.session:
                return each
        return links[0] if links else None
