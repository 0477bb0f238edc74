"""What a send stream carries: units, the frames in which they travel, and the errors of sends."""

import asyncio
from typing import Final

from bendybus.client import exceptions
from bendybus.client.core.waiters import Caller
from bendybus.client.exceptions import OperationTimeoutError
from bendybus.client.messages import encode
from bendybus.client.messages.encode import Columns
from bendybus.domain import errors
from bendybus.domain.errors import BusError, ServiceTimeout
from bendybus.v1 import sender_pb2

# What columns take in a frame besides its messages.
_COLUMNS_BYTES: Final = 1_000_000


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
