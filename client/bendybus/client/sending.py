"""The send stream of a connection: units of all senders, coalesced into frames.

    send_messages ─► Unit ─► waiting[(entity, timeout)] ─► Frame ─► in flight ─► outcome per unit
                                   ▲   failed unit, retryable ────────┤
                                   └─ new frame_id                    │
                      repeats: the same frame_id  ◄───────────────────┘ stream broke, frame refused,
                                                                        unit of unknown outcome

A unit goes out at once when the stream is free; what comes while frames are under way shares the
next one. A frame is repeated exactly, so that the bus can tell it from a new one.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from bendybus.client import exceptions, outgoing
from bendybus.client.admission import Admission
from bendybus.client.exceptions import OperationTimeoutError
from bendybus.client.io_thread import Waiter
from bendybus.client.outgoing import Columns
from bendybus.client.retrying import RetryPolicy, counted
from bendybus.client.stream import Stream
from bendybus.domain.errors import BusError, ServiceTimeout
from bendybus.v1 import sender_pb2
from bendybus.wire import statuses

FRAMES_IN_FLIGHT_MAX: Final = 8
FRAME_MESSAGES_MAX: Final = 1_000
FRAME_BYTES_MAX: Final = 1_000_000
# A frame with less waits for an answer while others are young and under way: it will grow.
_SMALL_FRAME_MESSAGES: Final = 100
_YOUNG_FRAMES_MAX: Final = 2
_YOUNG_S: Final = 0.005
# The bus answers at the end of the time; this is how long its answer may take to get here.
_GRACE_S: Final = 0.5
_SWEEP_S: Final = 0.25


class Unit:
    """What one call sends: stored as a whole or not at all."""

    __slots__ = (
        "columns",
        "deadline_s",
        "entity_path",
        "failures",
        "numbers",
        "split",
        "timeout_s",
        "waiter",
    )

    def __init__(
        self,
        entity_path: str,
        columns: Columns,
        waiter: Waiter,
        timeout_s: float,
        *,
        numbers: bool = False,
        split: bool = False,
    ) -> None:
        self.entity_path = entity_path
        self.columns = columns
        self.waiter = waiter
        self.timeout_s = timeout_s
        # Whether the caller wants the sequence numbers.
        self.numbers = numbers
        self.split = split
        self.deadline_s = 0.0
        self.failures = 0


class Frame:
    """Units that travel together, and the request that is repeated if need be."""

    __slots__ = ("failures", "first_sent_s", "frame_id", "request", "sent_s", "timer", "units")

    def __init__(self, frame_id: int, units: list[Unit], producer_id: bytes) -> None:
        self.frame_id = frame_id
        self.units = units
        self.failures = 0
        self.first_sent_s = self.sent_s = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.request = sender_pb2.SendStreamRequest(
            frame_id=frame_id,
            producer_id=producer_id,
            entity_path=units[0].entity_path,
            batch=outgoing.batch_proto([unit.columns for unit in units]),
            split_by_partition_key=units[0].split,
        )
        if len(units) > 1:
            self.request.group_sizes.extend(len(unit.columns.messages) for unit in units)


_Key = tuple[str, float, bool]


class Sending:
    """All sends of a connection. On the I/O thread only."""

    def __init__(
        self,
        open_call: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        retry: RetryPolicy,
        admission: Admission,
        explain: Callable[[BusError], BusError] = lambda error: error,
    ) -> None:
        self._open_call = open_call
        self._loop = loop
        self._retry = retry
        self._admission = admission
        self.stream = Stream(self, retry, explain)
        self._producer_id = os.urandom(16)
        self._frame_id = 0
        self._waiting: dict[_Key, deque[Unit]] = {}
        self._repeats: deque[Frame] = deque()
        self._resting: set[Frame] = set()
        self._in_flight: dict[int, Frame] = {}
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
        if self._repeats:
            frame = self._repeats.popleft()
        elif (
            not self._waiting
            or len(self._in_flight) >= FRAMES_IN_FLIGHT_MAX
            or self._should_hold(now)
        ):
            return None
        else:
            frame = self._build()
        self._in_flight[frame.frame_id] = frame
        frame.sent_s = now
        if not frame.first_sent_s:
            frame.first_sent_s = now
        else:
            frame.request.age_ms = max(1, round((now - frame.first_sent_s) * 1_000))
        deadline = min(unit.deadline_s for unit in frame.units)
        frame.request.timeout_ms = max(1, round((deadline - now) * 1_000))
        if frame.timer is None:
            frame.timer = self._loop.call_at(deadline + _GRACE_S, self._expire, frame)
        return frame.request

    def handle(self, response: sender_pb2.SendStreamResponse) -> None:
        """Give each unit of a frame its outcome."""
        frame = self._in_flight.pop(response.frame_id, None)
        if frame is None:
            return  # answered too late
        if self._waiting:
            self.stream.wake()
        if response.HasField("error"):
            self._refused(frame, statuses.from_error(response.error))
            return
        _cancel(frame)
        failures = {failure.group: failure.error for failure in response.failures}
        unknown: list[Unit] = []
        start = 0
        for index, unit in enumerate(frame.units):
            stop = start + len(unit.columns.messages)
            if index in failures:
                error = statuses.from_error(failures[index])
                # A unit that may be split has pieces of known outcome too: it is no exact repeat.
                known = unit.split or error.metadata.get("outcome") != "unknown"
                if not known and self._may_repeat(unit, error):
                    unknown.append(unit)
                else:
                    self._unit_failed(unit, error)
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
        for frame in frames:
            frame.failures += counted(error)
            if self._retry.allows(error, frame.failures) and frame.timer is not None:
                self._repeats.append(frame)
            else:
                self._give_up(frame, _of_unknown_outcome(error))

    def _build(self) -> Frame:
        key, waiting = next(iter(self._waiting.items()))
        units: list[Unit] = []
        count = size = 0
        while waiting:
            columns = waiting[0].columns
            count += len(columns.messages)
            size += columns.size_bytes
            if units and (count > FRAME_MESSAGES_MAX or size > FRAME_BYTES_MAX):
                break
            units.append(waiting.popleft())
        # To the end of the row: entities take turns.
        del self._waiting[key]
        if waiting:
            self._waiting[key] = waiting
        self._frame_id += 1
        return Frame(self._frame_id, units, self._producer_id)

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
        if not self._retry.allows(error, frame.failures):
            self._give_up(frame, error)
            return
        # Not in flight meanwhile: others go on.
        self._resting.add(frame)
        self._loop.call_later(self._retry.pause_s(frame.failures, error), self._repeat, frame)

    def _repeat(self, frame: Frame) -> None:
        if frame in self._resting:
            self._resting.discard(frame)
            self._repeats.append(frame)
            self.stream.wake()

    def _may_repeat(self, unit: Unit, error: BusError) -> bool:
        unit.failures += 1
        pause = self._retry.pause_s(unit.failures, error)
        late = self._loop.time() + pause >= unit.deadline_s
        if late or not self._retry.allows(error, unit.failures):
            unit.failures -= 1
            return False
        return True

    def _repeat_unknown(self, frame: Frame, units: list[Unit]) -> None:
        """Send units that may be stored already again, by the name that partitions know."""
        again = Frame(frame.frame_id, units, self._producer_id)
        again.failures = frame.failures
        again.first_sent_s = frame.first_sent_s
        self._resting.add(again)
        pause = self._retry.pause_s(max(unit.failures for unit in units))
        self._loop.call_later(pause, self._repeat, again)

    def _unit_failed(self, unit: Unit, error: BusError) -> None:
        unit.failures += 1
        pause = self._retry.pause_s(unit.failures, error)
        late = self._loop.time() + pause >= unit.deadline_s
        if late or not self._retry.allows(error, unit.failures):
            self._finish(unit, error=exceptions.from_bus_error(error))
        else:
            # Nothing of it was stored: it may go into a frame of another number.
            self._loop.call_later(pause, self.send, unit)

    def _expire(self, frame: Frame) -> None:
        # The timer is spent: a frame without one is not repeated.
        frame.timer = None
        self._in_flight.pop(frame.frame_id, None)
        self._resting.discard(frame)
        if frame in self._repeats:
            self._repeats.remove(frame)
        for unit in frame.units:
            self._finish(unit, error=_timed_out(unit))
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
                self._finish(unit, error=_timed_out(unit, sent=unit.failures > 0))
        if self._waiting:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def _give_up(self, frame: Frame, error: BusError | exceptions.ServiceBusError) -> None:
        _cancel(frame)
        if isinstance(error, BusError):
            error = exceptions.from_bus_error(error)
        for unit in frame.units:
            self._finish(unit, error=error)

    def _finish(
        self, unit: Unit, numbers: list[int] | None = None, *, error: Exception | None = None
    ) -> None:
        self._admission.leave(len(unit.columns.messages), unit.columns.size_bytes)
        if error is None:
            unit.waiter.resolve(numbers)
        else:
            unit.waiter.fail(error)


def _cancel(frame: Frame) -> None:
    if frame.timer is not None:
        frame.timer.cancel()
        frame.timer = None


def _of_unknown_outcome(error: BusError) -> BusError:
    if not error.retryable:
        return error
    return type(error)(
        f"{error.message} The outcome of the send is unknown.", metadata=error.metadata
    )


def _timed_out(unit: Unit, *, sent: bool = True) -> OperationTimeoutError:
    outcome = "The outcome is unknown." if sent else "Nothing was sent."
    return OperationTimeoutError(
        message=f"{unit.entity_path}: no answer to a send in {unit.timeout_s:g} s. {outcome}",
        reason=ServiceTimeout.reason,
        metadata={"entity": unit.entity_path},
    )


def _closed_error() -> exceptions.ServiceBusConnectionError:
    return exceptions.ServiceBusConnectionError(
        message="The client was closed before the outcome of the send was known.",
        retryable=False,
    )
