"""The send stream of a connection: units of all senders, coalesced into frames.

    send_messages ─► Unit ─► waiting[(entity, timeout)] ─► Frame ─► in flight ─► outcome per unit
                                   ▲   failed unit, retryable ────────┤
                                   └─ new frame_id                    │
                      repeats: the same frame_id  ◄───────────────────┘ stream broke, frame refused,
                                                                        unit of unknown outcome

A unit goes out at once when the stream is free; what comes while frames are under way shares the
next one. A unit that may be stored is repeated under its name (producer, frame, position in the
frame's first try) until the bus says what became of it, or its time is over: then its outcome is
reported as unknown. Only what is known not to be stored goes into a new frame.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from bendybus.client import exceptions
from bendybus.client.core.io_thread import Caller
from bendybus.client.core.retry_policy import Moved, RetryPolicy, counted
from bendybus.client.core.round_robin import RoundRobin
from bendybus.client.core.send_limit import SendLimit
from bendybus.client.core.stream import Stream
from bendybus.client.exceptions import OperationTimeoutError
from bendybus.client.messages import encode
from bendybus.client.messages.encode import Columns
from bendybus.domain import errors
from bendybus.domain.errors import BusError, ServiceTimeout
from bendybus.v1 import sender_pb2
from bendybus.wire import statuses

FRAMES_IN_FLIGHT_MAX: Final = 8
FRAME_MESSAGES_MAX: Final = 1_000
FRAME_BYTES_MAX: Final = 1_000_000
# Of frames in flight together; one frame may always go.
BYTES_IN_FLIGHT_MAX: Final = 32 * 1024 * 1024
# A frame with less waits for an answer while others are young and under way: it will grow.
_SMALL_FRAME_MESSAGES: Final = 100
_YOUNG_FRAMES_MAX: Final = 2
_YOUNG_S: Final = 0.005
# The bus answers at the end of the time; this is how long its answer may take to get here.
_GRACE_S: Final = 0.5
_SWEEP_S: Final = 0.25
# A timer that is later than this: the thread was held up, and answers may wait to be read.
_LATE_S: Final = 0.2
_READ_S: Final = 0.25
# While there is time left, a repeat of something that may be stored waits no longer than this.
_REPEAT_PAUSE_S_MAX: Final = 2.0
# Message ids that are kept of sends that may be stored twice.
POSSIBLE_DUPLICATES_MAX: Final = 10_000

# One line about possible duplicates in this time.
_SAY_S: Final = 10.0

_log = logging.getLogger("bendybus.client")


class Unit:
    """What one call sends: stored as a whole or not at all."""

    __slots__ = (
        "columns",
        "deadline_s",
        "done",
        "entity_path",
        "failures",
        "given",
        "numbers",
        "position",
        "split",
        "timeout_s",
        "waiter",
    )

    def __init__(
        self,
        entity_path: str,
        columns: Columns,
        waiter: Caller,
        timeout_s: float,
        *,
        numbers: bool = False,
        split: bool = False,
        given: bool = False,
    ) -> None:
        self.entity_path = entity_path
        self.columns = columns
        self.waiter = waiter
        self.timeout_s = timeout_s
        # Whether the caller wants the sequence numbers.
        self.numbers = numbers
        self.split = split
        # Whether the caller chose the time: then all of it is used while a partition is away.
        self.given = given
        # Where it began in the frame that it was first sent in, in messages.
        self.position = 0
        self.done = False
        self.deadline_s = 0.0
        self.failures = 0


class Frame:
    """Units that travel together, and the request that is repeated if need be."""

    __slots__ = (
        "failures",
        "first_sent_s",
        "frame_id",
        "request",
        "sent_s",
        "size_bytes",
        "timer",
        "units",
        "unknown",
        "waited",
    )

    def __init__(
        self, frame_id: int, units: list[Unit], producer_id: bytes, *, again: bool = False
    ) -> None:
        self.frame_id = frame_id
        self.units = units
        self.failures = 0
        self.first_sent_s = self.sent_s = 0.0
        self.timer: asyncio.TimerHandle | None = None
        # Whether it may be stored: it was sent, and no answer to that try came.
        self.unknown = again
        # Whether its timer was put off, for answers to be read.
        self.waited = False
        self.size_bytes = sum(unit.columns.size_bytes for unit in units)
        self.request = sender_pb2.SendStreamRequest(
            frame_id=frame_id,
            producer_id=producer_id,
            entity_path=units[0].entity_path,
            split_by_partition_key=units[0].split,
        )
        # Given to the constructor it would be serialised and parsed.
        self.request.batch.CopyFrom(encode.batch_proto([unit.columns for unit in units]))
        if len(units) > 1:
            self.request.group_sizes.extend(len(unit.columns.messages) for unit in units)
        if again:
            self.request.positions.extend(unit.position for unit in units)

    def open_units(self) -> list[Unit]:
        """Return the units without an outcome."""
        return [unit for unit in self.units if not unit.done]


_Key = tuple[str, float, bool]


class SendStream:
    """All sends of a connection. On the I/O thread only."""

    def __init__(
        self,
        open_call: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        retry: RetryPolicy,
        send_limit: SendLimit,
        explain: Callable[[BusError], BusError] = lambda error: error,
    ) -> None:
        self._open_call = open_call
        self._loop = loop
        self._retry = retry
        self._send_limit = send_limit
        self.stream = Stream(self, retry, explain)
        self._producer_id = os.urandom(16)
        self._frame_id = 0
        self._waiting: dict[_Key, deque[Unit]] = {}
        self._repeats: deque[Frame] = deque()
        self._resting: set[Frame] = set()
        self._in_flight: dict[int, Frame] = {}
        self._bytes_in_flight = 0
        self._round_robin = RoundRobin()
        # (entity, message id) of sends that are stored, and maybe twice.
        self.possible_duplicates: deque[tuple[str, str]] = deque(maxlen=POSSIBLE_DUPLICATES_MAX)
        self._duplicates_unsaid = 0
        self._say_duplicates_s = 0.0
        self._hold: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, unit: Unit) -> None:
        """Take a unit; its waiter gets the sequence numbers (if wanted) or the error."""
        if self._closed:
            self._finish(unit, error=_closed_error())
            return
        if not unit.deadline_s:
            unit.deadline_s = self._loop.time() + unit.timeout_s
        key = (unit.entity_path, unit.timeout_s, unit.split)
        found = self._waiting.get(key)
        if found is None:
            found = self._waiting[key] = deque()
        found.append(unit)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)
        self.stream.wake()

    async def close(self) -> None:
        """End the stream; what is still under way fails."""
        self._closed = True
        await self.stream.close()
        frames = [*self._in_flight.values(), *self._repeats, *self._resting]
        for frame in frames:
            self._give_up(frame, _closed_error())
        for units in self._waiting.values():
            for unit in units:
                self._finish(unit, error=_closed_error())
        self._waiting.clear()
        for timer in (self._hold, self._sweeper):
            if timer is not None:
                timer.cancel()

    async def open_call(self) -> Any:
        """Open the stream."""
        return await self._open_call()

    def has_work(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._waiting or self._repeats)

    def next_request(self) -> sender_pb2.SendStreamRequest | None:
        """Return the next frame to write: repeats first, then a new one if one may go."""
        now = self._loop.time()
        frame = self._next_frame(now)
        if frame is None:
            return None
        self._in_flight[frame.frame_id] = frame
        self._bytes_in_flight += frame.size_bytes
        frame.sent_s = now
        if not frame.first_sent_s:
            frame.first_sent_s = now
        else:
            frame.request.age_ms = max(1, round((now - frame.first_sent_s) * 1_000))
        deadlines = [unit.deadline_s for unit in frame.units if not unit.done]
        # The bus tries for as long as one of the units has time; each is given up at its own.
        frame.request.timeout_ms = max(1, round((max(deadlines) - now) * 1_000))
        if frame.timer is None:
            self._arm(frame, min(deadlines))
        return frame.request

    def _next_frame(self, now: float) -> Frame | None:
        while self._repeats:
            frame = self._repeats.popleft()
            if any(not unit.done for unit in frame.units):
                return frame
        while self._waiting:
            full = self._in_flight and self._bytes_in_flight >= BYTES_IN_FLIGHT_MAX
            if full or len(self._in_flight) >= FRAMES_IN_FLIGHT_MAX or self._should_hold(now):
                return None
            built = self._build()
            if built is not None:
                return built
        return None

    def _landed(self, frame_id: int) -> Frame | None:
        """Return a frame that is no longer in flight."""
        frame = self._in_flight.pop(frame_id, None)
        if frame is not None:
            self._bytes_in_flight -= frame.size_bytes
        return frame

    def handle(self, response: sender_pb2.SendStreamResponse) -> None:
        """Give each unit of a frame its outcome."""
        frame = self._landed(response.frame_id)
        if frame is None:
            return  # answered too late
        if self._waiting:
            self.stream.wake()
        if response.HasField("error"):
            self._refused(frame, statuses.from_error(response.error))
            return
        _cancel(frame)
        failures = {failure.group: failure.error for failure in response.failures}
        if response.possible_duplicates:
            self._note_duplicates([frame.units[i] for i in response.possible_duplicates])
        unknown: list[Unit] = []
        start = 0
        for index, unit in enumerate(frame.units):
            stop = start + len(unit.columns.messages)
            if unit.done:
                pass
            elif index in failures:
                error = statuses.from_error(failures[index])
                if not isinstance(error, errors.OutcomeUnknown):
                    self._unit_failed(unit, error)
                elif self._may_repeat(unit):
                    unknown.append(unit)
                else:
                    self._finish(unit, error=exceptions.from_bus_error(error))
            else:
                numbers = list(response.sequence_numbers[start:stop]) if unit.numbers else None
                self._finish(unit, numbers)
            start = stop
        if unknown:
            self._repeat_unknown(frame, unknown)

    def broken(self, error: BusError) -> None:
        """Repeat what was in flight, or give it up when the policy says so."""
        frames = list(self._in_flight.values())
        self._in_flight.clear()
        self._bytes_in_flight = 0
        # A caller that is turned away is turned away before anything it wrote is read; a stream
        # that was let in ends with OK once its token is no longer good (frontend: call_gate).
        not_read = isinstance(error, errors.Unauthenticated | errors.Unauthorized)
        ended_well = isinstance(error, Moved) and error.answered
        for frame in frames:
            frame.failures += counted(error)
            if (ended_well or not_read) and not frame.unknown:
                # Everything that the bus had taken was answered: this was not.
                frame.first_sent_s, frame.request.age_ms = 0.0, 0
            else:
                frame.unknown = True
            if self._may_go_on(frame, error):
                self._repeats.append(frame)
            else:
                self._give_up(frame, error)
        if not frames and counted(error):
            # No stream was opened, so nothing was written.
            self._not_connected(error)

    def _not_connected(self, error: BusError) -> None:
        """Count a failure to connect for everything that waits for a stream."""
        for key, waiting in list(self._waiting.items()):
            kept: deque[Unit] = deque()
            for unit in waiting:
                unit.failures += 1
                if self._retry.allows(error, unit.failures):
                    kept.append(unit)
                else:
                    self._finish(unit, error=exceptions.from_bus_error(error))
            if kept:
                self._waiting[key] = kept
            else:
                del self._waiting[key]
        frames = list(self._repeats)
        self._repeats.clear()
        for frame in frames:
            frame.failures += 1
            if self._may_go_on(frame, error):
                self._repeats.append(frame)
            else:
                self._give_up(frame, error)

    def _may_go_on(self, frame: Frame, error: BusError) -> bool:
        """Whether a frame is sent again under its name."""
        if frame.unknown:
            # As long as there is time: only an answer tells what became of it.
            return error.retryable and self._retry.total > 0
        return self._retry.allows(error, frame.failures)

    def _build(self) -> Frame | None:
        """Make a frame of what waits; None when all of that was cancelled meanwhile."""
        key, waiting = next(iter(self._waiting.items()))
        units: list[Unit] = []
        count = size = 0
        while waiting:
            unit = waiting[0]
            if unit.waiter.abandoned:
                # Its caller was told, or knows, that it is not sent.
                self._leave(waiting.popleft())
                continue
            columns = unit.columns
            added = len(columns.messages)
            size += columns.size_bytes
            if units and (count + added > FRAME_MESSAGES_MAX or size > FRAME_BYTES_MAX):
                break
            unit.position = count
            count += added
            units.append(waiting.popleft())
        # To the end of the row: entities take turns.
        del self._waiting[key]
        if waiting:
            self._waiting[key] = waiting
        if not units:
            return None
        self._frame_id += 1
        frame = Frame(self._frame_id, units, self._producer_id)
        assigned = self._round_robin.assign(units[0].entity_path, units, self._loop.time())
        frame.request.lane, frame.request.run = assigned
        return frame

    def _should_hold(self, now: float) -> bool:
        waiting = next(iter(self._waiting.values()))
        if len(self._in_flight) < _YOUNG_FRAMES_MAX or len(waiting) >= _SMALL_FRAME_MESSAGES:
            return False
        if len(waiting[0].columns.messages) >= _SMALL_FRAME_MESSAGES:
            return False
        young = [frame for frame in self._in_flight.values() if now - frame.sent_s < _YOUNG_S]
        if len(young) < _YOUNG_FRAMES_MAX:
            return False
        if self._hold is None:
            self._hold = self._loop.call_later(_YOUNG_S, self._let_go)
        return True

    def _let_go(self) -> None:
        self._hold = None
        self.stream.wake()

    def _refused(self, frame: Frame, error: BusError) -> None:
        frame.failures += 1
        if not self._may_go_on(frame, error):
            self._give_up(frame, error)
            return
        if not frame.unknown:
            frame.first_sent_s, frame.request.age_ms = 0.0, 0
        # Not in flight meanwhile: others go on.
        self._resting.add(frame)
        pause = self._retry.pause_s(frame.failures, error)
        if frame.unknown:
            pause = min(pause, _REPEAT_PAUSE_S_MAX)
        self._loop.call_later(pause, self._repeat, frame)

    def _repeat(self, frame: Frame) -> None:
        if frame in self._resting:
            self._resting.discard(frame)
            self._repeats.append(frame)
            self.stream.wake()

    def _may_repeat(self, unit: Unit) -> bool:
        """Whether a unit that may be stored is sent again: as long as there is time."""
        unit.failures += 1
        return self._retry.total > 0 and self._repeat_pause_s(unit) is not None

    def _repeat_pause_s(self, unit: Unit) -> float | None:
        """Return how long to wait; less towards the end of the time, None when it is over."""
        left = unit.deadline_s - self._loop.time()
        pause = min(self._retry.pause_s(unit.failures), _REPEAT_PAUSE_S_MAX)
        if pause < left:
            return pause
        return left / 2 if left > _READ_S else None

    def _repeat_unknown(self, frame: Frame, units: list[Unit]) -> None:
        """Send units that may be stored already again, by the name that partitions know."""
        again = Frame(frame.frame_id, units, self._producer_id, again=True)
        again.request.lane, again.request.run = frame.request.lane, frame.request.run
        again.failures = frame.failures
        again.first_sent_s = frame.first_sent_s
        self._arm(again, min(unit.deadline_s for unit in units))
        self._resting.add(again)
        pauses = [self._repeat_pause_s(unit) or 0.0 for unit in units]
        self._loop.call_later(min(pauses), self._repeat, again)

    def _unit_failed(self, unit: Unit, error: BusError) -> None:
        """Send a unit again that is known not to be stored, or tell its caller."""
        unit.failures += 1
        pause: float | None = self._retry.pause_s(unit.failures, error)
        away = isinstance(error, errors.PartitionUnavailable) and unit.given
        if away and self._retry.total > 0:
            pause = self._repeat_pause_s(unit)
        elif not self._retry.allows(error, unit.failures):
            pause = None
        if pause is None or self._loop.time() + pause >= unit.deadline_s:
            self._finish(unit, error=exceptions.from_bus_error(error))
        else:
            # Nothing of it was stored: it may go into a frame of another number.
            self._loop.call_later(pause, self.send, unit)

    def _note_duplicates(self, units: Sequence[Unit]) -> None:
        for unit in units:
            ids = unit.columns.message_ids
            self.possible_duplicates.extend((unit.entity_path, each) for each in ids)
            self._duplicates_unsaid += len(ids)
        now = self._loop.time()
        if now >= self._say_duplicates_s:
            self._say_duplicates_s = now + _SAY_S
            _log.warning(
                "sender of %s: possible duplicates: %d since the last line; a partition that may "
                "have stored them did not come back in time, and another one stored them",
                units[0].entity_path,
                self._duplicates_unsaid,
                extra={"entity": units[0].entity_path, "action": "possible-duplicates"},
            )
            self._duplicates_unsaid = 0

    def _arm(self, frame: Frame, deadline_s: float) -> None:
        at = deadline_s + _GRACE_S
        frame.timer = self._loop.call_at(at, self._expire, frame, at)

    def _expire(self, frame: Frame, due_s: float) -> None:
        now = self._loop.time()
        if now - due_s > _LATE_S and not frame.waited:
            # This thread was held up: the answers that have arrived are read first.
            frame.waited = True
            frame.timer = self._loop.call_at(now + _READ_S, self._expire, frame, now + _READ_S)
            return
        sent = frame.unknown or frame.frame_id in self._in_flight
        for unit in frame.units:
            if not unit.done and unit.deadline_s + _GRACE_S <= now:
                self._finish(unit, error=_timed_out(unit, sent=sent))
        left = frame.open_units()
        if left:
            self._arm(frame, min(unit.deadline_s for unit in left))
            return
        frame.timer = None
        if self._in_flight.get(frame.frame_id) is frame:
            self._landed(frame.frame_id)
        self._resting.discard(frame)
        if frame in self._repeats:
            self._repeats.remove(frame)
        self.stream.wake()

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        for key, waiting in list(self._waiting.items()):
            late = [unit for unit in waiting if unit.deadline_s + _GRACE_S <= now]
            if late:
                kept = deque(unit for unit in waiting if unit.deadline_s + _GRACE_S > now)
                self._waiting[key] = kept
                if not kept:
                    del self._waiting[key]
            for unit in late:
                self._finish(unit, error=_timed_out(unit, sent=False))
        if self._waiting:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def _give_up(self, frame: Frame, error: BusError | exceptions.ServiceBusError) -> None:
        _cancel(frame)
        if isinstance(error, BusError):
            if frame.unknown:
                error = _of_unknown_outcome(error)
            error = exceptions.from_bus_error(error)
        for unit in frame.units:
            if not unit.done:
                self._finish(unit, error=error)

    def _finish(
        self, unit: Unit, numbers: list[int] | None = None, *, error: Exception | None = None
    ) -> None:
        self._leave(unit)
        if error is None:
            unit.waiter.resolve(numbers)
        else:
            unit.waiter.fail(error)

    def _leave(self, unit: Unit) -> None:
        unit.done = True
        self._send_limit.release(len(unit.columns.messages), unit.columns.size_bytes)


def _cancel(frame: Frame) -> None:
    if frame.timer is not None:
        frame.timer.cancel()
        frame.timer = None


def _of_unknown_outcome(error: BusError) -> BusError:
    return errors.OutcomeUnknown(
        f"{error.message} The outcome of the send is unknown.",
        metadata={**error.metadata, "cause": error.reason},
    )


def _timed_out(unit: Unit, *, sent: bool = True) -> OperationTimeoutError:
    outcome = "The outcome is unknown." if sent else "Nothing was sent."
    kind = exceptions.OutcomeUnknownError if sent else OperationTimeoutError
    return kind(
        message=f"{unit.entity_path}: no answer to a send in {unit.timeout_s:g} s. {outcome}",
        reason=(errors.OutcomeUnknown if sent else ServiceTimeout).reason,
        metadata={"entity": unit.entity_path},
    )


def _closed_error() -> exceptions.ServiceBusConnectionError:
    return exceptions.ServiceBusConnectionError(
        message="The client was closed before the outcome of the send was known.",
        retryable=False,
    )
