"""What the lock renewers of both surfaces share."""

import time
from collections.abc import Callable
from typing import Any, Final

from bendybus.client.core import io_thread
from bendybus.client.core.connection import Connection
from bendybus.client.core.io_thread import IoThread
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.renewal_schedule import Failure, Renewal, RenewalSchedule
from bendybus.client.core.session import BaseSession
from bendybus.client.core.settlements import Outcome
from bendybus.client.core.waiters import Waiter
from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.v1 import receiver_pb2

_TIMEOUT_S: Final = 30.0
DURATION_S_DEFAULT = 300.0


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


class BaseLockRenewer:
    """The base of the lock renewers of both surfaces, which differ in how they call back."""

    _duration_s: float
    _on_failure: Failure | None
    _notify: Callable[[Renewal, ServiceBusError], None]

    def __init__(self, max_lock_renewal_duration: float, on_failure: Failure | None) -> None:
        self._duration_s = max_lock_renewal_duration
        self._on_failure = on_failure
        self._closed = False
        self._io: IoThread | None = None
        self._renewing: RenewalSchedule | None = None

    def register(
        self,
        receiver: Any,
        renewable: ServiceBusReceivedMessage | BaseSession,
        max_lock_renewal_duration: float | None = None,
        on_lock_renew_failure: Failure | None = None,
    ) -> None:
        """Renew the lock of a message or session until it is given up or the duration has passed.

        `receiver`: the receiver of `renewable`, the message or its `session`.
        `max_lock_renewal_duration` and `on_lock_renew_failure` override those of the renewer.
        """
        if not isinstance(renewable, ServiceBusReceivedMessage | BaseSession):
            raise TypeError(
                "renewable: must be a ServiceBusReceivedMessage or a ServiceBusSession "
                f"(got {type(renewable).__name__})"
            )
        self._check_open()
        duration_s = self._duration_s
        if max_lock_renewal_duration is not None:
            duration_s = max_lock_renewal_duration
        fail = on_lock_renew_failure or self._on_failure
        stream = receiver._receive_stream()
        entry: Renewal
        if renewable.locked_until_utc is None:
            raise ValueError("renewable: it has no lock.")
        if isinstance(renewable, BaseSession):
            entry = SessionRenewal(receiver._shared.get(), stream, renewable, duration_s, fail)
        elif renewable._peeked or receiver._by_session:
            raise ValueError("renewable: the message has no lock of its own.")
        else:
            entry = Renewal(stream, renewable, duration_s, fail)
        entry.receiver = receiver
        io = io_thread.current()
        with io_thread.making():
            if self._renewing is None or self._io is not io:
                self._io, self._renewing = io, RenewalSchedule(io.loop, self._notify)
        io.submit(self._renewing.add, entry)

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceBusError("The AutoLockRenewer is closed: create another one.")

    def _end(self) -> None:
        self._closed = True
        if self._renewing is not None and self._io is io_thread.current():
            self._io.submit(self._renewing.close)
