"""Settling: tokens lead straight to their partitions; outcomes come back per token."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain import bounds, errors, lock_token
from bendybus.domain.errors import BusError
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses

TIMEOUT_S: Final = 30.0
# How late a settlement may be found to have timed out.
SWEEP_S: Final = 1.0
# A number that the contract does not name gets here, too.
_DISPOSITIONS: Final = frozenset(receiver_pb2.Disposition.values()) - {0}


@dataclass(slots=True, eq=False)
class Settling:
    """One frame of a client: what its partitions still owe."""

    result: receiver_pb2.SettleResult
    answer: Callable[["Settling"], None]
    entity_uid: str
    settler_id: bytes
    until_s: float
    # Every partition was told, or is known not to be reached.
    started: bool = False
    # Answered, or nobody waits any more.
    done: bool = False
    # settle id → (partition, indexes of its tokens in the frame)
    waiting: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    # Set while parts of it wait for room in the outboxes of their partitions.
    task: asyncio.Task[None] | None = None


# A part of a frame: its partition, what that is told, its tokens' indexes in the frame.
_Part = tuple[Upstream, partition_pb2.DeliverFramesRequest, list[int]]


class SettleDispatcher:
    """All settlements of this front end that are under way."""

    def __init__(self, upstreams: dict[int, Upstream], metrics: Metrics) -> None:
        self._upstreams = upstreams
        self._metrics = metrics
        self._ids = itertools.count(1)
        self._waiting: dict[int, Settling] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def settle(
        self, frame: receiver_pb2.SettleFrame, *, entity_uid: str = "", settler_id: bytes = b""
    ) -> receiver_pb2.SettleResult:
        """Return the outcome of a frame. Raises InvalidArgument for what is no settlement.

        With `entity_uid` only messages of that entity are settled; tokens of others are lost.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(_: Settling) -> None:
            if not future.done():
                future.set_result(None)

        settling = self.start(frame, answer, entity_uid=entity_uid, settler_id=settler_id)
        try:
            await future
        finally:
            self.forget(settling)
        return settling.result

    def start(
        self,
        frame: receiver_pb2.SettleFrame,
        answer: Callable[[Settling], None],
        *,
        entity_uid: str = "",
        settler_id: bytes = b"",
    ) -> Settling:
        """Begin what `settle` does; `answer` is called once with the outcome, perhaps at once."""
        count = check(frame)
        result = receiver_pb2.SettleResult(frame_id=frame.frame_id)
        until_s = asyncio.get_running_loop().time() + TIMEOUT_S
        settling = Settling(result, answer, entity_uid, settler_id, until_s)
        self._metrics.settled.labels(
            receiver_pb2.Disposition.Name(frame.disposition).removeprefix("DISPOSITION_").lower()
        ).inc(count)
        late: list[_Part] = []
        for partition, indexes in _by_partition(frame.lock_tokens, count).items():
            upstream = self._upstreams.get(partition)
            if upstream is None:
                _fail(settling, indexes, _no_such(partition))
                continue
            part = (upstream, self._request(settling, frame, partition, indexes, count), indexes)
            if not self._tell(settling, part):
                late.append(part)
        if late:
            settling.task = asyncio.get_running_loop().create_task(
                self._tell_late(settling, late), name="settle"
            )
        else:
            settling.started = True
            self._finish(settling)
        self._watch()
        return settling

    def forget(self, settling: Settling) -> None:
        """Leave a settlement to its partitions: nobody waits for the outcome."""
        settling.done = True
        if settling.task is not None:
            settling.task.cancel()
        for settle_id in settling.waiting:
            self._waiting.pop(settle_id, None)
        settling.waiting.clear()

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
        settling: Settling,
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

    def _tell(self, settling: Settling, part: _Part) -> bool:
        """Hand a part to its partition; return False if it is to wait for room there."""
        upstream, request, indexes = part
        renewal = request.settle.disposition == receiver_pb2.DISPOSITION_RENEW_LOCK
        partition, settle_id = upstream.partition, request.settle.settle_id
        if upstream.settle(request, renewal=renewal):
            settling.waiting[settle_id] = (partition, indexes)
            self._waiting[settle_id] = settling
        elif not upstream.delivers:
            _fail(settling, indexes, _unreachable(partition, "its stream is not open"))
        elif renewal or settling.until_s <= asyncio.get_running_loop().time():
            # Renewals do not wait: by then the lock may be over.
            _fail(settling, indexes, _busy(partition))
        else:
            return False
        return True

    async def _tell_late(self, settling: Settling, parts: list[_Part]) -> None:
        """Hand parts to their partitions as soon as these have room."""
        for part in parts:
            while not self._tell(settling, part):
                left_s = settling.until_s - asyncio.get_running_loop().time()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await part[0].room()
        settling.started = True
        self._finish(settling)

    def _finish(self, settling: Settling) -> None:
        if settling.started and not settling.waiting and not settling.done:
            settling.done = True
            settling.answer(settling)

    def _watch(self) -> None:
        if self._sweeper is None and self._waiting:
            # One timer for all of them: nearly every settlement is answered within milliseconds.
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now_s = asyncio.get_running_loop().time()
        late = {id(each): each for each in self._waiting.values() if each.until_s <= now_s}
        for settling in late.values():
            self._give_up(settling)
        self._watch()

    def _give_up(self, settling: Settling) -> None:
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


def _fail(settling: Settling, indexes: list[int], error: BusError) -> None:
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
