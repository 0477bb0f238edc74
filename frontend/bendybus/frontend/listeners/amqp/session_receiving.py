"""A link on which a client receives from a session: attached once the session is locked for it.

attach with a session filter ──► accept the session ──► attach with the session's id
detach, end or close by the client ──► the session is closed: another receiver may accept it
the connection is lost ──► the lock stays until it expires
the lock ends ──► the link is detached, even one without credit: its client cannot know otherwise
"""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bendybus.amqp.links import OutgoingLink
from bendybus.amqp.performatives import Error
from bendybus.amqp.values import Described, Symbol
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.sessions import LockedSession, SessionCache
from bendybus.frontend.listeners.amqp import conditions
from bendybus.frontend.listeners.amqp.receiving import MESSAGE_BYTES_MAX, ReceivingLink
from bendybus.frontend.upstreams.upstream import now_ms

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

logger = logging.getLogger(__name__)
SESSION_FILTER: Final = "com.microsoft:session-filter"
_TIMEOUT: Final = "com.microsoft:timeout"
_LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"
# How long to wait for the next available session, as Service Bus does.
WAIT_MS: Final = 65_000
# From the end of the lock until the link is detached. Operations with the lock fail at once.
LOST_S: Final = 1.0
# The start of 1970 in .NET's ticks: 100 ns since the year 1.
_TICKS_1970: Final = 621_355_968_000_000_000
_TICKS_A_MS: Final = 10_000


def ticks(time_ms: int) -> int:
    """Return a time as .NET counts it."""
    return _TICKS_1970 + time_ms * _TICKS_A_MS


class SessionReceivingLink(ReceivingLink):
    """See the module."""

    def __init__(
        self,
        connection: "ClientConnection",
        link: OutgoingLink,
        path: str,
        source: Source,
        wanted: Any,
    ) -> None:
        super().__init__(connection, link, path)
        self._source = source
        # Filters are described values, but most SDKs leave the descriptor out. Answered in kind.
        self._descriptor = wanted.descriptor if isinstance(wanted, Described) else None
        self._wanted = wanted.value if isinstance(wanted, Described) else wanted
        self._accepting: asyncio.Task[None] | None = None
        # Set once the session is locked.
        self.session: LockedSession | None = None
        # Its lock was lost.
        self._over = False
        # When the lock ends, as far as is known.
        self._watching: asyncio.TimerHandle | None = None

    def accept(self) -> None:
        """Lock the session, then attach the link. Raises InvalidArgument."""
        if self._wanted is not None and type(self._wanted) is not str:
            raise errors.InvalidArgument(
                SESSION_FILTER, "must be a string, or null for the next available session."
            )
        self._accepting = asyncio.get_running_loop().create_task(
            self._accept(), name="amqp-accept-session"
        )

    def fail(self, error: BusError) -> None:
        """Detach the link; after a lost lock LOST_S later: waits as long as the lock end first."""
        if isinstance(error, errors.SessionLockLost):
            self._over = True
            self._connection.later(LOST_S, partial(self._end, error))
        else:
            super().fail(error)

    def credit_changed(self) -> None:
        """Pass the credit of the link on, while the session is locked."""
        if not self._over:
            super().credit_changed()
        elif self._link.drain:
            self._link.drained()
            self._connection.write_soon()

    def stop(self) -> None:
        """Receive nothing more for a link that has ended, and accept no session."""
        if self._accepting is not None:
            self._accepting.cancel()
        super().stop()

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached, or lost with its connection."""
        if self._accepting is not None:
            self._accepting.cancel()
        session = self._leave()
        super().closed(lost=lost)
        if session is not None and not lost:
            self._connection.start(self._close(session))

    def give_up(self) -> Awaitable[None] | None:
        """Receive no more; return what gives the session up, uncounted, before a detach of ours."""
        session = self._leave()
        return None if session is None else self._close(session)

    def _leave(self) -> LockedSession | None:
        """Stop receiving; return the session that the link held."""
        receiver, (session, self.session) = self._receiver, (self.session, None)
        if session is not None:
            self._connection.held_sessions.remove(self._path, self._link.name, session)
        if self._watching is not None:
            self._watching.cancel()
        if receiver is not None and isinstance(receiver.shared, SessionCache):
            self._connection.front_end.sessions.leave(receiver.shared)
        return session

    async def _accept(self) -> None:
        link, connection = self._link, self._connection
        sessions = connection.front_end.sessions
        asked = (link.attach.properties or {}).get(_TIMEOUT)
        wait_ms = asked if isinstance(asked, int) else WAIT_MS
        try:
            entity, session = await sessions.accept(
                self._source.entity, self._source.sub_queue, self._wanted, wait_ms
            )
            await self._check(session)
        except BusError as error:
            link.context = None
            link.refuse(conditions.of(error, self._path))
            connection.write_soon()
            return
        except Exception:
            # The boundary of this task: the client must not wait for ever.
            logger.exception("AMQP session: could not be accepted")
            link.context = None
            link.refuse(Error("amqp:internal-error", "the session could not be accepted"))
            connection.write_soon()
            return
        self._accepting = None
        self.session = session
        connection.held_sessions.add(self._path, link.name, session)
        receiver = sessions.open(
            entity, self._source.mode, session, self.hand, self.fail, owner=connection.flow.owner
        )
        held: Any = session.session_id
        if self._descriptor is not None:
            held = Described(self._descriptor, held)
        source = dataclasses.replace(link.attach.source, filter={Symbol(SESSION_FILTER): held})
        link.accept(
            source=source,
            max_message_size=MESSAGE_BYTES_MAX,
            properties={Symbol(_LOCKED_UNTIL): ticks(session.locked_until_ms)},
        )
        self.begin(receiver)
        self._watch(session)
        connection.write_soon()
        if not link.is_open:
            # The attach was too large for a frame of the client.
            link.context = None
            self.closed()
        # STRICTLY AFTER the attach is on its way: from now on the client may know its session.
        connection.soon(self._told)

    def _watch(self, session: LockedSession) -> None:
        """Detach the link when the lock ends; renewals move that."""
        receiver = self._receiver
        if self.session is not session or self._over or receiver is None:
            return
        assert isinstance(receiver.shared, SessionCache), receiver
        left_ms = receiver.shared.lease.until_ms - now_ms()
        if left_ms > 0:
            loop = asyncio.get_running_loop()
            self._watching = loop.call_later(left_ms / 1_000, self._watch, session)
        else:
            text = f"{self._path!r}: the lock on session {session.session_id!r} ended."
            self.fail(errors.SessionLockLost(text))

    async def _check(self, session: LockedSession) -> None:
        """Check the client's right again; without it, close the session and raise the reason."""
        try:
            self._connection.claims.check(*self.right)
        except BusError:
            await self._close(session)
            raise

    def _told(self) -> None:
        receiver = self._receiver
        if receiver is not None and isinstance(receiver.shared, SessionCache):
            self._connection.front_end.sessions.told(receiver.shared)

    async def _close(self, session: LockedSession) -> None:
        try:
            await self._connection.front_end.sessions.close(self._source.entity, session.token)
        except BusError as error:
            # It becomes free when its lock expires.
            logger.debug("AMQP session: not closed yet: %s", error)
