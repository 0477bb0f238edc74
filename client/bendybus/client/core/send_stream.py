"""The send stream of a connection: units of all senders, coalesced into frames.

    send_messages ─► Unit ─► waiting[(entity, timeout)] ─► Frame ─► in flight ─► outcome per unit
                                   ▲   failed unit, retryable ────────┤
                                   └─ new frame_id                    │
                      repeats: the same frame_id  ◄───────────────────┘ stream broke, frame refused,
                                                                        unit of unknown outcome

A unit is sent at once when the stream is idle; units that arrive while frames are in flight share
the next one. A unit that may be stored is repeated under its name (producer, frame, position in the
frame's first try) until the bus reports its outcome, or it times out: then its outcome is reported
as unknown. Only what is known not to be stored goes into a new frame.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from bendybus.client import exceptions
from bendybus.client.core import send_queue
from bendybus.client.core.retry_policy import Moved, RetryPolicy, counted
from bendybus.client.core.round_robin import RoundRobin
from bendybus.client.core.send_queue import Frame, PossibleDuplicates, SendLimit, SendQueue, Unit
from bendybus.client.core.stream import Call, Stream
from bendybus.domain import errors
from bendybus.domain.errors import BusError
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
# A timer that fires this late: the thread was suspended, and responses may wait to be read.
_LATE_S: Final = 0.2
_READ_S: Final = 0.25
# While there is time left, a repeat of something that may be stored waits no longer than this.
_REPEAT_PAUSE_S_MAX: Final = 2.0


class SendStream:
    """All sends of a connection. On the I/O thread only."""

    def __init__(
        self,
        open_call: Callable[[], Awaitable[Call]],
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
        self._waiting = SendQueue()
        self._repeats: deque[Frame] = deque()
        self._resting: set[Frame] = set()
        # Known not to be stored; sent again after a pause.
        self._paused: set[Unit] = set()
        self._in_flight: dict[int, Frame] = {}
        self._bytes_in_flight = 0
        self._round_robin = RoundRobin()
        self.possible_duplicates = PossibleDuplicates()
        self._hold: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, unit: Unit) -> None:
        """Accept a unit; its waiter gets the sequence numbers (if wanted) or the error."""
        if self._closed:
            self._finish(unit, error=send_queue.closed())
            return
        if not unit.deadline_s:
            unit.deadline_s = self._loop.time() + unit.timeout_s
        self._waiting.add(unit)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)
        self.stream.wake()

    async def close(self) -> None:
        """Close the stream; sends in progress fail."""
        self._closed = True
        await self.stream.close()
        frames = [*self._in_flight.values(), *self._repeats, *self._resting]
        for frame in frames:
            self._give_up(frame, send_queue.closed())
        for unit in [*self._waiting.remove_if(lambda _: True), *self._paused]:
            self._finish(unit, error=send_queue.closed())
        for timer in (self._hold, self._sweeper):
            if timer is not None:
                timer.cancel()

    async def open_call(self) -> Call:
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
            if built is not None and send_queue.fits(built, self.stream.request_bytes_max):
                return built
            if built is not None:
                self._give_up(built, send_queue.too_large(built))
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
        frame.stop_timer()
        failures = {failure.group: failure.error for failure in response.failures}
        if response.possible_duplicates:
            twice = [frame.units[i] for i in response.possible_duplicates]
            self.possible_duplicates.add(twice, self._loop.time())
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
        """Repeat frames in flight, or fail them if the retry policy ends."""
        frames = list(self._in_flight.values())
        self._in_flight.clear()
        self._bytes_in_flight = 0
        # An unauthorized stream is rejected before anything it wrote is read; an accepted stream
        # ends with OK once its token has expired (frontend: call_gate).
        not_read = isinstance(error, errors.Unauthenticated | errors.Unauthorized)
        ended_well = isinstance(error, Moved) and error.answered
        for frame in frames:
            frame.failures += counted(error)
            if (ended_well or not_read) and not frame.unknown:
                # Everything that the bus had read was answered: this was not read.
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
        """Count a failure to connect for everything that waits to be sent."""

        def is_final(unit: Unit) -> bool:
            unit.failures += 1
            return not self._retry.allows(error, unit.failures)

        for unit in self._waiting.remove_if(is_final):
            self._finish(unit, error=exceptions.from_bus_error(error))
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
        """Build a frame of waiting units; None when all of them were cancelled meanwhile."""
        units, cancelled = self._waiting.take(FRAME_MESSAGES_MAX, FRAME_BYTES_MAX)
        for unit in cancelled:
            # Its caller was told, or knows, that it is not sent.
            self._leave(unit)
        if not units:
            return None
        self._frame_id += 1
        frame = Frame(self._frame_id, units, self._producer_id)
        assigned = self._round_robin.assign(units[0].entity_path, units, self._loop.time())
        frame.request.lane, frame.request.run = assigned
        return frame

    def _should_hold(self, now: float) -> bool:
        waiting = self._waiting.first_row()
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
        """Repeat units that may be stored, under the name that partitions know."""
        again = Frame(frame.frame_id, units, self._producer_id, again=True)
        again.request.lane, again.request.run = frame.request.lane, frame.request.run
        again.failures = frame.failures
        again.first_sent_s = frame.first_sent_s
        self._arm(again, min(unit.deadline_s for unit in units))
        self._resting.add(again)
        pauses = [self._repeat_pause_s(unit) or 0.0 for unit in units]
        self._loop.call_later(min(pauses), self._repeat, again)

    def _unit_failed(self, unit: Unit, error: BusError) -> None:
        """Retry a unit that is known not to be stored, or fail it."""
        unit.failures += 1
        pause: float | None = self._retry.pause_s(unit.failures, error)
        away = isinstance(error, errors.PartitionUnavailable) and unit.given
        if away and self._retry.total > 0:
            pause = self._repeat_pause_s(unit)
        elif not self._retry.allows(error, unit.failures):
            pause = None
        if isinstance(error, errors.DiskLow):
            # Known for certain, and people have to act.
            pause = None
        if pause is None or self._loop.time() + pause >= unit.deadline_s:
            self._finish(unit, error=exceptions.from_bus_error(error))
        else:
            # Nothing of it was stored: it may go into a frame of another number.
            self._paused.add(unit)
            self._loop.call_later(pause, self._send_again, unit)

    def _send_again(self, unit: Unit) -> None:
        self._paused.discard(unit)
        if not unit.done:
            self.send(unit)

    def _arm(self, frame: Frame, deadline_s: float) -> None:
        at = deadline_s + _GRACE_S
        frame.timer = self._loop.call_at(at, self._expire, frame, at)

    def _expire(self, frame: Frame, due_s: float) -> None:
        now = self._loop.time()
        if now - due_s > _LATE_S and not frame.waited:
            # This thread was suspended: the responses that have arrived are read first.
            frame.waited = True
            frame.timer = self._loop.call_at(now + _READ_S, self._expire, frame, now + _READ_S)
            return
        sent = frame.unknown or frame.frame_id in self._in_flight
        for unit in frame.units:
            if not unit.done and unit.deadline_s + _GRACE_S <= now:
                self._finish(unit, error=send_queue.timed_out(unit, sent=sent))
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
        for unit in self._waiting.remove_if(lambda unit: unit.deadline_s + _GRACE_S <= now):
            self._finish(unit, error=send_queue.timed_out(unit, sent=False))
        if self._waiting:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def _give_up(self, frame: Frame, error: BusError | exceptions.ServiceBusError) -> None:
        frame.stop_timer()
        if isinstance(error, BusError):
            if frame.unknown:
                error = send_queue.of_unknown_outcome(error)
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
