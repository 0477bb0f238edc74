"""What a send stream carries: units, the queue in which they wait, the frames in which they travel.

Units of one frame have an entity and options in common; entities take turns. What waits on a
connection is limited; above that callers wait. Ids of messages that may be stored twice are noted.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from bendybus.client import exceptions
from bendybus.client.core.io_thread import Caller, Waiter
from bendybus.client.exceptions import OperationTimeoutError
from bendybus.client.messages import encode
from bendybus.client.messages.encode import Columns
from bendybus.domain import errors
from bendybus.domain.errors import BusError, ServiceTimeout
from bendybus.v1 import sender_pb2

_log = logging.getLogger("bendybus.client")
# What columns take in a frame besides its messages.
_COLUMNS_BYTES: Final = 1_000_000
WAITING_MESSAGES_MAX: Final = 50_000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
# The entity, the time-out and whether the unit may be split: equal within a frame.
_Key = tuple[str, float, bool]
# Of possible duplicates: the message ids that are kept, and how often a line is logged, at most.
IDS_MAX: Final = 10_000
LOG_S: Final = 10.0


class Unit:
    """The messages of one call: stored as a whole or not at all."""

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
        waiter: Caller[list[int] | None],
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
        # Whether the caller set the time-out: then all of it is used if a partition is unavailable.
        self.given = given
        # How many messages were before it in the frame that it was first sent in.
        self.position = 0
        self.done = False
        self.deadline_s = 0.0
        self.failures = 0


class Frame:
    """Units that are sent together, and their request, which is repeated if needed."""

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
        # Whether its timer was postponed, for responses to be read.
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

    def stop_timer(self) -> None:
        """Stop the timer of the frame, if it runs."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def of_unknown_outcome(error: BusError) -> BusError:
    """Return the error of a send that may be stored although it failed with `error`."""
    return errors.OutcomeUnknown(
        f"{error.message} The outcome of the send is unknown.",
        metadata={**error.metadata, "cause": error.reason},
    )


def timed_out(unit: Unit, *, sent: bool = True) -> OperationTimeoutError:
    """Return the error of a unit whose time has passed; `sent`: it may be stored."""
    outcome = "The outcome is unknown." if sent else "Nothing was sent."
    kind = exceptions.OutcomeUnknownError if sent else OperationTimeoutError
    return kind(
        message=f"{unit.entity_path}: no answer to a send in {unit.timeout_s:g} s. {outcome}",
        reason=(errors.OutcomeUnknown if sent else ServiceTimeout).reason,
        metadata={"entity": unit.entity_path},
    )


def closed() -> exceptions.ServiceBusConnectionError:
    """Return the error of a unit whose client was closed."""
    return exceptions.ServiceBusConnectionError(
        message="The client was closed before the outcome of the send was known.",
        retryable=False,
    )


def fits(frame: Frame, bytes_max: int) -> bool:
    """Whether a bus that takes requests up to a size, 0: not told, takes a frame.

    gRPC would end the stream over one that is larger, with the sends of others on it.
    """
    return not bytes_max or frame.size_bytes <= bytes_max - _COLUMNS_BYTES


def too_large(frame: Frame) -> BusError:
    """Return the error for a frame that no entity of the bus takes."""
    return errors.MessageSizeExceeded(
        f"{frame.units[0].entity_path}: {frame.size_bytes} bytes are larger than any message of "
        "this bus. Send less at a time, or keep the data elsewhere and send a reference."
    )


class SendQueue:
    """A row of waiting units for each key, in the order of the turns. On the I/O thread only."""

    def __init__(self) -> None:
        self._rows: dict[_Key, deque[Unit]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, unit: Unit) -> None:
        """Add a unit at the end of its row."""
        key = (unit.entity_path, unit.timeout_s, unit.split)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = deque()
        row.append(unit)

    def first_row(self) -> deque[Unit]:
        """Return the row whose turn it is."""
        return next(iter(self._rows.values()))

    def take(self, messages_max: int, bytes_max: int) -> tuple[list[Unit], list[Unit]]:
        """Remove units for a frame; return them, and those whose callers were cancelled."""
        key, row = next(iter(self._rows.items()))
        units: list[Unit] = []
        cancelled: list[Unit] = []
        count = size = 0
        while row:
            unit = row[0]
            if unit.waiter.abandoned:
                cancelled.append(row.popleft())
                continue
            columns = unit.columns
            added = len(columns.messages)
            size += columns.size_bytes
            if units and (count + added > messages_max or size > bytes_max):
                break
            unit.position = count
            count += added
            units.append(row.popleft())
        # The turn of this row comes again after all others.
        del self._rows[key]
        if row:
            self._rows[key] = row
        return units, cancelled

    def remove_if(self, condition: Callable[[Unit], bool]) -> list[Unit]:
        """Remove and return the units for which `condition` is true; called once for each."""
        removed: list[Unit] = []
        for key, row in list(self._rows.items()):
            kept: deque[Unit] = deque()
            for unit in row:
                (removed if condition(unit) else kept).append(unit)
            if len(kept) == len(row):
                continue
            if kept:
                self._rows[key] = kept
            else:
                del self._rows[key]
        return removed


class SendLimit:
    """Counts messages and bytes; first come, first served. From any thread.

    The lock is held for a few additions only, never while a waiter is called.
    """

    def __init__(
        self, messages_max: int = WAITING_MESSAGES_MAX, bytes_max: int = WAITING_BYTES_MAX
    ) -> None:
        self._lock = threading.Lock()
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._messages = self._bytes = 0
        self._waiting: deque[tuple[int, int, Waiter[None]]] = deque()

    def try_acquire(self, messages: int, size_bytes: int) -> bool:
        """Take room if there is enough and no caller waits for it. One unit always fits."""
        with self._lock:
            if self._waiting or not self._fits(messages, size_bytes):
                return False
            self._messages += messages
            self._bytes += size_bytes
            return True

    def wait(self, messages: int, size_bytes: int, waiter: Waiter[None]) -> None:
        """Resolve `waiter` once room is taken for it."""
        with self._lock:
            self._waiting.append((messages, size_bytes, waiter))
        self._admit()

    def cancel(self, waiter: Waiter[None]) -> None:
        """Stop waiting: the caller timed out. Does nothing if room was taken for it already."""
        with self._lock:
            kept = [entry for entry in self._waiting if entry[2] is not waiter]
            self._waiting = deque(kept)
        self._admit()

    def release(self, messages: int, size_bytes: int) -> None:
        """Give room back."""
        with self._lock:
            self._messages -= messages
            self._bytes -= size_bytes
            if not self._waiting:
                return
        self._admit()

    def _admit(self) -> None:
        admitted: list[Waiter[None]] = []
        with self._lock:
            while self._waiting and self._fits(*self._waiting[0][:2]):
                messages, size_bytes, waiter = self._waiting.popleft()
                self._messages += messages
                self._bytes += size_bytes
                admitted.append(waiter)
        for waiter in admitted:
            waiter.resolve(None)

    def _fits(self, messages: int, size_bytes: int) -> bool:
        return self._messages == 0 or (
            self._messages + messages <= self._messages_max
            and self._bytes + size_bytes <= self._bytes_max
        )


class PossibleDuplicates:
    """The last message ids of a connection that may be stored twice. On the I/O thread only."""

    def __init__(self) -> None:
        # (entity, message id)
        self.ids: deque[tuple[str, str]] = deque(maxlen=IDS_MAX)
        self._not_logged = 0
        self._log_s = 0.0

    def add(self, units: Sequence[Unit], now_s: float) -> None:
        """Add the messages of units of one entity."""
        for unit in units:
            ids = unit.columns.message_ids
            self.ids.extend((unit.entity_path, each) for each in ids)
            self._not_logged += len(ids)
        if now_s < self._log_s:
            return
        self._log_s = now_s + LOG_S
        entity = units[0].entity_path
        _log.warning(
            "sender of %s: possible duplicates: %d since the last report; a partition that "
            "may have stored them did not return in time, so another one stored them",
            *(entity, self._not_logged),
            extra={"entity": entity, "action": "possible-duplicates"},
        )
        self._not_logged = 0
