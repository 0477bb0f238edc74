"""The session of one receiver, on the I/O thread: locked as its stream opens, attached again later.

    wanted ──opened──► locked ──stream lost──► attached again with the token ──► locked
       │                  └──the lock ended──► lost: a receiver of its own accepts it again
       └──refused──► the callers that wait are told; the next call tries again

Order: while a message goes back to the queue (abandoned or released), nothing is asked for, and
what arrives meanwhile goes back, too: the bus delivers all of it again, in order.

Also what applications see of it (`BaseSession`), and how sessions are listed (`list_request`).
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bendybus.client import arguments, exceptions
from bendybus.client.core.io_thread import Waiter
from bendybus.client.core.retry_policy import RetryPolicy, counted
from bendybus.client.core.settlements import Outcome, Settlement
from bendybus.client.exceptions import AutoLockRenewFailed, AutoLockRenewTimeout
from bendybus.client.messages import values
from bendybus.domain import lock_token
from bendybus.domain.errors import BusError, ServiceTimeout, SessionLockLost
from bendybus.v1 import receiver_pb2
from bendybus.v1.receiver_pb2 import CloseSession, OpenReceiver

if TYPE_CHECKING:
    from bendybus.client.core.receiver import BaseReceiver

_PAGE_SIZE: Final = 1_000
# The bus answers at the end of a wait; this is how long its answer may take to get here.
GRACE_S: Final = 4.0
WAIT_S_DEFAULT: Final = 60.0
# Messages are handed over while the lock lasts so long, or this part of its duration, if less.
_LEFT_S: Final = 1.0
_LEFT_PART: Final = 10
_RETURNING: Final = frozenset({receiver_pb2.DISPOSITION_ABANDON, receiver_pb2.DISPOSITION_RELEASE})
_TOKEN_BYTES: Final = lock_token.TOKEN_BYTES


def timeout_of(timeout: float | None, options: dict[str, Any]) -> float:
    """Return the seconds that a call about a session may take."""
    arguments.warn_of_unknown(options)
    return arguments.timeout(timeout)


def updated_after_ms(moment: datetime | None) -> int:
    """Return when states must have been set to be listed; 0: no matter."""
    if moment is None:
        return 0
    return max(1, values.to_milliseconds(arguments.moment("state_updated_after", moment)))


def list_request(path: str, token: str, after_ms: int) -> receiver_pb2.ListSessionsRequest:
    """Return the request for a page of sessions."""
    return receiver_pb2.ListSessionsRequest(
        entity_path=path,
        page_token=bytes.fromhex(token),
        page_size=_PAGE_SIZE,
        state_updated_after_ms=after_ms,
    )


def of(receiver: "BaseReceiver", retry: RetryPolicy) -> "SessionLink | None":
    """Return the session of a receiver, if it is to have one."""
    if not receiver._by_session:
        return None
    return SessionLink(receiver._session_id, _wait_s(receiver), retry)


def opens_within_s(receiver: "BaseReceiver") -> float:
    """Return how long the I/O thread may take to lock the session of a receiver."""
    return _wait_s(receiver) + GRACE_S


def _wait_s(receiver: "BaseReceiver") -> float:
    return float(receiver._max_wait_time or WAIT_S_DEFAULT)


def returns(disposition: int) -> bool:
    """Whether messages go back to the queue with this disposition."""
    return disposition in _RETURNING


class SessionLink:
    """See the module. `wanted`: the session's name, None: the next one that is free."""

    def __init__(self, wanted: str | None, wait_s: float, retry: RetryPolicy) -> None:
        self._retry = retry
        self._wait_s = wait_s
        self._wanted = self.session_id = wanted
        # Lets the stream look for something to write.
        self.wake: Callable[[], None] = lambda: None
        self.token = b""
        self.locked_until_ms = 0
        # On the monotonic clock.
        self.lock_end_s = 0.0
        self.lost: BusError | None = None
        # Settlements under way that give messages back.
        self.returning = 0
        self.closing = self.closed = False
        self._close_sent = False
        # No caller waits for the session any more: it is given up, should it be locked.
        self._withdrawn = False
        # Callers that were told of the lock, until the session is used.
        self._told: list[Waiter[None]] = []
        # Lock tokens of messages that are not settled.
        self._held: set[bytes] = set()
        self._waiters: list[Waiter[None]] = []
        self._deadline_s = 0.0
        self._failures = 0
        self._error: BusError | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Opening

    @property
    def has_work(self) -> bool:
        """Whether the stream has to be open for it."""
        return bool(self._waiters) or (self.closing and bool(self.token) and not self.closed)

    @property
    def ready(self) -> bool:
        """Whether the session is locked, as far as is known. From any thread."""
        return bool(self.token) and self.lost is None and not self._withdrawn

    def open(self, waiter: Waiter[None], loop: asyncio.AbstractEventLoop) -> None:
        """Let a caller wait until the session is locked."""
        if self.lost is not None:
            waiter.fail(exceptions.from_bus_error(self.lost))
        elif self.ready:
            waiter.resolve(None)
        else:
            if not self._waiters:
                self._failures, self._error = 0, None
                self._deadline_s = loop.time() + self._wait_s
                end_s = self._deadline_s + GRACE_S
                self._timer = loop.call_at(end_s, self._over)
            self._waiters.append(waiter)

    def opening(self, opening: OpenReceiver, now_s: float) -> OpenReceiver:
        """Return how the stream opens now."""
        made = OpenReceiver()
        made.CopyFrom(opening)
        session = made.session
        if self.token:
            session.session_token = self.token
            session.held_lock_tokens = b"".join(self._held)
        elif self.session_id is None:
            session.next_available = True
        else:
            session.session_id = self.session_id
        session.max_wait_ms = max(0, round((self._deadline_s - now_s) * 1_000))
        self._close_sent = self._withdrawn = False
        return made

    def opened(self, session: receiver_pb2.OpenedSession, sent_s: float) -> None:
        """Take the lock; `sent_s`: since when it lasts so long."""
        if self._withdrawn:
            # It is given up on the same stream.
            return
        if not self.token:
            self._told = list(self._waiters)
            self.session_id = session.session_id
            self.token = session.session_token
        self.renewed(session.locked_until_ms, session.lock_remaining_ms, sent_s)
        self._end_waiting()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.resolve(None)

    def leave(self, waiter: Waiter[None], *, open_sent: bool) -> None:
        """Forget a caller that has gone; without callers there is to be no lock."""
        waiting = waiter in self._waiters
        if waiting:
            self._waiters.remove(waiter)
        elif waiter in self._told:
            self._told.remove(waiter)
        else:
            return
        if self._waiters or self._told or (self.token and (waiting or self._held)):
            return
        if not self.token:
            self._end_waiting()
        if open_sent:
            self._withdraw()

    def _withdraw(self) -> None:
        self._withdrawn = True
        self.wake()

    def renewed(self, locked_until_ms: int, lock_remaining_ms: int, since_s: float) -> None:
        """Note until when the lock lasts. From any thread."""
        self.locked_until_ms = locked_until_ms
        self.lock_end_s = since_s + lock_remaining_ms / 1_000

    def lasts(self, duration_s: float) -> bool:
        """Whether enough of the lock, of that duration, is left to hand a message over.

        From any thread.
        """
        left_s = min(_LEFT_S, duration_s / _LEFT_PART)
        return self.lock_end_s >= time.monotonic() + left_s

    def broken(self, error: BusError) -> None:
        """Take the end of the stream: the next one tries again, or its callers are told."""
        if self._withdrawn:
            # It is given up, as far as is known.
            self._forget_lock()
        if isinstance(error, SessionLockLost) and self.token:
            self.lost = error
            self._held.clear()
        self._failures += counted(error)
        if counted(error):
            self._error = error
        none_free = isinstance(error, ServiceTimeout) and not self.token
        if none_free or not self._retry.allows(error, self._failures):
            self._fail(error)

    def _over(self) -> None:
        self._timer = None
        self._fail(self._error or ServiceTimeout("The bus did not answer in time."))
        # Its answer may still come.
        self._withdraw()

    def _fail(self, error: BusError) -> None:
        self._end_waiting()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.fail(exceptions.from_bus_error(error))

    def _end_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Closing

    def close(self) -> None:
        """Begin to give the session up."""
        self.closing = True
        self._fail(ServiceTimeout("The receiver was closed."))

    def next_close(self, *, open_sent: bool) -> CloseSession | None:
        """Return the frame that gives the session up, once in a stream."""
        wanted = self._withdrawn or (self.closing and not self.closed)
        if not wanted or self._close_sent or not open_sent:
            return None
        self._close_sent = True
        return CloseSession()

    def close_answered(self) -> bool:
        """Take note that the session is given up; return whether another one may be locked."""
        if self.closing:
            self.closed = True
            return False
        self._forget_lock()
        return True

    def _forget_lock(self) -> None:
        self._withdrawn = False
        self.session_id, self.token = self._wanted, b""
        self._held.clear()

    # Messages

    def used(self) -> None:
        """Note that a caller uses the session."""
        self._told.clear()

    def hold(self, tokens: bytes) -> None:
        """Note messages that were delivered. From any thread."""
        for at in range(0, len(tokens), _TOKEN_BYTES):
            self._held.add(tokens[at : at + _TOKEN_BYTES])

    def settling(self, settlement: Settlement, done: Callable[[], None]) -> bool:
        """Follow a settlement to its end; `done` is called when what goes back has gone.

        Returns whether it gives messages back.
        """
        if isinstance(settlement.waiter, _Settling):
            # It is tried again.
            return False
        back = returns(settlement.disposition)
        if settlement.disposition != receiver_pb2.DISPOSITION_RENEW_LOCK:
            self.returning += back
            settlement.waiter = _Settling(self, settlement, settlement.waiter, done)
        return back

    def settled(self, tokens: bytes) -> None:
        """Forget messages that are settled, or whose locks are lost."""
        for at in range(0, len(tokens), _TOKEN_BYTES):
            self._held.discard(tokens[at : at + _TOKEN_BYTES])


class _Settling:
    """The waiter of a settlement in a session."""

    def __init__(
        self,
        link: SessionLink,
        settlement: Settlement,
        waiter: Waiter[Outcome],
        done: Callable[[], None],
    ) -> None:
        self._link = link
        # All of them: a repeat is of fewer.
        self._tokens = settlement.tokens
        self._back = returns(settlement.disposition)
        self._waiter = waiter
        self._done = done

    def resolve(self, value: Outcome) -> None:
        """Hand over the outcome."""
        self._end()
        self._waiter.resolve(value)

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""
        self._end()
        self._waiter.fail(error)

    def _end(self) -> None:
        self._link.settled(self._tokens)
        if self._back:
            self._link.returning -= 1
            self._done()


class BaseSession:
    """The base of the sessions of both surfaces, which differ in how they wait."""

    def __init__(self, session_id: str | None, receiver: "BaseReceiver") -> None:
        self._wanted = session_id
        self._receiver = receiver
        # Set by an AutoLockRenewer whose renewals failed.
        self.auto_renew_error: AutoLockRenewFailed | AutoLockRenewTimeout | None = None

    @property
    def _link(self) -> SessionLink | None:
        stream = self._receiver._current
        return None if stream is None else stream.session

    @property
    def session_id(self) -> str:
        """The name of the session; None until the next available one is accepted."""
        link = self._link
        # The type is that of azure-servicebus.
        return self._wanted if link is None else link.session_id  # type: ignore[return-value]

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock ends; None until the session is accepted."""
        link = self._link
        if link is None or not link.locked_until_ms:
            return None
        return _moment(link.locked_until_ms)

    def _token(self) -> bytes:
        link = self._link
        return b"" if link is None else link.token

    def _state_request(self, state: Any) -> receiver_pb2.SetSessionStateRequest:
        if isinstance(state, str):
            state = state.encode()
        if state is not None and not isinstance(state, bytes | bytearray):
            raise TypeError(f"state: must be str, bytes or None (got {type(state).__name__})")
        return receiver_pb2.SetSessionStateRequest(
            entity_path=self._receiver.entity_path,
            session_token=self._token(),
            state=None if state is None else bytes(state),
        )

    def _read_request(self) -> receiver_pb2.GetSessionStateRequest:
        return receiver_pb2.GetSessionStateRequest(
            entity_path=self._receiver.entity_path, session_token=self._token()
        )

    def _renew_request(self) -> receiver_pb2.RenewSessionLockRequest:
        return receiver_pb2.RenewSessionLockRequest(
            entity_path=self._receiver.entity_path, session_token=self._token()
        )

    def _renewed(self, answer: receiver_pb2.RenewSessionLockResponse, asked_s: float) -> datetime:
        link = self._link
        assert link is not None
        # Counted from the request: the response may have been delayed.
        link.renewed(answer.locked_until_ms, answer.lock_remaining_ms, asked_s)
        return _moment(answer.locked_until_ms)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)
