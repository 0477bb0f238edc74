"""Replies to requests on their way to the client: what waits, and the room that it has.

    reply ──► sent ──► read by the client
      └► waits for the credit of its link, or the window of its session ──► sent, in turns

A reply that waits has room in the quota, and so has one that was built in room: it keeps that until
the client has read it. Others are bounded by the output that is not read: see `turns`.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from bendybus.amqp.links import OutgoingDelivery, OutgoingLink
from bendybus.amqp.performatives import Error
from bendybus.amqp.session import Session
from bendybus.domain.steps import Steps
from bendybus.frontend.core.quota.bounds import REPLY_BYTES
from bendybus.frontend.core.quota.room import Holder

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

_UNREAD: Final = Error("amqp:resource-limit-exceeded", "the replies to its requests are not read")


class Held(NamedTuple):
    """Room for answers, and whose it is."""

    holder: Holder
    size_bytes: int


class ReplyLink:
    """A link on which replies go to the client."""

    def __init__(self, connection: "ClientConnection", link: OutgoingLink, address: str) -> None:
        self._connection = connection
        self.link = link
        self.address = address
        # A request names this link in its reply-to by one of these.
        self.names = (link.name, getattr(link.attach.target, "address", None))
        self._waiting: deque[tuple[bytes, Held]] = deque()
        # The last reply, if its window had room for a part of it; nothing follows before the rest.
        self._part: tuple[OutgoingDelivery, Held] | None = None

    @property
    def waits(self) -> bool:
        """Whether replies wait, or the rest of one."""
        return bool(self._waiting) or self._part is not None

    def credit_changed(self) -> None:
        """Send what waits for credit."""
        if self.waits:
            self._connection.replies.go_on(self)
        else:
            self._answer_drain()

    def reply(self, payload: bytes, held: Held | None = None) -> bool:
        """Send a reply, or keep it until it may be sent.

        `held`: the room in which it was built. Returns whether that is the reply's now.
        """
        link, connection = self.link, self._connection
        if not link.is_open:
            return False
        size_bytes = len(payload) + REPLY_BYTES
        taken = False
        if not self.waits and self._may_send():
            taken = held is not None
            self._send(payload, connection.replies.resized(held, size_bytes) if held else None)
        elif connection.quota.answers.take(connection.holder, size_bytes):
            self._waiting.append((payload, Held(connection.holder, size_bytes)))
            connection.replies.wait(self)
        else:
            connection.detach(link, _UNREAD)
        connection.write_soon()
        return taken

    def send_waiting(self) -> Steps[None]:
        """Send what may be sent of what waits; a step for each reply."""
        if self._part is not None and self._part[0].waiting is None:
            # The rest of it is written.
            (_, held), self._part = self._part, None
            self._connection.replies.unread(held)
        while self._waiting and self._may_send():
            self._send(*self._waiting.popleft())
            self._connection.write_soon()
            yield
        if not self._waiting or not self.link.credit:
            self._answer_drain()

    def stop(self) -> None:
        """Take no more replies for a link that has ended; `closed` follows."""
        self._connection.replies.links.discard(self)

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached."""
        room = [held for _, held in self._waiting]
        self._waiting.clear()
        if self._part is not None:
            (_, held), self._part = self._part, None
            room.append(held)
        self._connection.replies.give(room)
        self._connection.replies.forget(self)

    def _may_send(self) -> bool:
        link = self.link
        return bool(link.credit) and link.is_open and link.session.is_writable

    def _send(self, payload: bytes, held: Held | None) -> None:
        delivery = self.link.send(uuid4().bytes, payload, settled=True)
        if held is None:
            return
        if delivery.waiting:
            self._part = (delivery, held)
            self._connection.replies.wait(self)
        else:
            self._connection.replies.unread(held)

    def _answer_drain(self) -> None:
        if self.link.drain:
            self.link.drained()
            self._connection.write_soon()


class Replies:
    """The links of a connection on which replies go, and what its replies hold."""

    def __init__(self, connection: "ClientConnection") -> None:
        self.links: set[ReplyLink] = set()
        self._connection = connection
        # Links of which replies wait, by session; and those of which some may be sent now.
        self._waiting: dict[Session, dict[ReplyLink, None]] = {}
        self._ready: dict[ReplyLink, None] = {}
        self._sending = False
        # Replies that are written and not read, in order: where they end in the output.
        self._unread: deque[tuple[int, Held]] = deque()

    @property
    def sending(self) -> bool:
        """Whether replies that waited may be sent now, in their turns."""
        return self._sending

    def wait(self, link: ReplyLink) -> None:
        """Take note that replies of a link wait."""
        self._waiting.setdefault(link.link.session, {})[link] = None

    def forget(self, link: ReplyLink) -> None:
        """Take note that a link is detached."""
        self.links.discard(link)
        self._ready.pop(link, None)
        self._waits_no_more(link)

    def window_opened(self, session: Session) -> None:
        """Send what waited for the window of a session."""
        for link in self._waiting.get(session, ()):
            self.go_on(link)

    def go_on(self, link: ReplyLink) -> None:
        """Send replies of a link that wait, as far as they may be sent, in turns."""
        self._ready[link] = None
        if not self._sending:
            self._sending = True
            self._connection.start(self._send())

    async def _send(self) -> None:
        try:
            await self._connection.reading.own_turn()
            await self._connection.reading.do(self._send_ready())
        finally:
            self._sending = False
        # The rest of a reply, whose room is kept until it is read, may be read already.
        self._connection.written()

    def _send_ready(self) -> Steps[None]:
        while self._ready:
            link, _ = self._ready.popitem()
            yield from link.send_waiting()
            if not link.waits:
                self._waits_no_more(link)
            yield

    def _waits_no_more(self, link: ReplyLink) -> None:
        session = link.link.session
        links = self._waiting.get(session)
        if links is not None:
            links.pop(link, None)
            if not links:
                del self._waiting[session]

    # Room

    def resized(self, held: Held, size_bytes: int) -> Held:
        """Return the room of what was built in `held`: what it takes, even beyond the bounds."""
        answers, change = self._connection.quota.answers, size_bytes - held.size_bytes
        if change > 0:
            answers.hold(held.holder, change)
        else:
            answers.give(held.holder, -change)
        return Held(held.holder, size_bytes)

    def give(self, room: Iterable[Held]) -> None:
        """Give room back; once for each holder, however many replies there are."""
        sizes = Counter[Holder]()
        for holder, size_bytes in room:
            sizes[holder] += size_bytes
        for holder, size_bytes in sizes.items():
            self._connection.quota.answers.give(holder, size_bytes)

    def unread(self, held: Held) -> None:
        """Keep the room of a reply that is written until it is read."""
        if self._connection.gone:
            self.give([held])
        else:
            self._unread.append((self._connection.output_end, held))

    def read(self, output_bytes: int) -> None:
        """Take note of how much of the output is read, from its beginning."""
        unread = self._unread
        if unread and unread[0][0] <= output_bytes:
            room = []
            while unread and unread[0][0] <= output_bytes:
                room.append(unread.popleft()[1])
            self.give(room)

    def lost(self) -> None:
        """Take note that nothing more is read."""
        self.give(held for _, held in self._unread)
        self._unread.clear()
