"""Nodes that answer requests: a link for requests, one for replies, and which replies it gets.

client ── request: message-id, reply-to ──►  node
       ◄── reply: correlation-id ──────────  on the link whose target, or name, is reply-to;
                                             without reply-to, on the link of the same session
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from bendybus.amqp import sections
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.events import Delivered
from bendybus.amqp.links import IncomingLink
from bendybus.amqp.performatives import Accepted, Error, Rejected, TransactionalState
from bendybus.amqp.sections import Message, Properties
from bendybus.frontend.listeners.amqp.replies import Held, ReplyLink

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

# Credit for requests: ample, since the SDK for JavaScript fails a request that waits a second for
# it. The quota bounds what requests and replies hold in bytes.
CREDIT: Final = 5_000


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

    def reply(
        self,
        request: Message,
        properties: dict[str, Any],
        body: Any = None,
        held: Held | None = None,
    ) -> bool:
        """Send the reply to a request; return whether the room in which it was built is its now."""
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
        return found is not None and found.reply(payload, held)

    def _reply_link(self, reply_to: Any) -> ReplyLink | None:
        links = [each for each in self.connection.replies.links if each.address == self.address]
        if reply_to is not None:
            for each in links:
                if reply_to in each.names:
                    return each
        for each in links:
            if each.link.session is self.link.session:
                return each
        return links[0] if links else None
