"""Background renewal of locks, on the I/O thread: a busy application loses no lock."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bendybus.client.core import io_thread
from bendybus.client.core.connection import Connection
from bendybus.client.core.io_thread import IoThread, Waiter
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.session_link import BaseSession
from bendybus.client.core.settlements import Outcome, Settlement
from bendybus.client.exceptions import (
    AutoLockRenewFailed,
    AutoLockRenewTimeout,
    MessageLockLostError,
    ServiceBusError,
    SessionLockLostError,
)
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.v1 import receiver_pb2

if TYPE_CHECKING:
    from bendybus.client.core.receiver import BaseReceiver

# Its first argument is a message or a session; that of both surfaces may be awaited.
Failure = Callable[[Any, ServiceBusError | None], object]

_TICK_S: Final = 0.25
_TIMEOUT_S: Final = 30.0
DURATION_S_DEFAULT: Final = 300.0
_LOST: Final = (MessageLockLostError, SessionLockLostError)


class Renewal:
    """A message whose lock is renewed until `end_s`. `fail` is not called on the I/O thread."""

    __slots__ = (
        "asked_s",
        "due_s",
        "end_s",
        "fail",
        "lock_end_s",
        "lock_s",
        "message",
        "receiver",
        "stream",
    )

    def __init__(
        self, stream: ReceiveStream, message: Any, duration_s: float, fail: Failure | None
    ) -> None:
        self.stream = stream
        # Or the session whose lock it is.
        self.message = message
        self.fail = fail
        # Keeps the receiver from being garbage-collected while its locks are renewed.
        self.receiver: BaseReceiver | None = None
        now = time.monotonic()
        self.end_s = now + duration_s
        self.lock_s = self._lock_left_s()
        self.lock_end_s = now + self.lock_s
        self.due_s = now + self.lock_s / 2
        self.asked_s = now

    @property
    def over(self) -> bool:
        """Whether there is nothing to renew any more."""
        return bool(self.message._settled)

    def _lock_left_s(self) -> float:
        return lock_left_s(self.message)

    def extended(self, outcome: Outcome) -> None:
        """Note the new expiry."""
        self.message._locked_until_ms = outcome.locked_until_ms

    def ask(self, waiter: Waiter[Outcome]) -> bool:
        """Ask for the renewal of this lock alone; False if it goes with others in a frame."""
        return False


class RenewalSchedule:
    """All locks of one renewer. Each is renewed after half of its duration, in batches."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, notify: Callable[[Renewal, ServiceBusError], None]
    ) -> None:
        self._loop = loop
        self._notify = notify
        self._renewals: set[Renewal] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, renewal: Renewal) -> None:
        """Add a lock."""
        if not self._closed:
            self._renewals.add(renewal)
            self._arm()

    def close(self) -> None:
        """Stop renewing all locks."""
        self._closed = True
        self._renewals.clear()
        if self._timer is not None:
            self._timer.cancel()

    def done(self, renewals: list[Renewal], outcome: Outcome) -> None:
        """Set the new expiry of locks; report the lost ones."""
        lost = dict(outcome.errors)
        now = time.monotonic()
        for index, renewal in enumerate(renewals):
            if index in lost and isinstance(lost[index], _LOST):
                self._lost(renewal, lost[index])
            elif index in lost:
                # The lock may outlast the cause of the failure.
                self.failed([renewal], lost[index])
            elif renewal in self._renewals:
                renewal.extended(outcome)
                # Counted from the request: the response may have been delayed.
                renewal.lock_end_s = renewal.asked_s + outcome.lock_remaining_ms / 1_000
                renewal.lock_s = max(0.0, renewal.lock_end_s - now)
                renewal.due_s = now + renewal.lock_s / 2

    def failed(self, renewals: list[Renewal], error: BaseException) -> None:
        """Retry until the locks expire; then report them."""
        for renewal in renewals:
            now = time.monotonic()
            if renewal.lock_end_s <= now or isinstance(error, _LOST):
                self._lost(renewal, error)
            else:
                renewal.due_s = now + min(1.0, renewal.lock_s / 8)

    def _arm(self) -> None:
        if self._timer is None and self._renewals:
            self._timer = self._loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = time.monotonic()
        due: dict[ReceiveStream, list[Renewal]] = {}
        for renewal in list(self._renewals):
            if renewal.over:
                self._renewals.discard(renewal)
            elif now >= renewal.end_s:
                self._renewals.discard(renewal)
                renewal.message.auto_renew_error = AutoLockRenewTimeout(
                    "The lock is no longer renewed: max_lock_renewal_duration has passed."
                )
            elif now >= renewal.due_s:
                # Not again before the response.
                renewal.due_s = now + _TIMEOUT_S
                renewal.asked_s = now
                if not renewal.ask(_Batch(self, [renewal])):
                    due.setdefault(renewal.stream, []).append(renewal)
        for stream, renewals in due.items():
            tokens = b"".join(e.message._delivered.token(e.message._index) for e in renewals)
            stream.settle(
                Settlement(
                    receiver_pb2.DISPOSITION_RENEW_LOCK, tokens, _Batch(self, renewals), _TIMEOUT_S
                )
            )
        self._arm()

    def _lost(self, renewal: Renewal, cause: BaseException) -> None:
        if renewal not in self._renewals:
            return
        self._renewals.discard(renewal)
        if renewal.over:
            return
        error = AutoLockRenewFailed(f"The lock could not be renewed: {cause}", error=cause)
        renewal.message.auto_renew_error = error
        if renewal.fail is not None:
            self._notify(renewal, error)


class _Batch:
    """The waiter of one request that renews several locks."""

    def __init__(self, renewing: RenewalSchedule, renewals: list[Renewal]) -> None:
        self._renewing = renewing
        self._renewals = renewals

    def resolve(self, value: Outcome) -> None:
        """Handle the outcome."""
        self._renewing.done(self._renewals, value)

    def fail(self, error: BaseException) -> None:
        """Handle the failure."""
        self._renewing.failed(self._renewals, error)


def lock_left_s(message: ServiceBusReceivedMessage) -> float:
    """Return how long the lock of a message lasts, on the monotonic clock."""
    delivered = message._delivered
    # By how much renewals have moved the expiry, on the clock of the bus.
    renewed_s = (message._locked_until_ms - delivered.locked_until_ms) / 1_000
    return max(0.0, delivered.lock_end_s + renewed_s - time.monotonic())


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

    def ask(self, waiter: Waiter[Outcome]) -> bool:
        """Ask for the renewal."""
        request: receiver_pb2.RenewSessionLockRequest = self.message._renew_request()

        async def renew() -> Outcome:
            answer = await self._connection.call(
                lambda stubs: stubs.receiver.RenewSessionLock, request, _TIMEOUT_S
            )
            return Outcome((), answer.locked_until_ms, answer.lock_remaining_ms)

        self._connection.start_call(waiter, renew)
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
        receiver: "BaseReceiver",
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
