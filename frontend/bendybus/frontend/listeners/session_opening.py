"""The session of one ReceiveStream: locked as the stream opens, given up before it ends."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.receive_mode import ReceiveMode
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.receiver import Receiver
from bendybus.frontend.core.sessions import LockedSession, SessionCache, SessionDispatcher
from bendybus.frontend.listeners.answers import Answer
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses

logger = logging.getLogger(__name__)
Locked = Callable[[Entity, ReceiveMode, LockedSession], None]


class SessionOpening:
    """See the module. `locked` is called once the session is; `put` takes errors and answers."""

    def __init__(
        self,
        sessions: SessionDispatcher,
        source: Source,
        wanted: receiver_pb2.AcceptSession,
        locked: Locked,
        put: Callable[[Any], None],
        receiver_id: bytes = b"",
    ) -> None:
        self._sessions = sessions
        self._put = put
        self._receiver_id = receiver_id
        self._entity = source.entity
        # Of a session that its receiver has locked already.
        self._token = wanted.session_token
        # Whether a CloseSession is not answered yet.
        self.closing = False
        self._closing: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open(source, wanted, locked), name="accept-session")

    def finish(self) -> None:
        """Wait for no session any more; the stream moves."""
        self._opening.cancel()

    def end(self, receiver: Receiver | None, *, told: bool) -> None:
        """Let go: the stream has ended. A session that is locked stays so until its lock ends.

        `told`: whether its client may know that it is locked; else it is freed.
        """
        self._opening.cancel()
        if receiver is not None and isinstance(receiver.shared, SessionCache):
            self._sessions.leave(receiver.shared)
            if not told and not self._token:
                self._sessions.give_up(receiver.shared)

    def told(self, receiver: Receiver) -> None:
        """Take note that the client was told of the session, if it is one that it accepted."""
        if isinstance(receiver.shared, SessionCache) and not self._token:
            self._sessions.told(receiver.shared)

    def close(self, receiver: Receiver | None) -> None:
        """Give the session up, or wait for none any more; answered by SessionClosed."""
        if self.closing:
            return
        self.closing = True
        self._opening.cancel()
        loop = asyncio.get_running_loop()
        self._closing = loop.create_task(self._close(receiver), name="close-session")

    async def _open(
        self, source: Source, wanted: receiver_pb2.AcceptSession, locked: Locked
    ) -> None:
        which = wanted.WhichOneof("which")
        try:
            if which == "session_token":
                entity, session = await self._sessions.attach(
                    source.entity, wanted.session_token, wanted.held_lock_tokens
                )
            elif which is None or (which == "next_available" and not wanted.next_available):
                raise errors.InvalidArgument("session.which", "must be set.")
            else:
                entity, session = await self._sessions.accept(
                    source.entity,
                    source.sub_queue,
                    wanted.session_id if which == "session_id" else None,
                    wanted.max_wait_ms,
                    receiver_id=self._receiver_id,
                )
        except BusError as error:
            self._put(error)
            return
        except Exception as error:
            # The boundary of this task: its client must not wait for ever.
            logger.exception("session: could not be accepted")
            self._put(errors.BusError(f"the session could not be accepted: {error!r}"))
            return
        locked(entity, source.mode, session)

    async def _close(self, receiver: Receiver | None) -> None:
        closed = receiver_pb2.SessionClosed()
        token = self._token if receiver is None else receiver.shared.session_token
        try:
            if token:
                await self._sessions.close(self._entity, token)
        except BusError as error:
            closed.error.CopyFrom(statuses.to_error(error))
        self.closing = False
        self._put(Answer(receiver_pb2.ReceiveStreamResponse(session_closed=closed)))
