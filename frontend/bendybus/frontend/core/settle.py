"""Settling: tokens lead straight to their partitions; outcomes come back per token."""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain import bounds, errors, lock_token
from bendybus.domain.errors import BusError
from bendybus.frontend.core.figures import Figures
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses

TIMEOUT_S: Final = 30.0
# A number that the contract does not name gets here, too.
_DISPOSITIONS: Final = frozenset(receiver_pb2.Disposition.values()) - {0}


@dataclass(slots=True)
class _Settling:
    """One frame of a client: what its partitions still owe."""

    future: asyncio.Future[receiver_pb2.SettleResult]
    result: receiver_pb2.SettleResult
    entity_uid: str
    settler_id: bytes
    until_s: float
    # Every partition was told, or is known not to be reached.
    started: bool = False
    # settle id → (partition, indexes of its tokens in the frame)
    waiting: dict[int, tuple[int, list[int]]] = field(default_factory=dict)


class SettleDesk:
    """All settlements of this front end that are under way."""

    def __init__(self, upstreams: dict[int, Upstream], figures: Figures) -> None:
        self._upstreams = upstreams
        self._figures = figures
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Settling] = {}

    async def settle(
        self, frame: receiver_pb2.SettleFrame, *, entity_uid: str = "", settler_id: bytes = b""
    ) -> receiver_pb2.SettleResult:
        """Return the outcome of a frame. Raises InvalidArgument for what is no settlement.

        With `entity_uid` only messages of that entity are settled; tokens of others are lost.
        """
        count = check(frame)
        loop = asyncio.get_running_loop()
        result = receiver_pb2.SettleResult(frame_id=frame.frame_id)
        until_s = loop.time() + TIMEOUT_S
        settling = _Settling(loop.create_future(), result, entity_uid, settler_id, until_s)
        timer: asyncio.TimerHandle | None = None
        self._figures.settled.labels(
            receiver_pb2.Disposition.Name(frame.disposition).removeprefix("DISPOSITION_").lower()
        ).inc(count)
        try:
            for partition, indexes in _by_partition(frame.lock_tokens, count).items():
                upstream = self._upstreams.get(partition)
                if upstream is None:
                    _fail(settling, indexes, _no_such(partition))
                    continue
                request = self._request(settling, frame, partition, indexes, count)
                await self._start(settling, upstream, request, indexes)
            settling.started = True
            self._finish(settling)
            timer = loop.call_at(until_s, self._give_up, settling)
            return await settling.future
        finally:
            if timer is not None:
                timer.cancel()
            for settle_id in settling.waiting:
                self._waiting.pop(settle_id, None)

    def settled(self, result: partition_pb2.SettleResult) -> None:
        """Take a partition's outcome."""
        settling = self._waiting.pop(result.settle_id, None)
        if settling is None:
            return
        _, indexes = settling.waiting.pop(result.settle_id)
        for failure in result.failures:
            settling.result.failures.add(
                indexes=[indexes[index] for index in failure.indexes], error=failure.error
            )
        if result.locked_until_ms:
            settling.result.locked_until_ms = result.locked_until_ms
            settling.result.lock_remaining_ms = result.lock_remaining_ms
        self._finish(settling)

    def lost(self, partition: int, why: str) -> None:
        """Take the end of a partition's stream: what it was to settle is unknown."""
        for settle_id, settling in list(self._waiting.items()):
            if settling.waiting[settle_id][0] == partition:
                del self._waiting[settle_id]
                _, indexes = settling.waiting.pop(settle_id)
                _fail(settling, indexes, _unknown(partition, why))
                self._finish(settling)

    def _request(
        self,
        settling: _Settling,
        frame: receiver_pb2.SettleFrame,
        partition: int,
        indexes: list[int],
        count: int,
    ) -> partition_pb2.DeliverFramesRequest:
        tokens = frame.lock_tokens
        if len(indexes) != count:
            size = lock_token.TOKEN_BYTES
            tokens = b"".join([tokens[i * size : i * size + size] for i in indexes])
        return partition_pb2.DeliverFramesRequest(
            partition=partition,
            settle=partition_pb2.Settle(
                settle_id=next(self._ids),
                disposition=frame.disposition,
                lock_tokens=tokens,
                changed_properties=frame.changed_properties,
                dead_letter_reason=frame.dead_letter_reason,
                dead_letter_error_description=frame.dead_letter_error_description,
                entity_uid=settling.entity_uid,
                settler_id=settling.settler_id,
                repeat=frame.repeat,
            ),
        )

    async def _start(
        self,
        settling: _Settling,
        upstream: Upstream,
        request: partition_pb2.DeliverFramesRequest,
        indexes: list[int],
    ) -> None:
        """Hand a part of a frame to its partition; wait while that one's outbox is full."""
        renewal = request.settle.disposition == receiver_pb2.DISPOSITION_RENEW_LOCK
        partition, settle_id = upstream.partition, request.settle.settle_id
        while not upstream.settle(request, renewal=renewal):
            if not upstream.delivers:
                _fail(settling, indexes, _unreachable(partition, "its stream is not open"))
                return
            left_s = settling.until_s - asyncio.get_running_loop().time()
            if renewal or left_s <= 0:
                # Renewals do not wait: by then the lock may be over.
                _fail(settling, indexes, _busy(partition))
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await upstream.room()
        settling.waiting[settle_id] = (partition, indexes)
        self._waiting[settle_id] = settling

    def _finish(self, settling: _Settling) -> None:
        if settling.started and not settling.waiting and not settling.future.done():
            settling.future.set_result(settling.result)

    def _give_up(self, settling: _Settling) -> None:
        for settle_id, (partition, indexes) in list(settling.waiting.items()):
            self._waiting.pop(settle_id, None)
            error = _unknown(partition, f"no answer in {TIMEOUT_S:.0f} s")
            _fail(settling, indexes, error)
        settling.waiting.clear()
        self._finish(settling)


def check(frame: receiver_pb2.SettleFrame) -> int:
    """Return how many tokens a settlement has. Raises InvalidArgument for what is none."""
    if frame.disposition not in _DISPOSITIONS:
        raise errors.InvalidArgument(
            "disposition", f"must be one of 1 to {max(_DISPOSITIONS)} (got {frame.disposition})."
        )
    bounds.check_settlement(
        frame.lock_tokens,
        frame.changed_properties.ByteSize(),
        frame.dead_letter_reason,
        frame.dead_letter_error_description,
    )
    return len(frame.lock_tokens) // lock_token.TOKEN_BYTES


def _fail(settling: _Settling, indexes: list[int], error: BusError) -> None:
    settling.result.failures.add(indexes=indexes, error=statuses.to_error(error))


def _by_partition(tokens: bytes, count: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    high, low = tokens[0 :: lock_token.TOKEN_BYTES], tokens[1 :: lock_token.TOKEN_BYTES]
    if low == low[:1] * count and high == high[:1] * count:
        return {high[0] << 8 | low[0]: list(range(count))}
    for index in range(count):
        found.setdefault(high[index] << 8 | low[index], []).append(index)
    return found


def _unreachable(partition: int, why: str) -> BusError:
    return errors.PartitionUnavailable(
        f"partition {partition} is unavailable ({why}); what it holds stays locked until the lock "
        "ends, then it is delivered again. Repeat the settlement.",
        metadata={"partition": str(partition)},
    )


def _unknown(partition: int, why: str) -> BusError:
    return errors.OutcomeUnknown(
        f"partition {partition} did not answer ({why}); the outcome of the settlement is unknown. "
        "Repeat it.",
        metadata={"partition": str(partition)},
    )


def _busy(partition: int) -> BusError:
    return errors.ServerBusy(
        f"partition {partition}: too many renewals or settlements wait. Repeat it.",
        metadata={"partition": str(partition)},
    )


def _no_such(partition: int) -> BusError:
    return errors.MessageLockLost(
        f"the lock token is of partition {partition}, which this namespace does not have.",
        metadata={"partition": str(partition)},
    )
