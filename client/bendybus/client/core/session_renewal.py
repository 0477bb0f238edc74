"""Background renewal of the lock of a session, on the I/O thread: a call of its own."""

import time
from typing import Any, Final

from bendybus.client.core.connection import Connection
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.renewal_schedule import Failure, Renewal
from bendybus.client.core.session import BaseSession
from bendybus.client.core.settlements import Outcome
from bendybus.client.core.waiters import Waiter
from bendybus.v1 import receiver_pb2

_TIMEOUT_S: Final = 30.0


class SessionRenewal(Renewal):
    """A session whose lock is renewed until `end_s`."""

    __slots__ = ("_connection",)

    def __init__(
        self,
        connection: Connection,
        stream: ReceiveStream,
        session: BaseSession,
        duration_s: float,
        fail: Failure | None,
    ) -> None:
        super().__init__(stream, session, duration_s, fail)
        self._connection = connection

    @property
    def over(self) -> bool:
        """Whether the session was given up."""
        link = self.stream.session
        return link is None or link.closing

    def extended(self, outcome: Outcome) -> None:
        """Note the new expiry."""
        if self.stream.session is not None:
            self.stream.session.renewed(
                outcome.locked_until_ms, outcome.lock_remaining_ms, self.asked_s
            )

    def ask(self, waiter: Waiter) -> bool:
        """Ask for the renewal."""
        request: receiver_pb2.RenewSessionLockRequest = self.message._renew_request()

        async def renew() -> Outcome:
            answer: Any = await self._connection.call(
                lambda stubs: stubs.receiver.RenewSessionLock, request, _TIMEOUT_S
            )
            return Outcome((), answer.locked_until_ms, answer.lock_remaining_ms)

        self._connection.start(waiter, renew)
        return True

    def _lock_left_s(self) -> float:
        link = self.stream.session
        return 0.0 if link is None else max(0.0, link.lock_end_s - time.monotonic())
