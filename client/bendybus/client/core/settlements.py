"""Settlements in progress: operations of callers, coalesced into frames, answered per token.

A core without I/O: `ReceiveStream` owns it, writes its frames and passes it the results.

Settlements whose callers do not wait (`settle_in_background()`) are bounded; a caller beyond the
bound waits. Their failures are kept until a flush reports them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bendybus.client import exceptions
from bendybus.client.core.io_thread import IoThread, Waiter
from bendybus.client.core.retry_policy import RetryPolicy, counted
from bendybus.client.exceptions import OutcomeUnknownError, ServiceBusError
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.domain import limits, lock_token
from bendybus.domain.errors import (
    BusError,
    MessageLockLost,
    OutcomeUnknown,
    RetryableError,
    ServiceTimeout,
    SessionLockLost,
    Unauthenticated,
    Unauthorized,
)
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import statuses

FRAME_TOKENS_MAX: Final = limits.SETTLE_TOKENS_MAX
# Frames without an answer; the bus remembers more of them, for repeats.
FRAMES_MAX: Final = 128
_RENEW_LOCK: Final = receiver_pb2.DISPOSITION_RENEW_LOCK
_TOKEN_BYTES: Final = lock_token.TOKEN_BYTES
# Messages whose settlement is not confirmed.
PENDING_MAX: Final = 5_000
# Failures that are kept; of the others it is known how many there are.
FAILURES_KEPT_MAX: Final = 1_000


class Settlement:
    """The messages that one call settles. Its waiter gets an Outcome."""

    __slots__ = (
        "changed_properties",
        "deadline_s",
        "delay_ms",
        "description",
        "disposition",
        "errors",
        "failures",
        "in_background",
        "indexes",
        "lock_remaining_ms",
        "locked_until_ms",
        "next_count",
        "next_wait_s",
        "reason",
        "repeated",
        "timeout_s",
        "tokens",
        "unknown",
        "waiter",
    )

    def __init__(
        self,
        disposition: receiver_pb2.Disposition,
        tokens: bytes,
        waiter: "Waiter[Outcome]",
        timeout_s: float,
        *,
        changed_properties: message_pb2.ValueMap | None = None,
        reason: str | None = None,
        description: str | None = None,
        delay_ms: int = 0,
    ) -> None:
        self.disposition = disposition
        self.tokens = tokens
        self.waiter = waiter
        self.timeout_s = timeout_s
        self.changed_properties = changed_properties
        self.reason = reason
        self.description = description
        # Of an abandon: how long the message is not received.
        self.delay_ms = delay_ms
        # How many messages the next step of a loop asks for at the same time, and how long it waits
        # for them; 0: it does not ask.
        self.next_count = 0
        self.next_wait_s = 0.0
        # Whether its caller goes on before its outcome.
        self.in_background = False
        self.deadline_s = 0.0
        self.failures = 0
        self.repeated = False
        # An earlier try may have done it: that a repeat is rejected does not mean it was not done.
        self.unknown = False
        # Which of the caller's tokens `tokens` are; None: all of them.
        self.indexes: list[int] | None = None
        self.errors: list[tuple[int, ServiceBusError]] = []
        self.locked_until_ms = self.lock_remaining_ms = 0

    @property
    def plain(self) -> bool:
        """Whether it may share a frame with others of its disposition."""
        return self.changed_properties is None and self.reason is None and self.description is None

    def goes_with(self, other: "Settlement") -> bool:
        """Whether both may share a frame."""
        return (
            self.plain
            and other.plain
            and self.disposition == other.disposition
            and self.repeated == other.repeated
            and self.delay_ms == other.delay_ms
        )

    def __len__(self) -> int:
        return len(self.tokens) // _TOKEN_BYTES


class Outcome:
    """Which tokens were not settled, and until when renewed locks last."""

    __slots__ = ("errors", "lock_remaining_ms", "locked_until_ms")

    def __init__(
        self,
        errors: Sequence[tuple[int, ServiceBusError]],
        locked_until_ms: int,
        lock_remaining_ms: int = 0,
    ) -> None:
        self.errors = errors
        self.locked_until_ms = locked_until_ms
        # How long they last, from when the bus renewed them.
        self.lock_remaining_ms = lock_remaining_ms


class Settlements:
    """The settlements of one receiver."""

    def __init__(self, retry: RetryPolicy) -> None:
        self._retry = retry
        self._waiting: deque[Settlement] = deque()
        self._in_flight: dict[int, list[Settlement]] = {}
        # To be repeated, after a pause.
        self._resting: set[Settlement] = set()
        # Of the last frame.
        self.frame_id = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def has_waiting(self) -> bool:
        """Whether there is a frame to write."""
        return bool(self._waiting) and len(self._in_flight) < FRAMES_MAX

    @property
    def all_ended(self) -> bool:
        """Whether none has an outcome to come, also of those to be repeated after a pause."""
        return not (self._waiting or self._in_flight or self._resting)

    def add(self, settlement: Settlement) -> None:
        """Take a settlement; one that is larger than a frame goes in parts."""
        if len(settlement) <= FRAME_TOKENS_MAX:
            self._waiting.append(settlement)
        else:
            self._waiting.extend(_parts(settlement))

    def next_frame(self) -> receiver_pb2.SettleFrame:
        """Return the next frame: the first settlement, and what may go with it."""
        first = self._waiting.popleft()
        members, count = [first], len(first)
        if first.plain:
            others: deque[Settlement] = deque()
            while self._waiting and count + len(self._waiting[0]) <= FRAME_TOKENS_MAX:
                entry = self._waiting.popleft()
                if entry.goes_with(first):
                    members.append(entry)
                    count += len(entry)
                else:
                    others.append(entry)
            self._waiting.extendleft(reversed(others))
        self.frame_id += 1
        self._in_flight[self.frame_id] = members
        tokens = first.tokens if len(members) == 1 else b"".join(e.tokens for e in members)
        return receiver_pb2.SettleFrame(
            frame_id=self.frame_id,
            disposition=first.disposition,
            lock_tokens=tokens,
            changed_properties=first.changed_properties,
            dead_letter_reason=first.reason or "",
            dead_letter_error_description=first.description or "",
            repeat=first.repeated,
            delay_ms=first.delay_ms,
        )

    def answered(self, result: receiver_pb2.SettleResult) -> list[tuple[float, Settlement]]:
        """Resolve the waiters of a frame; return what rests: a pause, then `take_rested`."""
        members = self._in_flight.pop(result.frame_id, ())
        failures = {
            index: failure.error for failure in result.failures for index in failure.indexes
        }
        again: list[tuple[float, Settlement]] = []
        start = 0
        for settlement in members:
            count = len(settlement)
            settlement.locked_until_ms = result.locked_until_ms
            settlement.lock_remaining_ms = result.lock_remaining_ms
            pause = self._take_failures(settlement, failures, start) if failures else None
            start += count
            if pause is None:
                self._resolve(settlement)
            else:
                again.append((pause, settlement))
                self._resting.add(settlement)
        return again

    def take_rested(self, settlement: Settlement) -> bool:
        """Return whether to add it again; if not, it has failed during its pause."""
        if settlement not in self._resting:
            return False
        self._resting.discard(settlement)
        return True

    def stream_broke(self, error: BusError) -> None:
        """Queue what was in flight again, or fail it if the retry policy ends."""
        frames, self._in_flight = list(self._in_flight.values()), {}
        # Numbers count up within a stream; the next stream starts over.
        self.frame_id = 0
        for settlement in (entry for members in reversed(frames) for entry in reversed(members)):
            settlement.failures += counted(error)
            # A rejected stream is rejected before anything is read.
            if not isinstance(error, Unauthenticated | Unauthorized):
                # It may have been done: the bus remembers what this receiver settled.
                settlement.repeated = settlement.unknown = True
            if self._retry.allows(error, settlement.failures):
                self._waiting.appendleft(settlement)
            else:
                settlement.waiter.fail(_of_unknown_outcome(error))

    def refuse(self, error: BusError) -> None:
        """Fail what waits: it cannot be done any more; an earlier try of it may have done it."""
        while self._waiting:
            refuse(self._waiting.popleft(), error)

    def expire(self, now_s: float) -> None:
        """Fail what has timed out."""
        late = [entry for entry in self._waiting if entry.deadline_s <= now_s]
        self._waiting = deque(entry for entry in self._waiting if entry.deadline_s > now_s)
        for frame_id, members in list(self._in_flight.items()):
            if all(entry.deadline_s <= now_s for entry in members):
                late.extend(members)
                del self._in_flight[frame_id]
        timed_out = ServiceTimeout("The settlement timed out before it could be repeated.")
        self._refuse_resting(lambda entry: entry.deadline_s <= now_s, timed_out)
        self._fail(late)

    def fail_all(self) -> None:
        """Fail everything: the receiver is closed."""
        members = [entry for frame in self._in_flight.values() for entry in frame]
        self._fail([*self._waiting, *members])
        self._waiting.clear()
        self._in_flight.clear()
        closed = RetryableError("The receiver was closed before the settlement could be repeated.")
        self._refuse_resting(lambda _: True, closed)

    def _refuse_resting(self, ends: Callable[[Settlement], bool], error: BusError) -> None:
        for entry in [entry for entry in self._resting if ends(entry)]:
            self._resting.discard(entry)
            refuse(entry, error)

    def _fail(self, settlements: Iterable[Settlement]) -> None:
        for settlement in settlements:
            settlement.waiter.fail(
                OutcomeUnknownError(
                    message="No answer to a settlement came in time. The outcome is unknown.",
                    reason=OutcomeUnknown.reason,
                )
            )

    def _take_failures(
        self, settlement: Settlement, failures: dict[int, message_pb2.Error], start: int
    ) -> float | None:
        """Record final failures. Returns the pause before the others are tried again, if any."""
        again: list[int] = []
        pause = 0.0
        for offset in range(len(settlement)):
            failure = failures.get(start + offset)
            if failure is None:
                continue
            error = statuses.from_error(failure)
            index = offset if settlement.indexes is None else settlement.indexes[offset]
            # The bus remembers what this receiver settled: a repeat finds out.
            unknown = isinstance(error, OutcomeUnknown)
            settlement.unknown |= unknown
            unknown = unknown and settlement.failures < self._retry.total
            if unknown or self._retry.allows(error, settlement.failures + 1):
                again.append(offset)
                pause = max(pause, self._retry.pause_s(settlement.failures + 1, error))
            else:
                final = exceptions.from_bus_error
                # Renewing a lock is idempotent: the rejection of a repeat is final.
                if settlement.unknown and settlement.disposition != _RENEW_LOCK:
                    final = _of_unknown_outcome
                settlement.errors.append((index, final(error)))
        if not again:
            return None
        settlement.failures += 1
        settlement.repeated = True
        self._narrow(settlement, again)
        return pause

    def _narrow(self, settlement: Settlement, offsets: list[int]) -> None:
        tokens = settlement.tokens
        settlement.tokens = b"".join(
            tokens[offset * _TOKEN_BYTES : (offset + 1) * _TOKEN_BYTES] for offset in offsets
        )
        known = settlement.indexes
        settlement.indexes = offsets if known is None else [known[offset] for offset in offsets]

    def _resolve(self, settlement: Settlement) -> None:
        settlement.waiter.resolve(
            Outcome(settlement.errors, settlement.locked_until_ms, settlement.lock_remaining_ms)
        )


def refuse(settlement: Settlement, error: BusError) -> None:
    """Fail a settlement that cannot be done any more; an earlier try of it may have done it."""
    final = _of_unknown_outcome if settlement.unknown else exceptions.from_bus_error
    settlement.waiter.fail(final(error))


def _of_unknown_outcome(error: BusError) -> ServiceBusError:
    # A settled message has no lock: for a bus that forgot the settlement, its lock is lost. And a
    # session whose lock is lost is forgotten with what was settled in it.
    if not isinstance(error, RetryableError | MessageLockLost | SessionLockLost):
        return exceptions.from_bus_error(error)
    return exceptions.from_bus_error(
        OutcomeUnknown(
            f"{error.message} The outcome of the settlement is unknown.", metadata=error.metadata
        )
    )


class _Joint:
    """Waits for the parts of a settlement that is larger than a frame."""

    def __init__(self, settlement: Settlement, parts: int) -> None:
        self._whole = settlement
        self._left = parts
        self._errors: list[tuple[int, ServiceBusError]] = []

    def resolve(self, value: Outcome) -> None:
        """Handle the outcome of a part."""
        self._errors += value.errors
        self._left -= 1
        if not self._left:
            errors = sorted(self._errors, key=lambda entry: entry[0])
            self._whole.waiter.resolve(
                Outcome(errors, value.locked_until_ms, value.lock_remaining_ms)
            )

    def fail(self, error: BaseException) -> None:
        """Fail the whole; later outcomes are ignored."""
        if self._left > 0:
            self._left = -1
            self._whole.waiter.fail(error)


def _parts(whole: Settlement) -> list[Settlement]:
    starts = range(0, len(whole), FRAME_TOKENS_MAX)
    joint = _Joint(whole, len(starts))
    parts: list[Settlement] = []
    for start in starts:
        tokens = whole.tokens[start * _TOKEN_BYTES : (start + FRAME_TOKENS_MAX) * _TOKEN_BYTES]
        part = Settlement(
            whole.disposition,
            tokens,
            joint,
            whole.timeout_s,
            changed_properties=whole.changed_properties,
            reason=whole.reason,
            description=whole.description,
            delay_ms=whole.delay_ms,
        )
        part.deadline_s = whole.deadline_s
        part.indexes = list(range(start, start + len(part)))
        parts.append(part)
    return parts


class NoWaiter:
    """Takes an outcome that no caller waits for: locks end by themselves."""

    def resolve(self, value: object) -> None:
        """Do nothing."""

    def fail(self, error: BaseException) -> None:
        """Do nothing."""


# What a settlement in the background has to say when it begins.
BEGUN: Final = Outcome((), 0)

Messages = Sequence[ServiceBusReceivedMessage]
Failure = tuple[ServiceBusReceivedMessage, ServiceBusError]
# Those that are kept, and how many there were.
Failures = tuple[list[Failure], int]


class BackgroundSettlements:
    """Settlements of one receiver. From any thread, of the process of `io` only."""

    def __init__(self, io: IoThread) -> None:
        self.io = io
        self._lock = threading.Lock()
        self._pending = 0
        self._failures: list[Failure] = []
        self._failed = 0
        # (how many may be pending, who waits for that)
        self._waiting: list[tuple[int, Waiter[None]]] = []

    @property
    def full(self) -> bool:
        """Whether a caller is to wait."""
        return self._pending >= PENDING_MAX

    def add(self, messages: Messages) -> None:
        """Count messages whose settlement begins; its waiter is a `Pending`."""
        with self._lock:
            self._pending += len(messages)

    def wait(self, pending_max: int, waiter: Waiter[None]) -> None:
        """Resolve `waiter` as soon as no more than `pending_max` are pending."""
        with self._lock:
            if self._pending > pending_max:
                self._waiting.append((pending_max, waiter))
                return
        waiter.resolve(None)

    def take_failures(self) -> Failures:
        """Return the failures since the last time, and how many there were."""
        with self._lock:
            taken = self._failures, self._failed
            self._failures, self._failed = [], 0
        return taken

    def done(self, messages: Messages, errors: Sequence[tuple[int, ServiceBusError]]) -> None:
        """Note an outcome."""
        ready: list[Waiter[None]] = []
        with self._lock:
            self._pending -= len(messages)
            for index, error in errors:
                self._failed += 1
                if len(self._failures) < FAILURES_KEPT_MAX:
                    self._failures.append((messages[index], error))
            if self._waiting:
                ready = [waiter for most, waiter in self._waiting if self._pending <= most]
                self._waiting = [each for each in self._waiting if self._pending > each[0]]
        for waiter in ready:
            waiter.resolve(None)


class Pending:
    """The waiter of a settlement in the background."""

    __slots__ = ("_messages", "_of")

    def __init__(self, of: BackgroundSettlements, messages: Messages) -> None:
        self._of = of
        self._messages = messages

    def resolve(self, value: Outcome) -> None:
        """Take the outcome."""
        self._of.done(self._messages, value.errors)

    def fail(self, error: BaseException) -> None:
        """Take the failure of all of them."""
        found = error if isinstance(error, ServiceBusError) else ServiceBusError(str(error))
        self._of.done(self._messages, [(index, found) for index in range(len(self._messages))])


def raise_failures(failures: Sequence[Failure], failed: int) -> None:
    """Raise an error that lists the messages that were not settled, if there are any."""
    if failed:
        first = failures[0][1]
        raise type(first)(
            message=f"{failed} messages were not settled in the background; the first: {first}",
            reason=first.reason,
            metadata=first.metadata,
            failures=list(failures),
        )
