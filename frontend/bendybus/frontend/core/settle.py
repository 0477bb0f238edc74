"""Settling: tokens lead straight to their partitions; outcomes come back per token.

A request names lock tokens and what becomes of their messages; properties that change are opaque.
Outcomes and errors are values; what they become on the wire is the listener's.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain import bounds, errors, limits, lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.upstream import Upstream

TIMEOUT_S: Final = 30.0
# How late a settlement may be found to have timed out.
SWEEP_S: Final = 1.0


# One for each settlement of a client: not frozen, which costs more.
@dataclass(slots=True)
class SettleRequest:
    """Lock tokens, 16 bytes each, and what becomes of their messages."""

    disposition: Disposition
    lock_tokens: bytes
    # Application properties to change; opaque.
    changed_properties: columns.Properties | None = None
    dead_letter_reason: str = ""
    dead_letter_error_description: str = ""
    # Only messages of this entity are settled, tokens of others are lost; empty: of all.
    entity_uid: str = ""
    # The receiver that settles, for safe repeats; empty: none.
    settler_id: bytes = b""
    # The tokens were in a settlement of this settler before, whose outcome is not known.
    repeat: bool = False
    # Of the receiver's session; empty: it has none.
    session_token: bytes = b""
    # Of an abandon: how long the messages are not received; 0: at once.
    delay_ms: int = 0
    # Tokens of another sub-queue, or of a message with another id, are lost; 0 and "": of any.
    sub_queue: int = 0
    message_id: str = ""


@dataclass(slots=True)
class SettleOutcome:
    """What became of a settlement's tokens."""

    # Indexes of tokens that are not settled, and why.
    failures: list[tuple[Sequence[int], BusError]] = field(default_factory=list)
    # Of renewed locks: when they end, and how long they last from the renewal on.
    locked_until_ms: int = 0
    lock_remaining_ms: int = 0


@dataclass(slots=True, eq=False)
class Settling:
    """A settlement under way: the answers that partitions still have to give."""

    request: SettleRequest
    answer: Callable[["Settling"], None]
    until_s: float
    outcome: SettleOutcome = field(default_factory=SettleOutcome)
    # Every partition was told, or is known not to be reached.
    started: bool = False
    # Answered, or its caller no longer waits.
    done: bool = False
    # settle id → (partition, indexes of its tokens in the request)
    waiting: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    # Set while parts of it wait for room in the outboxes of their partitions.
    task: asyncio.Task[None] | None = None
    # Called once when no partition has any part of it, even if its caller no longer waits.
    let_go: Callable[[], None] | None = None


# A part: its partition, what that is told under which id, its tokens' indexes in the request.
_Part = tuple[Upstream, deliver_frames.Frame, int, list[int]]


class SettleDispatcher:
    """All settlements of this front end that are under way."""

    def __init__(self, upstreams: dict[int, Upstream], metrics: Metrics) -> None:
        self._upstreams = upstreams
        self._metrics = metrics
        self._ids = itertools.count(1)
        self._waiting: dict[int, Settling] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def settle(
        self, request: SettleRequest, let_go: Callable[[], None] | None = None
    ) -> SettleOutcome:
        """Return the outcome of a settlement. Raises InvalidArgument. `let_go`: see `start`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(_: Settling) -> None:
            if not future.done():
                future.set_result(None)

        settling = self.start(request, answer, let_go)
        try:
            await future
        finally:
            self.forget(settling)
        return settling.outcome

    def start(
        self,
        request: SettleRequest,
        answer: Callable[[Settling], None],
        let_go: Callable[[], None] | None = None,
    ) -> Settling:
        """Begin what `settle` does; `answer` is called once with the outcome, perhaps at once.

        `let_go` is called once when no partition has anything of it any more, even if it was
        forgotten.
        """
        count = check(request)
        until_s = asyncio.get_running_loop().time() + TIMEOUT_S
        settling = Settling(request, answer, until_s, let_go=let_go)
        self._metrics.settled.counts[request.disposition.name.lower()] += count
        late: list[_Part] = []
        # Indexes of tokens whose partitions do not exist.
        unknown: list[int] = []
        for partition, indexes in _by_partition(request.lock_tokens, count).items():
            upstream = self._upstreams.get(partition)
            if upstream is None:
                unknown += indexes
                continue
            settle_id = next(self._ids)
            frame = _frame(request, partition, settle_id, indexes, count)
            part = (upstream, frame, settle_id, indexes)
            if not self._tell(settling, part):
                late.append(part)
        if unknown:
            # One error for all: there may be thousands of them.
            unknown.sort()
            _fail(settling, unknown, _no_such(request.lock_tokens, unknown[0]))
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
        """Leave a settlement to its partitions: its caller no longer waits for the outcome."""
        settling.done = True
        if settling.task is not None:
            settling.task.cancel()
        # The parts that partitions have stay there, and count until they answer.
        self._finish(settling)

    def settled(self, answer: deliver_frames.Settled) -> None:
        """Take a partition's outcome."""
        settling = self._waiting.pop(answer.settle_id, None)
        if settling is None:
            return
        _, indexes = settling.waiting.pop(answer.settle_id)
        outcome = settling.outcome
        for failed, error in answer.failures:
            _fail(settling, [indexes[index] for index in failed], error)
        if answer.locked_until_ms:
            outcome.locked_until_ms = answer.locked_until_ms
            outcome.lock_remaining_ms = answer.lock_remaining_ms
        self._finish(settling)

    def lost(self, partition: int, why: str) -> None:
        """Take the end of a partition's stream: what it was to settle is unknown."""
        for settle_id, settling in list(self._waiting.items()):
            if settling.waiting[settle_id][0] == partition:
                del self._waiting[settle_id]
                _, indexes = settling.waiting.pop(settle_id)
                _fail(settling, indexes, _unknown(partition, why))
                self._finish(settling)

    def _tell(self, settling: Settling, part: _Part, *, waited: bool = False) -> bool:
        """Hand a part to its partition; return False if it is to wait for room there.

        `waited`: it did, and this room is its.
        """
        upstream, frame, settle_id, indexes = part
        partition, disposition = upstream.partition, settling.request.disposition
        renewal = disposition is Disposition.RENEW_LOCK
        if disposition is Disposition.RELEASE:
            # An ask must not overtake it: it would get the messages that come after these.
            told = upstream.follow(frame)
        else:
            told = upstream.settle(frame, renewal=renewal, waited=waited)
        if told:
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
            waited = False
            while not self._tell(settling, part, waited=waited):
                left_s = settling.until_s - asyncio.get_running_loop().time()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await part[0].room()
                        waited = True
            # None may have waited for an answer when it began.
            self._watch()
        settling.started = True
        self._finish(settling)

    def _finish(self, settling: Settling) -> None:
        if settling.started and not settling.waiting and not settling.done:
            settling.done = True
            settling.answer(settling)
        let_go = settling.let_go
        if let_go is not None and settling.done and not settling.waiting:
            settling.let_go = None
            let_go()

    def _watch(self) -> None:
        if self._sweeper is None and self._waiting:
            # One timer for all of them: nearly every settlement is answered within milliseconds.
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now_s = asyncio.get_running_loop().time()
        late = {
            id(each): each
            for each in self._waiting.values()
            # One that is not started fails what is left of it in a moment.
            if each.until_s <= now_s and each.started and not each.done
        }
        for settling in late.values():
            self._give_up(settling)
        self._watch()

    def _give_up(self, settling: Settling) -> None:
        """Answer a settlement whose time is over; what partitions have of it counts further on."""
        for settle_id, (partition, indexes) in list(settling.waiting.items()):
            error = _unknown(partition, f"no answer in {TIMEOUT_S:.0f} s")
            _fail(settling, indexes, error)
            if settling.let_go is None:
                # Nothing is counted.
                del self._waiting[settle_id], settling.waiting[settle_id]
        settling.done = True
        settling.answer(settling)


def check(request: SettleRequest) -> int:
    """Return how many tokens a settlement has. Raises InvalidArgument."""
    changed = request.changed_properties
    bounds.check_settlement(
        request.lock_tokens,
        0 if changed is None else changed.ByteSize(),
        request.dead_letter_reason,
        request.dead_letter_error_description,
    )
    if changed is not None:
        columns.check_properties(changed)
    if request.delay_ms:
        bounds.check_number("delay", request.delay_ms, limits.ABANDON_DELAY_MS_MAX)
    return len(request.lock_tokens) // lock_token.TOKEN_BYTES


def _fail(settling: Settling, indexes: list[int], error: BusError) -> None:
    # An answer that was given stays as it is.
    if not settling.done:
        settling.outcome.failures.append((indexes, error))


def _frame(
    request: SettleRequest, partition: int, settle_id: int, indexes: list[int], count: int
) -> deliver_frames.Frame:
    tokens = request.lock_tokens
    if len(indexes) != count:
        size = lock_token.TOKEN_BYTES
        tokens = b"".join([tokens[i * size : i * size + size] for i in indexes])
    return deliver_frames.settle(
        partition=partition,
        settle_id=settle_id,
        disposition=request.disposition,
        lock_tokens=tokens,
        changed_properties=request.changed_properties,
        dead_letter_reason=request.dead_letter_reason,
        dead_letter_error_description=request.dead_letter_error_description,
        entity_uid=request.entity_uid,
        settler_id=request.settler_id,
        repeat=request.repeat,
        session_token=request.session_token,
        delay_ms=request.delay_ms,
        sub_queue=request.sub_queue,
        message_id=request.message_id,
    )


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
        f"partition {partition}: settlement queue is full. Repeat the settlement.",
        metadata={"partition": str(partition)},
    )


def _no_such(tokens: bytes, index: int) -> BusError:
    """Return the error for tokens of partitions that do not exist; it names that of one token."""
    start = index * lock_token.TOKEN_BYTES
    partition = lock_token.partition_of(tokens[start : start + lock_token.TOKEN_BYTES])
    return errors.MessageLockLost(
        f"invalid lock token: this namespace has no partition {partition}.",
        metadata={"partition": str(partition)},
    )
