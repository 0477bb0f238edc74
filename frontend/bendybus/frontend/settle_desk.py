"""Settling: tokens lead straight to their partitions; outcomes come back per token."""

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain import bounds, errors, lock_token
from bendybus.domain.errors import BusError
from bendybus.frontend.figures import Figures
from bendybus.frontend.upstreams import Upstream
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses

TIMEOUT_S: Final = 30.0


@dataclass(slots=True)
class _Settling:
    """One frame of a client: what its partitions still owe."""

    future: asyncio.Future[receiver_pb2.SettleResult]
    result: receiver_pb2.SettleResult
    entity_uid: str
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
        self, frame: receiver_pb2.SettleFrame, *, entity_uid: str = ""
    ) -> receiver_pb2.SettleResult:
        """Return the outcome of a frame. Raises InvalidArgument for what is no settlement.

        With `entity_uid` only messages of that entity are settled; tokens of others are lost.
        """
        if not frame.disposition:
            raise errors.InvalidArgument("disposition", "say what becomes of the messages.")
        bounds.check_settlement(
            frame.lock_tokens,
            frame.changed_properties.ByteSize(),
            frame.dead_letter_reason,
            frame.dead_letter_error_description,
        )
        count = len(frame.lock_tokens) // lock_token.TOKEN_BYTES
        loop = asyncio.get_running_loop()
        result = receiver_pb2.SettleResult(frame_id=frame.frame_id)
        settling = _Settling(loop.create_future(), result, entity_uid)
        for partition, indexes in _by_partition(frame.lock_tokens, count).items():
            self._start(settling, frame, partition, indexes, count)
        self._figures.settled.labels(
            receiver_pb2.Disposition.Name(frame.disposition).removeprefix("DISPOSITION_").lower()
        ).inc(count)
        self._finish(settling)
        timer = loop.call_later(TIMEOUT_S, self._give_up, settling)
        try:
            return await settling.future
        finally:
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
            settling.result.failures.add(index=indexes[failure.index], error=failure.error)
        if result.locked_until_ms:
            settling.result.locked_until_ms = result.locked_until_ms
        self._finish(settling)

    def lost(self, partition: int, why: str) -> None:
        """Take the end of a partition's stream: what it was to settle is unknown."""
        for settle_id, settling in list(self._waiting.items()):
            if settling.waiting[settle_id][0] == partition:
                del self._waiting[settle_id]
                _, indexes = settling.waiting.pop(settle_id)
                self._fail(settling, indexes, _unreachable(partition, why))
                self._finish(settling)

    def _start(
        self,
        settling: _Settling,
        frame: receiver_pb2.SettleFrame,
        partition: int,
        indexes: list[int],
        count: int,
    ) -> None:
        upstream = self._upstreams.get(partition)
        if upstream is None:
            self._fail(settling, indexes, _no_such(partition))
            return
        tokens = frame.lock_tokens
        if len(indexes) != count:
            size = lock_token.TOKEN_BYTES
            tokens = b"".join([tokens[i * size : i * size + size] for i in indexes])
        settle_id = next(self._ids)
        request = partition_pb2.DeliverFramesRequest(
            partition=partition,
            settle=partition_pb2.Settle(
                settle_id=settle_id,
                disposition=frame.disposition,
                lock_tokens=tokens,
                changed_properties=frame.changed_properties,
                dead_letter_reason=frame.dead_letter_reason,
                dead_letter_error_description=frame.dead_letter_error_description,
                entity_uid=settling.entity_uid,
            ),
        )
        if not upstream.deliver(request):
            self._fail(settling, indexes, _unreachable(partition, "its stream is not open"))
            return
        settling.waiting[settle_id] = (partition, indexes)
        self._waiting[settle_id] = settling

    def _fail(self, settling: _Settling, indexes: list[int], error: BusError) -> None:
        proto = statuses.to_error(error)
        settling.result.failures.extend(
            [receiver_pb2.SettleFailure(index=index, error=proto) for index in indexes]
        )

    def _finish(self, settling: _Settling) -> None:
        if not settling.waiting and not settling.future.done():
            settling.future.set_result(settling.result)

    def _give_up(self, settling: _Settling) -> None:
        for settle_id, (partition, indexes) in list(settling.waiting.items()):
            self._waiting.pop(settle_id, None)
            error = errors.ServiceTimeout(
                f"partition {partition} did not answer in {TIMEOUT_S:.0f} s; the messages may or "
                "may not be settled.",
                metadata={"partition": str(partition)},
            )
            self._fail(settling, indexes, error)
        settling.waiting.clear()
        self._finish(settling)


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
        f"partition {partition} is out of reach ({why}); what it holds stays locked until the lock "
        "ends, then it is delivered again. Repeat the settlement.",
        metadata={"partition": str(partition)},
    )


def _no_such(partition: int) -> BusError:
    return errors.MessageLockLost(
        f"the lock token is of partition {partition}, which this namespace does not have.",
        metadata={"partition": str(partition)},
    )
